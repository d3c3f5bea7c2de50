"""The context in an async block, and calls of async functions."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from pynamodb.transactions import TransactWrite

from pynamodb_tracker.aio.pool import RUNS, in_thread
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.execution.call import check_done, expect_result, result_of
from pynamodb_tracker.execution.context import TRIES, BlockContext, ExecutionContext, hold
from pynamodb_tracker.features.groups.queue import GroupOfRun
from pynamodb_tracker.model import failure_log, hydration
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.data import unread_data
from pynamodb_tracker.model.row import TaskRow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TaskRow)
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)


def read_off_row(task: TaskRow) -> None:
    """Read off-row data, which would block the loop in an async block."""
    if unread_data(task) is not None or failure_log.needs_log(task):
        hydration.fill(type(task), {task.task_id: task})


async def hold_on_loop(ctx: ExecutionContext[Any]) -> None:
    """Do what `hold` does. Await nothing between this and the block.

    The last try blocks the loop: while it handles the response, the lock may expire again, and many tasks could keep
    each other waiting.
    """
    for _ in range(TRIES - 1):
        if not ctx.lock_lost:
            return
        await in_thread(ctx.extend_lock, RUNS)
    with sharing_requests(None):  # do not wait for writes of others
        hold(ctx, tries=1)


def _in_thread(
    method: Callable[Concatenate[ExecutionContext[Any], P], R],
) -> "Callable[Concatenate[AsyncContext[Any], P], Coroutine[Any, Any, R]]":

    async def call(ctx: "AsyncContext[Any]", /, *args: P.args, **options: P.kwargs) -> R:
        return await in_thread(partial(method, ctx._blocking, *args, **options), RUNS)  # noqa: SLF001 - both are one context

    return update_wrapper(call, method)


class AsyncContext(BlockContext[T_co]):
    """One attempt at a task's step, which this worker has locked, for a block on an event loop.

    It has the members of ExecutionContext with the same parameters. Await `save`, `extend_lock`, `create`,
    `wait_until`, `wait_for`, `go_to`, `end_task` and `checkpoint`, which run in a thread. If you cancel the block
    during a request, that takes effect once the request has ended.
    """

    def __init__(self, ctx: ExecutionContext[T_co]) -> None:
        super().__init__(ctx._journal, ctx._lock_for)  # noqa: SLF001 - as above
        self._blocking = ctx

    @property
    def group(self) -> "AsyncGroupOfRun":
        """The task's group, with its `name` and its data: `await ctx.group.data()`. AttributeError if it has none."""
        return AsyncGroupOfRun(self._blocking.group)

    async def checkpoint(self, name: str, function: Callable[[], Awaitable[R]]) -> R:
        """Await a function and return its result. No later attempt calls it again.

        Like `ExecutionContext.checkpoint`. A cancelled call stores nothing, so a later attempt calls it again.
        """
        blocking, begun = self._blocking, list[str | None]()

        def begin() -> str | None:
            begun.append(blocking._begin_part(name))  # noqa: SLF001 - as above
            return begun[0]

        try:
            found = await in_thread(begin, RUNS)
            if found is None:
                result: object = function()
                if isinstance(result, Awaitable):  # otherwise it is done already
                    result = await result
                found = await in_thread(partial(blocking._store_part, name, result), RUNS)  # noqa: SLF001 - as above
        finally:
            if begun == [None]:  # also if this was cancelled before `found` was assigned
                blocking._end_part(name)  # noqa: SLF001 - as above
        stored: R = json.loads(found)
        return stored

    extend_lock = _in_thread(ExecutionContext.extend_lock)
    save = _in_thread(ExecutionContext.save)
    create = _in_thread(ExecutionContext.create)
    wait_until = _in_thread(ExecutionContext.wait_until)
    wait_for = _in_thread(ExecutionContext.wait_for)
    go_to = _in_thread(ExecutionContext.go_to)
    end_task = _in_thread(ExecutionContext.end_task)

    def transaction(self, *, succeed: bool = False) -> AbstractAsyncContextManager[TransactWrite]:
        """Return an async context manager for a PynamoDB TransactWrite that applies only while this run holds the task.

        Like `ExecutionContext.transaction`. The actions are sent when the block ends, unless it raises.
        """
        return _commit_in_thread(self._blocking.transaction(succeed=succeed))


@asynccontextmanager
async def _commit_in_thread(writes: Any) -> AsyncIterator[TransactWrite]:
    """Enter a transaction, whose `__enter__` and `__exit__` are untyped."""
    entered: TransactWrite = writes.__enter__()
    try:
        yield entered
    except BaseException as error:
        writes.__exit__(type(error), error, error.__traceback__)
        raise
    await in_thread(partial(writes.__exit__, None, None, None), RUNS)


class AsyncGroupOfRun:
    """A task's group on an event loop, and its shared data."""

    def __init__(self, group: GroupOfRun) -> None:
        self._group = group
        self.name = group.name

    async def data(self) -> dict[str, Any]:
        """Return a dictionary that the group's tasks share. The success saves changes in it.

        The first call sends a request, and later ones return the same object. At most 350,000 bytes of JSON.
        """
        return await in_thread(lambda: self._group.data, RUNS)

    def replace_data(self, data: dict[str, Any]) -> None:
        """Replace the dictionary that the group's tasks share, with the success."""
        self._group.data = data


async def call(function: Callable[[AsyncContext[T]], Awaitable[R]], ctx: AsyncContext[T]) -> R:
    """Call a function and await its result. Raise a TypeError if it is not done after that."""
    result: object = function(ctx)
    if not isinstance(result, Awaitable):
        check_done(result)  # raises for a generator
        raise TypeError(
            f"the function returned {shown(result)}, which cannot be awaited: write async def, or use run() or "
            "run_all()"
        )
    awaited: R = await result
    check_done(awaited)
    return awaited


async def call_for_result(function: Callable[[AsyncContext[T]], Awaitable[R]], ctx: AsyncContext[T]) -> R:
    expect_result(ctx)
    return result_of(ctx, await call(function, ctx))
