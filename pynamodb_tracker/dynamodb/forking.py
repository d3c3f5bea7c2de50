"""Resets state in forked processes, because a thread in the parent may have held a lock."""

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

V = TypeVar("V")


def in_forked_process(reset: Callable[[], None]) -> Callable[[], None]:
    """Call this function in each forked process, before its own code runs."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=reset)
    return reset


class PerConnection(Generic[V]):
    """A value per task class, made anew in a forked process or after the class has connected anew."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self.forget()
        in_forked_process(self.forget)

    def forget(self) -> None:
        self._guard = threading.Lock()
        self._known: WeakKeyDictionary[Any, tuple[Any, V]] = WeakKeyDictionary()

    def of(self, model: Any) -> V:
        table = model.tracker.connection()
        with self._guard:
            known = self._known.get(model)
            if known is None or known[0] is not table:
                known = self._known[model] = table, self._make(table)
            return known[1]
