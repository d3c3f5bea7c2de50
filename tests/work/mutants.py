"""The guards of the dispatcher and of takeovers, each with what breaks without it."""

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import OnceThrough, StepSource
from pynamodb_tracker.work.takeovers import Takeovers


@dataclass(frozen=True)
class Mutant:
    """A change of one method, and the promise that it breaks."""

    name: str
    kind: type
    method: str
    old: str
    new: str
    problem: str
    setup: str

    def __str__(self) -> str:
        return self.name

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the method by its changed source."""
        found: Any = inspect.getattr_static(self.kind, self.method)
        function: Any = found.fget if isinstance(found, property) else found
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
        "limit over steps",
    ),
    Mutant(
        "over while a thread looks",
        Dispatcher,
        "_choose",
        "bool(self._running or self._looking)",
        "bool(self._running)",
        "a thread left although there was more",
        "unlocked",
    ),
    Mutant(
        "over while an attempt runs",
        Dispatcher,
        "_choose",
        "bool(self._running or self._looking)",
        "bool(self._looking)",
        "a thread left although there was more",
        "limit over steps",
    ),
    Mutant(
        "two threads ask one step",
        Dispatcher,
        "_choose",
        "source.is_taken = True",
        "pass",
        "more claims are unanswered than the window allows",
        "3 tasks",
    ),
    Mutant(
        "the end wakes nobody",
        Dispatcher,
        "_choose",
        "self._wake_all()",
        "pass",
        "a thread sleeps although all is over",
        "3 threads",
    ),
    Mutant(
        "a slot is kept if the task must not start",
        Dispatcher,
        "_return_source",
        "given.slot.leave()",
        "pass",
        "a slot is held at the end",
        "slots and a stop",
    ),
    Mutant(
        "a found task wakes nobody",
        Dispatcher,
        "_return_source",
        "self._wake_one()\n            return found",
        "return found",
        "a thread sleeps although a step is ready",
        "3 tasks",
    ),
    Mutant(
        "a task is given after the stop",
        Dispatcher,
        "_return_source",
        "None if self.stopped.is_set() or self._is_closed else given",
        "given",
        "a task was given after the stop",
        "last attempt and a stop",
    ),
    Mutant(
        "an answer wakes nobody",
        Dispatcher,
        "note_answer",
        "self._wake_one()",
        "pass",
        "a thread sleeps although a step is ready",
        "3 tasks",
    ),
    Mutant(
        "an end wakes nobody", Dispatcher, "note_end", "self._wake_one()", "pass", "sleep", "loop with an unlocked one"
    ),
    Mutant(
        "a refused task counts for the limit",
        Dispatcher,
        "note_end",
        "self._started -= was_refused",
        "pass",
        "a task that was due was not tried",
        "limit over steps",
    ),
    Mutant(
        "a stop wakes nobody",
        Dispatcher,
        "stop",
        "self.wake()",
        "pass",
        "a thread sleeps after the stop",
        "last attempt and a stop",
    ),
    Mutant(
        "the window does not wait for answers",
        Candidates,
        "_turn",
        "while not (window.has_room or window.collided):",
        "while False:",
        "more claims are unanswered than the window allows",
        "3 tasks",
    ),
    Mutant(
        "what is made due is dropped at the end",
        OnceThrough,
        "_may_have_more",
        " or bool(self._behind)",
        "",
        "a task that was due was not tried",
        "loop",
    ),
    Mutant(
        "what is made due is tried once more",
        OnceThrough,
        "_next_id",
        "if self.candidates.count_in(task_id):",
        "if True:",
        "a task was tried twice",
        "made due",
    ),
    Mutant(
        "a pause keeps what is made due",
        OnceThrough,
        "is_done",
        "self.pause is not None or not ",
        "not ",
        "a state cannot end",
        "pause",
    ),
    Mutant(
        "a step that waits for a slot is not asked again",
        StepSource,
        "is_ready",
        "self.work.slots.may_have or now >= self.look_at",
        "False",
        "all sleep",
        "loop with slots",
    ),
    Mutant(
        "a last attempt starts beside others",
        Takeovers,
        "may_start",
        " and not (left.is_last and running)",
        "",
        "a task runs beside one that has to run alone",
        "last attempt",
    ),
    Mutant(
        "others start beside a last attempt",
        Takeovers,
        "may_start",
        "self.alone is not None or",
        "",
        "a task runs beside one that has to run alone",
        "loop with an unlocked one",
    ),
    Mutant(
        "others start before a last attempt",
        Takeovers,
        "may_start",
        " or self.next_alone not in (None, given.source)",
        "",
        "a task starts before the one that waits to run alone",
        "last attempt among steps",
    ),
    Mutant(
        "steps are asked before a last attempt",
        Takeovers,
        "set_aside",
        "given is not None and source.waits_alone and self.next_alone is None",
        "False",
        "a task starts before the one that waits to run alone",
        "last attempt among steps",
    ),
    Mutant(
        "steps are asked beside a last attempt",
        Takeovers,
        "may_ask",
        "return False",
        "pass",
        "a step is asked although a task runs alone",
        "last attempt",
    ),
    Mutant(
        "the end of a last attempt is not noted",
        Takeovers,
        "note_end",
        "self.alone = None",
        "pass",
        "all sleep",
        "last attempts",
    ),
    Mutant(
        "a step whose task need not wait any more is waited for",
        Takeovers,
        "set_aside",
        "source if source.waits_alone else None",
        "source",
        "sleep",
        "last attempt and a pause",
    ),
    Mutant(
        "two tasks of a dead worker are taken over",
        Takeovers,
        "may_start",
        "self.is_free(left) and",
        "",
        "two tasks of a dead worker run at once",
        "takeovers of steps",
    ),
    Mutant(
        "the end of a takeover is not noted",
        Takeovers,
        "note_end",
        "self._count(given.left.worker, running=-1, ended=not was_refused)",
        "pass",
        "a task that was due was not tried",
        "takeovers",
    ),
    Mutant(
        "a claimed last attempt stays beside others",
        Takeovers,
        "try_to_run_alone",
        "if running == 1:",
        "if True:",
        "a task runs beside one that has to run alone",
        "loop with an unlocked one",
    ),
    Mutant(
        "a last attempt that was released is not given again",
        Takeovers,
        "note_end",
        "if again_alone:",
        "if False:",
        "a task that was due was not tried",
        "loop with an unlocked one",
    ),
    Mutant(
        "a slot that is left wakes nobody", Dispatcher, "wake", "self._wake_all()", "pass", "sleep", "slots of others"
    ),
]
