"""A step that is bound to its use case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, Unpack, cast, overload

from pynamodb_tracker import transitions
from pynamodb_tracker.aio.lazy import ahead, awaited
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.execution.call import call, call_for_result
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.results import fingerprint, load_result
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.commands import StepCommands
from pynamodb_tracker.step.definition import States, StepDefinition
from pynamodb_tracker.step.functions import async_function_of, bind, function_of
from pynamodb_tracker.step.state import State

if TYPE_CHECKING:
    from typing_extensions import deprecated  # only type checkers need it

    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.step.definition import BatchOptions, DueOptions, RunOptions, StartOptions
    from pynamodb_tracker.step.functions import StepFunction
    from pynamodb_tracker.work.outcomes import Report

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")
F = TypeVar("F")


class BoundStep(StepCommands[T]):
    """A step, with its states and the operations on its tasks.

    Methods that begin with `a` are awaited.
    """

    def __init__(self, definition: StepDefinition[T]) -> None:
        super().__init__(definition)
        self.name = definition.declared.name
        """Its name in the class body."""
        self.number = definition.declared.number
        """The stored number."""
        self.max_attempts = definition.declared.max_attempts
        """How many attempts a task has."""
        self.lock_for = definition.declared.lock_for
        """How long a claim locks a task by default."""
        self.function: StepFunction[T] | None = None
        """The function that `does` has bound. A test may replace it."""
        states, codes = definition.states, definition.codes
        self.pending: Final[State[T]] = states[codes.pending]
        """Waiting for an attempt."""
        self.in_progress: Final[State[T]] = states[codes.in_progress]
        """Locked by a worker, which may have died."""
        self.failed: Final[State[T]] = states[codes.failed]
        """Its last attempt failed, and attempts are left."""
        self.ignored: Final[State[T]] = states[codes.ignored]
        """Waiting for a person."""
        self.succeeded: Final[State[T]] = states[codes.succeeded]
        """Pending at the next step, or at the end."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else arguments.did_you_mean(name, dir(self))
            states = "its states are pending, in_progress, failed, ignored and succeeded"
            raise AttributeError(f"{vars(self).get('name')} has no {name!r}; {states}{hint}", name=name, obj=self)

    if TYPE_CHECKING:

        @overload
        def does(
            self, function: Callable[[AsyncContext[T]], Coroutine[Any, Any, R]]
        ) -> Callable[[AsyncContext[T]], Coroutine[Any, Any, R]]: ...

        @overload
        @deprecated("an async function takes an AsyncContext")  # what checkers report
        def does(
            self, function: Callable[[ExecutionContext[T]], Coroutine[Any, Any, R]]
        ) -> Callable[[ExecutionContext[T]], Coroutine[Any, Any, R]]: ...

        @overload
        def does(self, function: Callable[[ExecutionContext[T]], R]) -> Callable[[ExecutionContext[T]], R]: ...

    def does(self, function: Any = None) -> Any:
        """Bind a function of the context to this step, as a decorator, and return it unchanged.

        `run`, `run_all`, workers, handlers and the command line call it by default. An async function takes an
        AsyncContext, and is for `arun`, `arun_all` and AsyncWorker. Derived classes do not inherit it. A different
        second function raises DefinitionError.

        Examples:
            >>> @Order.confirm_payment.does
            ... def charge(ctx):
            ...     ctx.task.data["receipt"] = "r-1"
        """
        bind(self, function)
        return function

    # The second form lacks Unpack[StartOptions], because editors show its parameters while you type a call.

    @overload
    def start(
        self, task_id: str, *, skip_error: Literal[True], **options: Unpack[StartOptions]
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
        must_match: object = None,
        ignore_concurrency_limit: bool = False,
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
        must_match: object = None,
        ignore_concurrency_limit: bool = False,
    ) -> AbstractContextManager[ExecutionContext[T], bool | None]:
        """Return a context manager that locks the task, runs the block, records how it ended, and unlocks.

        Exceptions of the block propagate unchanged. The end of the block raises LockLostError if another worker has
        taken over, and ValueNotStorableError if a value cannot be stored.

        Args:
            task_id: The task id.
            lock_for: How long the lock lasts, by default the step's `lock_for`.
            detailed_error: Send a second request to find out why a task cannot start.
            skip_error: Suppress the block's exception once it is recorded.
            also_from: More states from which the task may start.
            heartbeat: Extend the lock in a thread whenever a third of it has passed, for 1 write unit per started KB of
                the row.
            must_match: A JSON value, such as the payload. After the first claim, a different value raises
                PayloadMismatchError, until a `reopen`.
            ignore_concurrency_limit: Run the task without a slot in the step's limit.

        Raises:
            TaskNotStartableError: One of TaskNotFoundError, TaskNotReadyError, TaskLockedError,
                TaskAlreadySucceededError, TaskIgnoredError, TaskCancelledError and ConcurrencyLimitReachedError, or a
                plain one if the lock keeps expiring before the block, or without `detailed_error`.
            NestedConcurrencyLimitError: This step has a limit, and the block around this call has a slot.

        Examples:
            >>> with Order.ship.start("o-2") as ctx:
            ...     ctx.task.tracking_no = "T-1"
        """
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(
            detailed_error=detailed_error,
            skip_error=skip_error,
            heartbeat=heartbeat,
            ignore_concurrency_limit=ignore_concurrency_limit,
        )
        of = self._definition
        duration = of.declared.lock_for if lock_for is None else arguments.check_duration("lock_for", lock_for)
        also = of.also_from
        if also_from != ():
            also |= of.codes_to_start_from(also_from)
        run = Run(
            of.statements,
            of.declared,
            task_id,
            duration,
            also,
            detailed_error=detailed_error,
            skip_error=skip_error,
            heartbeat=heartbeat,
            payload=None if must_match is None else fingerprint(must_match),
        )
        if of.declared.concurrency_limit is not None and not ignore_concurrency_limit:
            run.find_slots = of.slots
        return run

    @overload
    def run(self, task_id: str, function: Callable[[ExecutionContext[T]], R], **options: Unpack[RunOptions]) -> R: ...

    @overload
    def run(self, task_id: str, function: None = None, **options: Unpack[RunOptions]) -> object: ...

    def run(
        self,
        task_id: str,
        function: Callable[[ExecutionContext[T]], R] | None = None,
        *,
        store_result: bool = False,
        **options: Unpack[StartOptions],
    ) -> R | object:
        """Start the task, call the function with the context, and return its result.

        If it returns an awaitable or a generator, its work is not done, and the attempt fails with a TypeError.

        Args:
            task_id: The id of the task.
            function: The function to call with the context, by default the bound one.
            store_result: Store the result, as `ctx.store_result` does. A repeated call raises
                TaskAlreadySucceededError, and `result` reads it from that error's `task`.
            **options: The options of `start`, but not `skip_error`.

        Raises:
            TypeError: No function is given or bound.
            ValueError: The given function is not the bound one.

        Examples:
            >>> Order.ship.run("o-2")
        """
        arguments.check_flags(store_result=store_result)
        chosen = function_of(self, function)
        with self.start(task_id, skip_error=False, **options) as ctx:
            result = call_for_result(chosen, ctx) if store_result else call(chosen, ctx)
        return result  # noqa: RET504 - type checkers would take a return in the block for one that may be swallowed

    if TYPE_CHECKING:

        @overload
        def astart(
            self, task_id: str, *, skip_error: Literal[True], **options: Unpack[StartOptions]
        ) -> AbstractAsyncContextManager[AsyncContext[T], bool]: ...

        @overload
        def astart(
            self, task_id: str, *, skip_error: bool = False, **options: Unpack[StartOptions]
        ) -> AbstractAsyncContextManager[AsyncContext[T], bool | None]: ...

    def astart(
        self, task_id: str, *, heartbeat: bool = False, **options: Any
    ) -> AbstractAsyncContextManager[AsyncContext[T], bool | None]:
        """Return an async context manager that runs the task on an event loop, with the options of `start`.

        If the block is cancelled from outside, the attempt is released and does not count. A timeout in the block, or a
        CancelledError that it raises itself, is a failure. A cancellation takes effect once a running request has
        ended. Off-row data and failures are read with the claim. A `heartbeat` stops while the loop hangs.
        """
        from pynamodb_tracker.aio.run import AsyncRun  # noqa: PLC0415 - few programs have an event loop

        arguments.check_flags(heartbeat=heartbeat)
        return AsyncRun(cast("Run[T]", self.start(task_id, **options)), heartbeat=heartbeat)

    @overload
    async def arun(
        self, task_id: str, function: Callable[[AsyncContext[T]], Awaitable[R]], **options: Unpack[RunOptions]
    ) -> R: ...

    @overload
    async def arun(self, task_id: str, function: None = None, **options: Unpack[RunOptions]) -> object: ...

    async def arun(
        self,
        task_id: str,
        function: Callable[[AsyncContext[T]], Awaitable[R]] | None = None,
        *,
        store_result: bool = False,
        **options: Unpack[StartOptions],
    ) -> R | object:
        """Start the task as `astart` does, await the function, and return its result. The options are as in `run`."""
        from pynamodb_tracker.aio.context import call, call_for_result  # noqa: PLC0415 - few programs have an event loop

        arguments.check_flags(store_result=store_result)
        chosen = async_function_of(self, function)
        async with self.astart(task_id, skip_error=False, **options) as ctx:
            result = await (call_for_result(chosen, ctx) if store_result else call(chosen, ctx))
        return result  # noqa: RET504 - type checkers would take a return in the block for one that may be swallowed

    def due(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_contains: str | None = None,
        with_data: bool = True,
    ) -> Iterator[T]:
        """Return the tasks to run now, oldest first: due pending and failed ones, and abandoned ones.

        This is for people and reports. To run tasks, use `run_all`.

        Args:
            since: Only tasks that came into their state at this time or later.
            until: Only tasks that came into their state before this time.
            limit: At most so many tasks.
            only: Some of this step's states `pending`, `failed` and `in_progress`.
            error_contains: Only tasks with this text in their `last_error`, in any case.
            with_data: False leaves `data` out, as in a query.

        Examples:
            >>> assert [order.task_id for order in Order.ship.due(limit=100)] == ["o-2"]
        """
        arguments.check_limit("limit", limit)
        arguments.check_flags(with_data=with_data)
        due = self._definition.due(since=since, until=until, only=only, error_contains=error_contains)
        return due.rows(limit, with_data=with_data)

    def next_due(self) -> dict[State[T], datetime]:
        """Return when the first task can start, now or later, per state: pending, failed and in_progress.

        This leaves out tasks that wait for others, and extensions of locks. One request per state and shard.

        Examples:
            >>> first = min(Order.ship.next_due().values(), default=None)
        """
        of = self._definition
        return {of.states[code]: time for code, time in of.due().first().items()}

    def due_ids(self, *, limit: int | None = None, **which: Unpack[DueOptions]) -> Iterator[str]:
        """Return the ids of `due` from the index, where about 20 cost half a read unit. Some may have changed since.

        Args:
            limit: At most so many tasks.
            **which: `since`, `until`, `only` and `error_contains`, as in `due`.

        Examples:
            >>> assert list(Order.ship.due_ids()) == ["o-2"]
        """
        arguments.check_limit("limit", limit)
        return map(str, islice(self._definition.due(**which).ids(limit), limit))

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
            self, function: Callable[[ExecutionContext[T]], object] | None = None, **options: Unpack[BatchOptions]
        ) -> Report: ...

    def run_all(
        self,
        function: Callable[[ExecutionContext[T]], object] | None = None,
        *,
        threads: int = 1,
        limit: int | None = None,
        rate: float | None = None,
        progress: Callable[[Report], object] | None = None,
        heartbeat: bool = False,
        **which: Unpack[DueOptions],
    ) -> Report:
        """Run the function on each task of `due`, once, and return a report.

        The oldest task is first, and shards take turns. The function's exceptions are recorded, but do not propagate.
        Without a selection, older tasks that become due through these runs, such as the next one of a group, also run.
        After Ctrl-C, no more tasks start, and KeyboardInterrupt propagates when the running ones have ended.

        Args:
            function: As in `run`.
            threads: How many tasks run at a time.
            limit: At most so many tasks start.
            rate: At most so many tasks start per second.
            progress: Called with the report after each task, one call at a time.
            heartbeat: As in `start`, with one thread per running task.
            **which: `since`, `until`, `only` and `error_contains`, as in `due`.

        Examples:
            >>> assert Order.ship.run_all(threads=8).succeeded == ["o-2"]
        """
        from pynamodb_tracker.work.batch import Batch  # noqa: PLC0415 - for cold starts, which run one task
        from pynamodb_tracker.work.executor import ThreadExecutor  # noqa: PLC0415 - as above

        chosen = function_of(self, function)
        arguments.check_threads(threads)
        rate = self._check_batch(limit=limit, rate=rate, progress=progress, heartbeat=heartbeat)
        options: dict[str, Any] = {"threads": threads, "limit": limit, "rate": rate, "progress": progress, **which}
        batch = Batch(self._definition, partial(self.start, heartbeat=heartbeat), chosen, **options)
        try:
            ThreadExecutor(batch.dispatcher, threads, batch.add).run()
        finally:
            batch.close()
        return batch.report

    async def arun_all(
        self,
        function: Callable[[AsyncContext[T]], Awaitable[object]] | None = None,
        *,
        concurrency: int = 25,
        limit: int | None = None,
        rate: float | None = None,
        progress: Callable[[Report], object] | None = None,
        heartbeat: bool = False,
        **which: Unpack[DueOptions],
    ) -> Report:
        """Run the async function on each task of `due`, once, and return a report. The options are as in `run_all`.

        At most `concurrency` tasks run at a time, as asyncio tasks that share requests. If this is cancelled, they are
        released, and no new ones start. `progress` is called on the event loop.
        """
        from pynamodb_tracker.aio.context import call  # noqa: PLC0415 - few programs have an event loop
        from pynamodb_tracker.work.batch import Batch  # noqa: PLC0415 - as above
        from pynamodb_tracker.work.task_executor import TaskExecutor  # noqa: PLC0415 - as above

        chosen = partial(call, async_function_of(self, function))
        arguments.check_threads(concurrency, "concurrency")
        rate = self._check_batch(limit=limit, rate=rate, progress=progress, heartbeat=heartbeat)
        options: dict[str, Any] = {"threads": concurrency, "limit": limit, "rate": rate, "progress": progress, **which}
        batch = Batch(self._definition, partial(self.astart, heartbeat=heartbeat), chosen, **options)
        executor = TaskExecutor(batch.dispatcher, concurrency, batch.add)
        try:
            await executor.run()
            executor.raise_errors()
        finally:
            batch.close()
        return batch.report

    @staticmethod
    def _check_batch(*, limit: object, rate: float | None, progress: object, **flags: object) -> float | None:
        arguments.check_limit("limit", limit)
        arguments.check_flags(**flags)
        if not (progress is None or callable(progress)) or arguments.is_async(progress):
            raise TypeError(f"progress must be a function of the report that is not async, not {progress!r}")
        return arguments.check_rate("rate", rate)

    def result(self, task: T | str) -> Any:
        """Return the step's stored result. None if it has none, has not succeeded, or runs again.

        An id takes one consistent read, and raises TaskNotFoundError if the task does not exist. A damaged result
        raises TrackerError.

        Examples:
            >>> with Order.ship.start("o-2") as ctx:
            ...     ctx.store_result({"label": 7})
            >>> assert Order.ship.result("o-2") == {"label": 7}
        """
        given: object = task
        if not isinstance(given, str | self.model):
            raise TypeError(f"result takes a task id or a task of {self.model.__name__}, not {arguments.shown(given)}")
        row = transitions.get(self.model, arguments.check_task_id(task)) if isinstance(task, str) else task
        if row is None:
            raise TaskNotFoundError(f"{self.model.__name__} {task!r} does not exist", task_id=str(task))
        codes = self._definition.codes
        is_done = row.status >= codes.done_from and self.number not in (row.skipped_steps or ())
        return load_result(row, self.number) if is_done else None

    aresult = awaited(result)
    adue = ahead(due)
    adue_ids = ahead(due_ids)
    anext_due = awaited(next_due)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return getattr, (self.model, self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Step {self.model.__name__}.{self.name} ({self.number})>"


def bound_functions(given: Sequence[object], choose: Callable[[BoundStep[Any], None], F]) -> dict[BoundStep[Any], F]:
    """Choose a function for each of these steps, and for these use cases' steps that have a bound one."""
    if not given:
        raise TypeError("no use case is given: write [Order]")
    functions: dict[BoundStep[Any], F] = {}
    for each in given:
        if isinstance(each, BoundStep):
            functions[each] = choose(each, None)
        elif isinstance(each, type) and issubclass(each, TaskRow) and each._bound_steps:
            steps: list[BoundStep[Any]] = [step for step in each._bound_steps.values() if step.function is not None]
            if not steps:
                step = f"{each.__name__}.{next(iter(each._bound_steps))}"
                raise TypeError(f"no step of {each.__name__} has a function: bind one with @{step}.does")
            functions.update((step, choose(step, None)) for step in steps)
        else:
            raise TypeError(f"{arguments.shown(each)} is not a use case or a step of one: write Order, or Order.ship")
    return functions
