"""The guards of the dispatcher, each with what breaks without it."""

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import OnceThrough, StepSource


@dataclass(frozen=True)
class Mutant:
    """A change of one method, and the promise that it breaks."""

    name: str
    kind: type
    method: str
    old: str
    new: str
    problem: str
    setups: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the method by its changed source."""
        found: Any = inspect.getattr_static(self.kind, self.method)
        function = found.fget if isinstance(found, property) else found
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.method} has changed"
        names: dict[str, Any] = {}
        future = "from __future__ import annotations\n"
        changed = compile(future + source.replace(self.old, self.new), "a mutant", "exec")
        exec(changed, {**vars(sys.modules[self.kind.__module__]), "super": lambda: super(self.kind)}, names)  # noqa: S102 - code of the library
        monkeypatch.setattr(self.kind, self.method, names[self.method])


MUTANTS = [
    Mutant(
        "the limit ignores looks",
        Dispatcher,
        "_choose",
        "self._started + self._looking < self._limit",
        "self._started < self._limit",
        "more tasks start than the limit allows",
        ("limit", "limit over steps"),
    ),
    Mutant(
        "over while a thread looks",
        Dispatcher,
        "_choose",
        "bool(self._running or self._looking)",
        "bool(self._running)",
        "a thread left although there was more",
        ("limit", "made due"),
    ),
    Mutant(
        "over while an attempt runs",
        Dispatcher,
        "_choose",
        "bool(self._running or self._looking)",
        "bool(self._looking)",
        "a thread left although there was more",
        ("made due",),
    ),
    Mutant(
        "two threads ask one step",
        Dispatcher,
        "_choose",
        "source.is_taken = True",
        "pass",
        "",
        ("3 tasks",),
    ),
    Mutant(
        "the end wakes nobody",
        Dispatcher,
        "_choose",
        "self._wake_all()",
        "pass",
        "a thread sleeps although all is over",
        ("3 threads",),
    ),
    Mutant(
        "a slot is kept if the task must not start",
        Dispatcher,
        "_gave",
        "given.slot.leave()",
        "pass",
        "a slot is held at the end",
        ("slots and a stop",),
    ),
    Mutant(
        "a found task wakes nobody",
        Dispatcher,
        "_gave",
        "self._wake_one()\n            return given",
        "return given",
        "a thread sleeps although a step is ready",
        ("3 tasks", "limit", "made due", "loop of two finders"),
    ),
    Mutant(
        "a task is given after the stop",
        Dispatcher,
        "_gave",
        "not (self.stopped.is_set() or self._is_closed)",
        "True",
        "a task was given after the stop",
        ("slots and a stop",),
    ),
    Mutant(
        "an answer wakes nobody",
        Dispatcher,
        "answered",
        "self._wake_one()",
        "pass",
        "a thread sleeps although a step is ready",
        ("3 tasks", "loop"),
    ),
    Mutant(
        "an end wakes nobody",
        Dispatcher,
        "ended",
        "self._wake_one()",
        "pass",
        "sleep",
        ("loop", "loop with a limit", "loop of two finders"),
    ),
    Mutant(
        "a refused task counts for the limit",
        Dispatcher,
        "ended",
        "self._started -= was_refused",
        "pass",
        "a task that was due was not tried",
        ("limit", "limit over steps"),
    ),
    Mutant(
        "a stop wakes nobody",
        Dispatcher,
        "stop",
        "self.wake()",
        "pass",
        "a thread sleeps after the stop",
        ("slots and a stop",),
    ),
    Mutant(
        "the window does not wait for answers",
        Candidates,
        "_turn",
        "while not (window.has_room or window.collided):",
        "while False:",
        "more claims are unanswered than the window allows",
        ("3 tasks",),
    ),
    Mutant(
        "what is made due is dropped at the end",
        OnceThrough,
        "is_done",
        "self._is_exhausted and not self._behind and",
        "self._is_exhausted and",
        "",
        ("made due",),
    ),
    Mutant(
        "what is made due is tried once more",
        OnceThrough,
        "_next_id",
        "if self.candidates.count_in(task_id):",
        "if True:",
        "a task was tried twice",
        ("made due",),
    ),
    Mutant(
        "a pause keeps what is made due",
        OnceThrough,
        "is_done",
        "self.pause is not None or (",
        "(",
        "a state cannot end",
        ("pause",),
    ),
    Mutant(
        "a step that waits for a slot is not asked again",
        StepSource,
        "is_ready",
        "self.work.slots.may_have or now >= self.look_at",
        "False",
        "all sleep",
        ("slots", "slots of others"),
    ),
    Mutant(
        "a slot that is left wakes nobody",
        Dispatcher,
        "wake",
        "self._wake_all()",
        "pass",
        "sleep",
        ("slots of others", "slots and a stop"),
    ),
]
