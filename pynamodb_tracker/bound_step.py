"""A step bound to its class of tasks: its states, and what is done with its tasks: start, run, run_all and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

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
    shown,
)
from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.readable import checked
from pynamodb_tracker.report import Report
from pynamodb_tracker.run import Run
from pynamodb_tracker.state import State, window
from pynamodb_tracker.status import Codes, Status
from pynamodb_tracker.step import AlsoFrom, DeclaredState, Step

if TYPE_CHECKING:
    from pynamodb_tracker.feed import Feed

__all__ = ["BoundStep"]

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")


class BoundStep(Generic[T]):
    """A step of a class of tasks: its states, and what can be done with its tasks."""

    def __init__(self, model: type[T], step: Step, codes: Codes, states: dict[int, State[T]]) -> None:
        self.model = model
        self.name = step.name
        self.number = step.number
        self.codes = codes
        self.declared = step
        self._states = states
        self._also_from: frozenset[int] = frozenset()
        self._writes = transitions.StepWrites(model, codes, step.max_attempts)

    @property
    def pending(self) -> State[T]:
        """Waits for an attempt."""
        return self._states[self.codes.pending]

    @property
    def in_progress(self) -> State[T]:
        """A worker holds the lock, or died with it."""
        return self._states[self.codes.in_progress]

    @property
    def failed(self) -> State[T]:
        """The last attempt failed, and another one is allowed."""
        return self._states[self.codes.failed]

    @property
    def ignored(self) -> State[T]:
        """Set aside; waits for a person."""
        return self._states[self.codes.ignored]

    @property
    def succeeded(self) -> State[T]:
        """Done: pending of the next step, or the end."""
        return self._states[self.codes.succeeded]

    @overload
    def start(
        self,
        task_id: str,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        skip_error: Literal[True],
        also_from: AlsoFrom = (),
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
        also_from: AlsoFrom = (),
        heartbeat: bool = False,
    ) -> AbstractContextManager[ExecutionContext[T], bool | None]: ...

    def start(
        self,
        task_id: str,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        skip_error: bool = False,
        also_from: AlsoFrom = (),
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
        also = self._also_from | self.codes_of(also_from)
        return Run(self._writes, self.declared, task_id, duration, also, detailed_error, skip_error, heartbeat)

    def run(
        self,
        task_id: str,
        function: Callable[[ExecutionContext[T]], R],
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        also_from: AlsoFrom = (),
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
        only: AlsoFrom = (),
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

    def feed(self, only: AlsoFrom) -> Feed:
        """Return the ids of what there is to do now in some of the states."""
        from pynamodb_tracker.feed import Feed  # noqa: PLC0415 - for cold starts, which run one task

        return Feed(self._todo(None, None, only, None).ids)

    def _todo(
        self, since: datetime | None, until: datetime | None, only: AlsoFrom, error_like: str | None
    ) -> query.Todo[T]:
        within, codes, like = window(since, until), self._codes_to_do(only), check_text("error_like", error_like)
        return query.Todo(self.model, self.codes, clock.now(), within, codes, like)

    def _codes_to_do(self, only: AlsoFrom) -> frozenset[int]:
        """Return the codes of states that a batch looks at; ValueError for one in which this step has nothing to do."""
        if isinstance(only, State | DeclaredState | str):
            raise TypeError(f"only is a sequence of states, not one: write only=({only},)")
        codes = {self._code_of(state): state for state in only}
        for code, state in codes.items():
            if code not in (self.codes.pending, self.codes.failed, self.codes.in_progress):
                step = f"{self.model.__name__}.{self.name}"
                raise ValueError(
                    f"only has {state!r}: {step} has something to do in {step}.pending, {step}.failed and, where a "
                    f"worker left a task behind, {step}.in_progress"
                )
        return frozenset(code for code in codes if code is not None)

    def run_all(
        self,
        function: Callable[[ExecutionContext[T]], object],
        *,
        threads: int = 1,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: AlsoFrom = (),
        error_like: str | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        progress: Callable[[Report], object] | None = None,
        heartbeat: bool = False,
    ) -> Report:
        """Run the function on each task of `todo`, once, on that many threads, and return what became of them.

        Errors of the function are recorded with their task and do not leave; Ctrl-C starts nothing more and leaves
        when the running ones have ended. Workers that meet each other spread over the oldest 500 tasks. `rate` bounds
        the starts in a second. `dry_run` runs nothing, and reports what is due. `progress` is called with the report
        after each task, one call at a time. `heartbeat` is as of `start`: a thread for each task that runs.
        """
        from pynamodb_tracker.batch import Batch, in_threads  # noqa: PLC0415 - for cold starts, which run one task
        from pynamodb_tracker.feed import Feed  # noqa: PLC0415 - the same
        from pynamodb_tracker.pace import Pace  # noqa: PLC0415 - the same

        check_function(function)
        check_threads(threads)
        check_limit("limit", limit)
        check_flag("heartbeat", heartbeat)
        check_flag("dry_run", dry_run)
        if not (progress is None or callable(progress)):
            raise TypeError(f"progress is a function of the report, not {progress!r}")
        pace = Pace(check_rate("rate", rate))
        todo = self._todo(since, until, only, error_like)
        if dry_run:
            return Report(due=list(islice(todo.ids(), limit)))
        start, feed = partial(self.start, heartbeat=heartbeat), Feed(todo.ids)
        batch = Batch(self.codes, start, function, feed, pace=pace, progress=progress)
        in_threads(batch.run, islice(feed, limit), threads)
        return batch.report

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

    def codes_of(self, states: AlsoFrom) -> frozenset[int]:
        """Return the codes of further states to start from; ValueError for one that cannot be."""
        if isinstance(states, State | DeclaredState):
            raise TypeError(f"also_from is a sequence of states, not one: write also_from=({states},)")
        given: object = states
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"also_from is a sequence of states, not {shown(given)}: write also_from=(ship.failed,)")
        codes = set()
        for state in states:
            code = self._code_of(state)
            if code not in self._states:
                raise ValueError(f"also_from has {state!r}, which is no state of {self.model.__name__}")
            if self._states[code].status is Status.IN_PROGRESS:
                raise ValueError(f"also_from has {self._states[code]}: a task in progress belongs to its worker")
            codes.add(code)
        return frozenset(codes - {self.codes.pending, self.codes.failed})

    def _code_of(self, state: object) -> int | None:
        if isinstance(state, DeclaredState):
            bound = vars(self.model)["_bound_steps"].get(state.step.name)
            return bound.codes.code(state.status) if bound and bound.declared is state.step else None
        if isinstance(state, State):
            return state.code if state.use_case_id == self.model.tracker.use_case.name else None
        return None

    def allow_from(self, states: AlsoFrom) -> None:
        """Let this step start from further states, as its declaration says."""
        self._also_from = self.codes_of(states)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Let another process find its own by the class and the name."""
        return getattr, (self.model, self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Step {self.model.__name__}.{self.name} ({self.number})>"
