"""A step that is bound to its use case: its states, and the operations on its tasks, also on an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from pynamodb_tracker import arguments
from pynamodb_tracker.aio.lazy import in_thread, in_thread_until_cancelled, read_ahead
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.functions import async_function_of, bind
from pynamodb_tracker.step.sync_step import SyncStep

if TYPE_CHECKING:
    from typing_extensions import deprecated  # type checkers have it; nothing imports it

    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.step.definition import DueOptions, RunOptions, StartOptions, States
    from pynamodb_tracker.step.state import State

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")
F = TypeVar("F")


class BoundStep(SyncStep[T]):
    """A step of a class of tasks: its states, and what can be done with its tasks.

    Methods that begin with `a` are awaited: they do the same as those without it, and send their requests in threads.
    """

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

        `run`, `run_all`, workers, Lambda handlers and the command line use it where they are given no function. An
        async function takes an AsyncContext; `run` and `run_all` refuse it, and `arun`, `arun_all` and AsyncWorker take
        no other. A class that inherits the step does not inherit its function. A second function is a DefinitionError,
        unless it is the same one, which a reload or a notebook has defined again.
        """
        bind(self, function)
        return function

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
        """Return an async context manager that runs the task as `start` does, with the same options, on an event loop.

        If the block is cancelled from outside, the attempt is released and does not count, as after Ctrl-C. A timeout
        within the block, and a CancelledError that the block itself raises, are failures. A request that is on its way
        is never abandoned: the cancellation takes effect once it has ended. Data and failures that are stored off-row
        are read with the claim. A `heartbeat` is an asyncio task, which a loop that hangs does not run.
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
        lock_for: timedelta | None = None,
        detailed_error: bool = True,
        also_from: States = (),
        heartbeat: bool = False,
        same: object = None,
        store_answer: bool = False,
    ) -> R | object:
        """Start the task as `astart` does, await the function of the context, and return its result.

        The options are those of `run`. Without a function, it is the async one that `does` has bound. A function that
        is not async is a TypeError.
        """
        from pynamodb_tracker.aio.call import call, call_for_answer  # noqa: PLC0415 - few programs have an event loop

        arguments.check_flags(store_answer=store_answer)
        chosen = async_function_of(self, function)
        async with self.astart(
            task_id,
            lock_for=lock_for,
            detailed_error=detailed_error,
            also_from=also_from,
            heartbeat=heartbeat,
            same=same,
        ) as ctx:
            result = await (call_for_answer(chosen, ctx) if store_answer else call(chosen, ctx))
        return result  # noqa: RET504 - type checkers would take a return in the block for one that may be swallowed

    async def arun_all(
        self,
        function: Callable[[AsyncContext[T]], Awaitable[object]] | None = None,
        *,
        concurrency: int = 25,
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
        """Run the async function on each task of `todo`, once, and return what became of them; options as of `run_all`.

        At most `concurrency` tasks run at a time, each as an asyncio task; they share requests, as threads do. If this
        is cancelled, the running tasks are released, and no further one starts. `progress` is called on the event loop.
        """
        from pynamodb_tracker.aio.batch import AsyncBatch  # noqa: PLC0415 - few programs have an event loop
        from pynamodb_tracker.batch.batch import Report  # noqa: PLC0415 - as above
        from pynamodb_tracker.dynamodb.write_batcher import batcher_for  # noqa: PLC0415 - as above

        chosen = None if function is None and dry_run else async_function_of(self, function)
        arguments.check_threads(concurrency, "concurrency")
        rate = self._check_batch(limit=limit, rate=rate, dry_run=dry_run, progress=progress, heartbeat=heartbeat)
        which: dict[str, Any] = {"since": since, "until": until, "limit": limit, "only": only, "error_like": error_like}
        if dry_run or chosen is None:
            due = await in_thread(lambda: list(self.due_ids(**which)))
            return Report(due=due)
        of = self._definition
        start: Callable[[str], Any] = partial(self.astart, heartbeat=heartbeat)
        feed, batcher = of.feed(threads=concurrency, **which), batcher_for(concurrency)
        batch = AsyncBatch(of.codes, start, chosen, feed, progress, batcher)
        return await batch.run(limit=limit, concurrency=concurrency, rate=rate)

    def atodo(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
        with_data: bool = True,
    ) -> AsyncIterator[T]:
        """Return the tasks of `todo`, for `async for`; about 100 of them are read at a time."""
        which: DueOptions = {"since": since, "until": until, "limit": limit, "only": only, "error_like": error_like}
        return read_ahead(self.todo(**which, with_data=with_data))

    def adue_ids(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        only: States = (),
        error_like: str | None = None,
    ) -> AsyncIterator[str]:
        """Return the ids of `due_ids`, for `async for`; about 100 of them are read at a time."""
        return read_ahead(self.due_ids(since=since, until=until, limit=limit, only=only, error_like=error_like))

    async def anext_due(self) -> dict[State[T], datetime]:
        """Return what `next_due` returns."""
        return await in_thread(self.next_due)

    async def aanswer(self, task: T | str) -> Any:
        """Return what `answer` returns; an id costs a read, a task none."""
        return await in_thread(partial(self.answer, task))

    async def areopen(self, task_id: str, *, by: str | None = None) -> T:
        """Give a failed or ignored task a fresh set of attempts, as `reopen` does, and return it."""
        return await in_thread(partial(self.reopen, task_id, by=by))

    async def aignore(
        self,
        task_id: str,
        *,
        reason: str,
        by: str | None = None,
        even_running: bool = False,
        even_in_group: bool = False,
    ) -> T:
        """Make a task ignored, as `ignore` does, and return it."""
        flags = {"even_running": even_running, "even_in_group": even_in_group}
        return await in_thread(partial(self.ignore, task_id, reason=reason, by=by, **flags))

    async def arelease(self, task_id: str, *, reason: str, worker: str | None = None, by: str | None = None) -> T:
        """Release a task whose worker is known to be dead, as `release` does, and return it."""
        return await in_thread(partial(self.release, task_id, reason=reason, worker=worker, by=by))

    async def areopen_many(self, task_ids: Iterable[str], *, by: str | None = None, threads: int = 25) -> Report:
        """Reopen these tasks, as `reopen_many` does; `task_ids` is iterated over in a thread.

        If this is cancelled, no further task is changed, and CancelledError is raised once the requests have ended.
        """
        return await in_thread_until_cancelled(partial(self.reopen_many, task_ids, by=by, threads=threads))

    async def aignore_many(
        self, task_ids: Iterable[str], *, reason: str, by: str | None = None, threads: int = 25
    ) -> Report:
        """Ignore these tasks, as `ignore_many` does; iteration and cancellation are as with `areopen_many`."""
        return await in_thread_until_cancelled(
            partial(self.ignore_many, task_ids, reason=reason, by=by, threads=threads)
        )


def bound_functions(given: Sequence[object], choose: Callable[[BoundStep[Any], None], F]) -> dict[BoundStep[Any], F]:
    """Return what `choose` returns for these steps, and for those of these use cases that have a function, in order."""
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
            raise TypeError(f"{arguments.shown(each)} is no use case, and no step of one: write Order, or Order.ship")
    return functions
