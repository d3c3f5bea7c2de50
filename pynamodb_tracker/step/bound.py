"""A step bound to its class of tasks: its states, and what is done with its tasks: start, run, run_all and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pynamodb_tracker import clock, query, transitions
from pynamodb_tracker.arguments import (
    check_duration,
    check_flag,
    check_function,
    check_limit,
    check_rate,
    check_task_id,
    check_text,
    check_threads,
)
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.model.damaged import checked
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.report import Report
from pynamodb_tracker.status import Codes
from pynamodb_tracker.step.bound_states import BoundStates
from pynamodb_tracker.step.declared import States, Step
from pynamodb_tracker.step.state import State, window

if TYPE_CHECKING:
    from pynamodb_tracker.batch.candidates import Feed

__all__ = ["BoundStep"]

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")


class BoundStep(BoundStates[T]):
    """A step of a class of tasks: its states, and what can be done with its tasks."""

    def __init__(self, model: type[T], declared: Step, codes: Codes, states: dict[int, State[T]]) -> None:
        super().__init__(model, declared, codes, states)
        self.number = declared.number
        self._also_from: frozenset[int] = frozenset()
        self._writes = transitions.StepWrites(model, codes, declared.max_attempts)

    @overload
    def start(
        self,
        task_id: str,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        skip_error: Literal[True],
        also_from: States = (),
        heartbeat: bool = False,
    ) -> AbstractContextManager[ExecutionContext[T], bool]: ...

    @overload
    def start(
        self,
        task_id: str,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        skip_error: bool = False,
        also_from: States = (),
        heartbeat: bool = False,
    ) -> AbstractContextManager[ExecutionContext[T], bool | None]: ...

    def start(
        self,
        task_id: str,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        skip_error: bool = False,
        also_from: States = (),
        heartbeat: bool = False,
    ) -> AbstractContextManager[ExecutionContext[T], bool | None]:
        """Return a context manager that locks the task, runs the block, records how it ended, and unlocks.

        The exceptions of the block leave unchanged, unless `skip_error` swallows them once they are recorded.
        Refused: TaskNotFoundError, TaskNotReadyError, TaskLockedError, TaskAlreadySucceededError, TaskIgnoredError,
        found out by one more request; with `detailed_error=False` it is a plain TaskNotStartableError without it.
        LockLostError where the row proves that another worker took over; ValueNotStorableError fails the attempt.
        With `heartbeat` a thread extends the lock while the block runs, each time when a third of it is over; one such
        beat is one request, and 1 write unit per started KB of the row.
        """
        task_id = check_task_id(task_id)
        check_flag("detailed_error", detailed_error)
        check_flag("skip_error", skip_error)
        check_flag("heartbeat", heartbeat)
        duration = self.declared.lock_for if lock_for is None else check_duration("lock_for", lock_for)
        also = self._also_from | self.codes_to_start_from(also_from)
        return Run(self._writes, self.declared, task_id, duration, also, detailed_error, skip_error, heartbeat)

    def run(
        self,
        task_id: str,
        function: Callable[[ExecutionContext[T]], R],
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        also_from: States = (),
        heartbeat: bool = False,
    ) -> R:
        """Start the task, call the function with the context, and return what it returns; all else is as of `start`."""
        check_function(function)
        with self.start(
            task_id, lock_for=lock_for, detailed_error=detailed_error, also_from=also_from, heartbeat=heartbeat
        ) as ctx:
            result = function(ctx)
        return result  # noqa: RET504 - in the block it would leave before the success is recorded, to a type checker

    def todo(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
        with_data: bool = True,
    ) -> Iterator[T]:
        """Return what there is to do now, oldest first: pending and failed tasks that are due, and abandoned ones.

        `only` looks at some of these three states of the step, `error_like` at tasks whose last error, on one line, has
        that text in it, in upper or lower case. `with_data=False` leaves `data` out, as a query does.
        """
        check_limit("limit", limit)
        check_flag("with_data", with_data)
        return map(checked, self._todo(since, until, only, error_like).rows(limit, with_data=with_data))

    def next_due(self) -> dict[State[T], datetime]:
        """Return for pending, failed and in_progress, where they have tasks, when the first of them can be started.

        That may be a time ago. Of a task in progress it is when its lock ends as it was claimed, and can be taken over:
        one that was extended since ends later. By the index; one request for each of these states and shards.
        """
        return {self._states[code]: time for code, time in self._todo(None, None, (), None).first().items()}

    def due_ids(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
    ) -> Iterator[str]:
        """Return the ids of `todo` as the index has them: half a read unit for about 20, and some may have moved on."""
        check_limit("limit", limit)
        return islice(self._todo(since, until, only, error_like).ids(), limit)

    def feed(
        self,
        *,
        threads: int,
        since: datetime | None = None,
        until: datetime | None = None,
        only: States = (),
        error_like: str | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> Feed:
        """Return the ids of `todo` for that many threads of a worker, in an order that keeps workers apart.

        It ends where `goes_on`, if given, which is asked for each entry of the index, says no.
        """
        from pynamodb_tracker.batch.candidates import Feed  # noqa: PLC0415 - for cold starts, which run one task

        return Feed(self._todo(since, until, only, error_like, goes_on).ids, threads=threads)

    def _todo(
        self,
        since: datetime | None,
        until: datetime | None,
        only: States,
        error_like: str | None,
        goes_on: Callable[[], bool] | None = None,
    ) -> query.Todo[T]:
        within, codes, like = window(since, until), self.codes_to_do(only), check_text("error_like", error_like)
        return query.Todo(self.model, self.codes, clock.now(), within, codes, like, goes_on)

    def run_all(
        self,
        function: Callable[[ExecutionContext[T]], object],
        *,
        threads: int = 1,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        progress: Callable[[Report], object] | None = None,
        heartbeat: bool = False,
    ) -> Report:
        """Run the function on each task of `todo`, once, on that many threads, and return what became of them.

        Errors of the function are recorded with their task and do not leave; Ctrl-C starts nothing more and leaves
        when the running ones have ended. Workers that meet each other spread over the oldest tasks. `rate` bounds
        the starts in a second. `dry_run` runs nothing, and reports what is due. `progress` is called with the report
        after each task, one call at a time. `heartbeat` is as of `start`: a thread for each task that runs.
        """
        from pynamodb_tracker.batch.batch import Batch  # noqa: PLC0415 - for cold starts, which run one task

        check_function(function)
        check_threads(threads)
        check_limit("limit", limit)
        check_flag("heartbeat", heartbeat)
        check_flag("dry_run", dry_run)
        if not (progress is None or callable(progress)):
            raise TypeError(f"progress is a function of the report, not {progress!r}")
        rate = check_rate("rate", rate)
        if dry_run:
            due = self.due_ids(since=since, until=until, limit=limit, only=only, error_like=error_like)
            return Report(due=list(due))
        feed = self.feed(threads=threads, since=since, until=until, only=only, error_like=error_like)
        start: Callable[[str], Any] = partial(self.start, heartbeat=heartbeat)
        batch = Batch(self.codes, start, function, feed, progress)
        return batch.run(limit=limit, threads=threads, rate=rate)

    def reopen(self, task_id: str) -> T:
        """Give a failed or ignored task a fresh set of attempts, and return it; a pending one stays as it is.

        TaskNotFoundError, TaskLockedError, TaskAlreadySucceededError or TaskNotReadyError otherwise.
        """
        return transitions.reopen(self._writes, check_task_id(task_id))

    def ignore(self, task_id: str, *, reason: str) -> T:
        """Set a waiting or abandoned task aside, keep the reason in its `errors`, and return it.

        TaskNotFoundError, TaskLockedError, TaskAlreadySucceededError or TaskNotReadyError otherwise.
        """
        if not isinstance(reason, str):
            raise TypeError(f"the reason is text, not {reason!r}")
        return transitions.ignore(self._writes, check_task_id(task_id), reason)

    def allow_from(self, states: States) -> None:
        """Let this step start from further states, as its declaration says."""
        self._also_from = self.codes_to_start_from(states)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Let another process find its own by the class and the name."""
        return getattr, (self.model, self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Step {self.model.__name__}.{self.name} ({self.number})>"
