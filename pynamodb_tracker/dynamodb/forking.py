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
    """A value per table or task class. A forked process and a new connection start with new ones."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self.forget()
        in_forked_process(self.forget)

    def forget(self) -> None:
        self._guard = threading.Lock()
        self._known: WeakKeyDictionary[Any, tuple[Any, V]] = WeakKeyDictionary()

    def of(self, owner: Any) -> V:
        """Return the value of an owner, which has the method `connection`."""
        table = owner.connection()
        with self._guard:
            known = self._known.get(owner)
            if known is None or known[0] is not table:
                known = self._known[owner] = table, self._make(table)
            return known[1]

    def all(self) -> list[V]:
        return [value for _, value in list(self._known.values())]
