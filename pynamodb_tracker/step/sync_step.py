"""The operations of a step on its tasks, as calls that return once they are done."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from pynamodb_tracker import arguments, transitions
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.execution.call import call, call_for_answer
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.model.answers import answer_in, fingerprint
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.definition import States, StepDefinition
from pynamodb_tracker.step.functions import function_of
from pynamodb_tracker.step.state import State

if TYPE_CHECKING:
    from typing_extensions import deprecated  # type checkers have it; nothing imports it

    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.step.definition import BatchOptions, RunOptions
    from pynamodb_tracker.step.functions import StepFunction

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")


@arguments.named_as("BoundStep")
class SyncStep(Generic[T]):
    """A step of a class of tasks: its states, and what can be done with its tasks without an event loop."""

    def __init__(self, definition: StepDefinition[T]) -> None:
        self._definition = definition
        self.model = definition.model
        """The class of the use case."""
        self.name = definition.declared.name
        """The name that the class body gives it; not stored."""
        self.number = definition.declared.number
        """The number that is stored."""
        self.max_attempts = definition.declared.max_attempts
        """How many attempts a task has, before it is ignored."""
        self.lock_for = definition.declared.lock_for
        """How long a claim locks a task, unless it asks for another time."""
        self.function: StepFunction[T] | None = None
        """What `does` has bound; a test may replace it by a stub of its own."""

    @property
    def pending(self) -> State[T]:
        """Waits for an attempt."""
        return self._definition.states[self._definition.codes.pending]

    @property
    def in_progress(self) -> State[T]:
        """A worker holds the lock, or died while it did."""
        return self._definition.states[self._definition.codes.in_progress]

    @property
    def failed(self) -> State[T]:
        """The last attempt failed, and another one is allowed."""
        return self._definition.states[self._definition.codes.failed]

    @property
    def ignored(self) -> State[T]:
        """Not tried any more; waits for a person."""
        return self._definition.states[self._definition.codes.ignored]

    @property
    def succeeded(self) -> State[T]:
        """Done: pending of the next step, or the end."""
        return self._definition.states[self._definition.codes.succeeded]

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
        same: object = None,
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
        same: object = None,
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
        same: object = None,
    ) -> AbstractContextManager[ExecutionContext[T], bool | None]:
        """Return a context manager that locks the task, runs the block, records how it ended, and unlocks.

        Exceptions of the block propagate unchanged, unless `skip_error` suppresses them once they are recorded.
        A task that cannot start raises TaskNotFoundError, TaskNotReadyError, TaskLockedError, TaskAlreadySucceededError
        or TaskIgnoredError; it takes one more request to find out which. With `detailed_error=False` it is a plain
        TaskNotStartableError, without that request. The same error is raised, and the attempt released, if answers take
        longer than `lock_for`, so that the lock keeps expiring before the block begins. LockLostError is raised when
        the row shows that another worker has taken over; ValueNotStorableError fails the attempt. With `heartbeat`, a
        thread extends the lock while the block runs, whenever a third of it has passed; each extension is one request,
        and 1 write unit per started KB of the row. `same`, a JSON value such as the payload, tells a repeated call from
        another one with the same id: the first claim stores its fingerprint, and a start with a different one raises
        PayloadMismatchError, whatever the state of the task. After a `reopen`, the next start may have a new one.
        """
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(detailed_error=detailed_error, skip_error=skip_error, heartbeat=heartbeat)
        of = self._definition
        duration = of.declared.lock_for if lock_for is None else arguments.check_duration("lock_for", lock_for)
        also = of.also_from
        if also_from != ():
            also |= of.codes_to_start_from(also_from)
        return Run(
            of.statements,
            of.declared,
            task_id,
            duration,
            also,
            detailed_error=detailed_error,
            skip_error=skip_error,
            heartbeat=heartbeat,
            payload=None if same is None else fingerprint(same),
        )

    @overload
    def run(self, task_id: str, function: Callable[[ExecutionContext[T]], R], **options: Unpack[RunOptions]) -> R: ...

    @overload
    def run(self, task_id: str, function: None = None, **options: Unpack[RunOptions]) -> object: ...

    def run(
        self,
        task_id: str,
        function: Callable[[ExecutionContext[T]], R] | None = None,
        *,
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        also_from: States = (),
        heartbeat: bool = False,
        same: object = None,
        store_answer: bool = False,
    ) -> R | object:
        """Start the task, call the function with the context, and return its result; options as in `start`.

        The attempt fails with a TypeError if the result is an awaitable or a generator: its work is not done then.
        Without a function, it is the one that `does` has bound: TypeError if there is none. Another one than that is a
        ValueError. With `store_answer`, the result is stored with the success, as `ctx.store_answer` does: a repeated
        call raises TaskAlreadySucceededError, and `answer` returns the result for the `task` of that error.
        """
        arguments.check_flags(store_answer=store_answer)
        chosen = function_of(self, function)
        with self.start(
            task_id,
            lock_for=lock_for,
            detailed_error=detailed_error,
            also_from=also_from,
            heartbeat=heartbeat,
            same=same,
        ) as ctx:
            result = call_for_answer(chosen, ctx) if store_answer else call(chosen, ctx)
        return result  # noqa: RET504 - type checkers would take a return in the block for one that may be swallowed

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

        All shards are read, and merged: this is for people and reports, `run_all` for work.
        `only` selects some of these three states of the step. `error_like` selects tasks whose last error, on one line,
        contains that text, ignoring case. `with_data=False` leaves `data` out, as a query does.
        """
        arguments.check_limit("limit", limit)
        arguments.check_flags(with_data=with_data)
        due = self._definition.due(since=since, until=until, only=only, error_like=error_like)
        return due.rows(limit, with_data=with_data)

    def next_due(self) -> dict[State[T], datetime]:
        """Return when the first task of each state can start: of pending, failed and in_progress, if they have tasks.

        That time may have passed. Tasks that only the end of others makes due are left out. A task in progress can be
        taken over once its lock, as it was claimed, has expired; if the lock was extended since, that is later. Read
        from the index, with one request per state and shard; the shards are asked at the same time.
        """
        of = self._definition
        return {of.states[code]: time for code, time in of.due().first().items()}

    def due_ids(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
    ) -> Iterator[str]:
        """Return the ids of `todo` from the index: half a read unit for about 20, and some may have changed since."""
        arguments.check_limit("limit", limit)
        due = self._definition.due(since=since, until=until, only=only, error_like=error_like)
        return islice(due.ids(limit), limit)

    if TYPE_CHECKING:

        @overload
        def run_all(
            self, function: Callable[[ExecutionContext[T]], None] | None = None, **options: Unpack[BatchOptions]
        ) -> Report: ...

        @overload
        @deprecated("run_all refuses an async function: await arun_all(...)")  # what checkers report
        def run_all(
            self, function: Callable[[ExecutionContext[T]], Coroutine[Any, Any, Any]], **options: Unpack[BatchOptions]
        ) -> Report: ...

        @overload
        def run_all(
            self,
            function: Callable[[ExecutionContext[T]], object] | None = None,
            **options: Unpack[BatchOptions],
        ) -> Report: ...

    def run_all(
        self,
        function: Callable[[ExecutionContext[T]], object] | None = None,
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

        Tasks that its runs make due at this step, such as the next one of a group, are run by the same call, unless
        `since`, `until`, `only` or `error_like` selects tasks, or they were created after it began. The oldest task is
        first; with several shards, these take turns, from any of them on, and it is the oldest of a shard. Workers that
        compete for tasks spread over the shards and the oldest tasks in them.

        The function is that of `run`, and may be left out if one is bound.
        Exceptions of the function are recorded with their task and do not propagate. After Ctrl-C no further task
        starts, and KeyboardInterrupt propagates when the running ones have ended. `limit` is how many tasks start at
        most, `rate` how many per second.
        `dry_run` runs nothing, and reports what is due. `progress` is called with the report after each task, one call
        at a time. `heartbeat` is that of `start`: one thread for each running task.
        """
        from pynamodb_tracker.batch.batch import Batch, Report  # noqa: PLC0415 - for cold starts, which run one task
        from pynamodb_tracker.dynamodb.write_batcher import batcher_for  # noqa: PLC0415 - as above

        if function is not None or not dry_run:
            function = function_of(self, function)
        arguments.check_threads(threads)
        rate = self._check_batch(limit=limit, rate=rate, dry_run=dry_run, progress=progress, heartbeat=heartbeat)
        which: dict[str, Any] = {"since": since, "until": until, "limit": limit, "only": only, "error_like": error_like}
        if dry_run or function is None:
            return Report(due=list(self.due_ids(**which)))
        feed = self._definition.feed(threads=threads, **which)
        start: Callable[[str], Any] = partial(self.start, heartbeat=heartbeat)
        batch = Batch(self._definition.codes, start, function, feed, progress, batcher_for(threads))
        return batch.run(limit=limit, threads=threads, rate=rate)

    @staticmethod
    def _check_batch(*, limit: object, rate: float | None, progress: object, **flags: object) -> float | None:
        """Check the options of a batch, and return the rate."""
        arguments.check_limit("limit", limit)
        arguments.check_flags(**flags)
        if not (progress is None or callable(progress)) or arguments.is_async(progress):
            raise TypeError(f"progress must be a function of the report that is not async, not {progress!r}")
        return arguments.check_rate("rate", rate)

    def answer(self, task: T | str) -> Any:
        """Return the answer that the step's last success has stored, of a task or of a task id; None if it has none.

        It is None as well until the step succeeds, or while it runs again. An id costs one consistent read, and raises
        TaskNotFoundError if there is no such task. TaskError if another program has damaged the answer.
        """
        given: object = task
        if not isinstance(given, str | self.model):
            raise TypeError(f"answer takes a task id or a task of {self.model.__name__}, not {arguments.shown(given)}")
        row = transitions.get(self.model, arguments.check_task_id(task)) if isinstance(task, str) else task
        if row is None:
            raise TaskNotFoundError(f"there is no {self.model.__name__} {task!r}", task_id=str(task))
        return answer_in(row, self.number) if row.status >= self._definition.codes.succeeded else None

    def reopen(self, task_id: str, *, by: str | None = None) -> T:
        """Give a failed or ignored task a fresh set of attempts, and return it; a pending one stays as it is.

        Its next start may have another payload, if it was started with `same`.
        With `by`, such as a person's name, an entry in its `errors` says who did it. A task in another state raises
        TaskLockedError, TaskAlreadySucceededError or TaskNotReadyError, a missing one TaskNotFoundError.
        """
        return transitions.reopen(
            self._definition.statements, arguments.check_task_id(task_id), arguments.check_name("by", by)
        )

    def ignore(
        self,
        task_id: str,
        *,
        reason: str,
        by: str | None = None,
        even_running: bool = False,
        even_in_group: bool = False,
    ) -> T:
        """Make a pending, failed or abandoned task ignored, with the reason in its `errors`, and return it.

        `by`, such as a person's name, is kept with the reason; by default, that is `host:pid` of this process.
        An ignored task stays as it is. A task in another state raises TaskLockedError, TaskAlreadySucceededError or
        TaskNotReadyError, a missing one TaskNotFoundError. With `even_running`, a task that a worker holds is ignored
        as well: its block is not stopped, but its `ctx.lock_lost` becomes true at the next heartbeat, and its writes
        and its end raise LockLostError, with the reason. In a group, that takes `even_in_group` as well, because the
        next task starts while the block may still run. Two requests, and 3 write units for a row of up to 1 KB.
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(even_running=even_running, even_in_group=even_in_group)
        if even_in_group and not even_running:
            raise ValueError("even_in_group=True is about running tasks: give even_running=True as well")
        of = self._definition.statements
        return transitions.ignore(of, task_id, reason, by, even_running=even_running, even_in_group=even_in_group)

    def reopen_many(self, task_ids: Iterable[str], *, by: str | None = None, threads: int = 25) -> Report:
        """Reopen these tasks, each once and on its own, and return what became of them.

        The report lists tasks that are pending now, or were already, as succeeded. Those that `reopen` would refuse, or
        whose request failed, are refused, with the error that it would raise; none of them stops the others. `task_ids`
        is read lazily, so it can be a generator of any length. The threads share requests, each of which reopens up to
        25 tasks. After Ctrl-C no further task is changed, and KeyboardInterrupt propagates when the requests under way
        have ended.
        """
        by, ids = arguments.check_name("by", by), arguments.check_task_ids("reopen_many", task_ids)
        arguments.check_threads(threads)
        from pynamodb_tracker.batch.bulk import each_once, report_of_each  # noqa: PLC0415 - for cold starts

        def reopen(task_id: str, _given: None) -> Literal["succeeded"]:
            transitions.reopen(self._definition.statements, task_id, by)
            return "succeeded"

        return report_of_each(((task_id, None) for task_id in each_once(ids)), reopen, threads)

    def ignore_many(self, task_ids: Iterable[str], *, reason: str, by: str | None = None, threads: int = 25) -> Report:
        """Ignore these tasks, each once and on its own, and return what became of them.

        The report lists tasks that are ignored now, or were already, as ignored. Those that `ignore` would refuse, or
        whose request failed, are refused, with the error that it would raise; none of them stops the others. `task_ids`
        is read lazily, 100 at a time, whose rows are read together; the threads share requests, and Ctrl-C ends it, as
        in `reopen_many`. The step's `when_ignored` is called on these threads.
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        ids = arguments.check_task_ids("ignore_many", task_ids)
        arguments.check_threads(threads)
        from pynamodb_tracker.batch.bulk import each_once, report_of_each, with_rows  # noqa: PLC0415 - for cold starts

        def ignore(task_id: str, found: T | None) -> Literal["ignored"]:
            transitions.ignore(self._definition.statements, task_id, reason, by, found=found)
            return "ignored"

        return report_of_each(with_rows(self.model, each_once(ids)), ignore, threads)

    def release(self, task_id: str, *, reason: str, worker: str | None = None, by: str | None = None) -> T:
        """Release a task whose worker is known to be dead, without waiting for its lock to expire, and return it.

        It is pending at once. The attempt counts: after the last one, the next start makes the task ignored. `worker`,
        as it stands in the row, makes sure that no other worker's task is released: TaskLockedError. If the worker
        lives after all, its writes raise LockLostError from then on; effects outside of the table may happen twice. The
        reason is kept in `errors`, and `by` as in `ignore`. A pending or failed task stays as it is; otherwise raises
        TaskNotFoundError, TaskAlreadySucceededError, TaskIgnoredError or TaskNotReadyError.
        """
        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        worker = arguments.check_name("worker", worker)
        return transitions.revoke(self._definition.statements, arguments.check_task_id(task_id), reason, worker, by)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle as a reference: another process finds its own by the class and the name."""
        return getattr, (self.model, self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Step {self.model.__name__}.{self.name} ({self.number})>"
