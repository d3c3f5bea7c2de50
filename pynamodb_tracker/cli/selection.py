"""The tasks that `run` and `retry` are about: those that are due in a step, or those that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.batch.candidates import Source
from pynamodb_tracker.presentation.text import between, count
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task


@dataclass(frozen=True, slots=True)
class Pass:
    """Some tasks of a batch, and how each is started."""

    source: Source
    start: Callable[[str], Any]


class TheseIds:
    """These ids and no others, in this order, no matter what other workers do."""

    is_of_due = False

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = ids

    def __iter__(self) -> Iterator[str]:
        """Yield them."""
        return iter(self._ids)

    def note_response(self, *, was_taken: bool) -> None:
        """Go on as before."""

    def count_in(self, task_id: str) -> bool:  # noqa: ARG002 - as of any source
        """Return False: no other is wanted."""
        return False


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """Tasks that a person has named; each is started once, whatever its due time says about the others."""

    step: BoundStep[Any]
    ids: Sequence[str]

    @property
    def is_named(self) -> bool:
        """Whether the tasks were named one by one, so that one that another worker has is a refusal."""
        return True

    @property
    def has_total(self) -> bool:
        """Whether `count` says how many tasks there are."""
        return True

    def count(self) -> int:
        """Return how many tasks are named."""
        return len(self.ids)

    def remaining(self, _done: int) -> int | None:
        """Return None: there is no limit."""
        return None

    def passes(self, _threads: int, *, heartbeat: bool) -> Iterator[Pass]:
        """Yield the tasks."""
        yield Pass(TheseIds(self.ids), partial(self.step.start, heartbeat=heartbeat))

    def why_empty(self) -> str:
        """Return that no task is named."""
        return f"nothing to run at {self.step.name}: stdin names no task"

    def skipped(self, _began: datetime, _expected: int | None, _done: int) -> str:
        """Return nothing: each of them was tried."""
        return ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a step that a batch is about; with `ignored`, ignored ones are reopened and run, too."""

    step: BoundStep[Any]
    only: tuple[State[Any], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    error_contains: str | None = None
    ignored: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the tasks were named one by one, so that one that another worker has is a refusal."""
        return False

    @property
    def has_total(self) -> bool:
        """Whether `count` says how many tasks there are."""
        return not self.error_contains

    def due(self) -> list[str]:
        """Return the ids of the tasks that would be run now."""
        due = list(self.step.due_ids(**self._options(), limit=self.limit))
        if self.ignored:
            due += islice(self.ignored_ids(clock.now()), self.remaining(len(due)))
        return due

    def count(self) -> int:
        """Return how many tasks there are at most: those that are not due yet are counted, too."""
        states = [*self._waiting, *([self.step.ignored] if self.ignored else [])]
        number = self._count(states, self.limit)
        return number if self.limit is None else min(number, self.limit)

    def _count(self, states: Iterable[State[Any]], most: int | None = None) -> int:
        return sum(state.count(since=self.since, until=self.until, up_to=most) for state in states)

    def passes(self, threads: int, *, heartbeat: bool) -> Iterator[Pass]:
        """Yield the tasks that are due, and then the ignored ones."""
        began, start = clock.now(), partial(self.step.start, heartbeat=heartbeat)
        yield Pass(self.feed(threads), start)
        if self.ignored:
            # Each is claimed from ignored, not reopened first: one that this batch does not reach stays ignored.
            yield Pass(TheseIds(self.ignored_ids(began)), partial(start, also_from=(self.step.ignored,)))

    def feed(self, threads: int) -> Source:
        """Return the ids of all tasks but the ignored ones, in the order of `run_all`."""
        return self.step._definition.feed(**self._options(), limit=self.limit, threads=threads)

    def remaining(self, done: int) -> int | None:
        """Return how many more tasks the limit allows."""
        return None if self.limit is None else max(self.limit - done, 0)

    def ignored_ids(self, before: datetime) -> Iterator[str]:
        """Yield tasks that were ignored before then, so that what this batch itself ignores is not run again."""
        if self.since is not None and self.since >= before:
            return iter(())
        until = before if self.until is None else min(self.until, before)
        return (
            task.task_id
            for task in self._matching(self.step.ignored.query(since=self.since, until=until, with_data=False))
        )

    def why_empty(self) -> str:
        """Return why there was nothing to run: tasks that are not due yet, if any."""
        number = None if self.error_contains else self._count(self._waiting)
        return f"nothing to run at {self.step.name}: {self._not_due(number, self.until) or 'no matching task is due'}"

    def skipped(self, began: datetime, expected: int | None, done: int) -> str:
        """Return how many failed tasks were not due, when all others have run; empty if none, or if it is not known.

        `expected` is what `count` returned before, and `done` how many have run since it `began`.
        """
        if not self.only or self.limit is not None or (self.since is not None and self.since >= began):
            return ""
        until = began if self.until is None else min(self.until, began)
        return self._not_due(None if expected is None else expected - done, until)

    def _not_due(self, number: int | None, until: datetime | None) -> str:
        """Say that so many tasks are not due yet, counted here if it is None, and when the first one will be."""
        if number is not None and number <= 0:
            return ""
        due: list[datetime] = [
            task.due_time
            for state in self._waiting
            for task in self._matching(
                state.query(since=self.since, until=until, limit=None if self.error_contains else 1, with_data=False)
            )
        ]
        number = len(due) if number is None else number
        when = f" (the first one {between(min(due))})" if due else ""
        such = f" with {self.error_contains!r} in the error" if self.error_contains else ""
        advice = "reopen makes failed tasks due at once"
        return f"{count(number)}{such} not due yet{when}; {advice}" if number else ""

    @property
    def _waiting(self) -> tuple[State[Any], ...]:
        return self.only or (self.step.pending, self.step.failed)

    def _matching(self, tasks: Iterable[Task]) -> Iterator[Task]:
        like = (self.error_contains or "").casefold()
        return (task for task in tasks if like in (task.last_error or "").casefold())

    def _options(self) -> dict[str, Any]:
        return {"only": self.only, "since": self.since, "until": self.until, "error_contains": self.error_contains}
