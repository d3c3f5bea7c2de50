"""A step bound to its class of tasks: its states, and what is done with its tasks: start, run, run_all and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, Literal, TypeVar, overload

from pynamodb_tracker import query, transitions
from pynamodb_tracker.arguments import (
    check_duration,
    check_flag,
    check_function,
    check_limit,
    check_task_id,
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
        with_data: bool = True,
    ) -> Iterator[T]:
        """Return what there is to do now, oldest first: pending and failed tasks that are due, and abandoned ones.

        `with_data=False` leaves `data` out, as a query does.
        """
        check_limit("limit", limit)
        check_flag("with_data", with_data)
        return map(checked, self._todo(since, until, limit, with_data=with_data))

    def _todo(
        self, since: datetime | None, until: datetime | None, limit: int | None, *, with_data: bool
    ) -> Iterator[T]:
        return query.todo(self.model, self.codes, window(since, until), limit, with_data=with_data)

    def run_all(
        self,
        function: Callable[[ExecutionContext[T]], object],
        *,
        threads: int = 1,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        heartbeat: bool = False,
    ) -> Report:
        """Run the function on each task of `todo`, once, on that many threads, and return what became of them.

        Errors of the function are recorded with their task and do not leave; Ctrl-C starts nothing more and leaves
        when the running ones have ended. `heartbeat` is as of `start`: a thread for each task that runs.
        """
        from pynamodb_tracker.batch import Batch, in_threads  # noqa: PLC0415 - for cold starts, which run one task

        check_function(function)
        check_threads(threads)
        check_flag("heartbeat", heartbeat)
        batch = Batch(self.codes, partial(self.start, heartbeat=heartbeat), function)
        check_limit("limit", limit)
        todo = self._todo(since, until, limit, with_data=False)
        in_threads(batch.run, (task.task_id for task in todo), threads)
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

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Step {self.model.__name__}.{self.name} ({self.number})>"
