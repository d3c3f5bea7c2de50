"""An async function as threads call it: handlers, workers and the command line run each task on a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from pynamodb_tracker.aio.call import call
from pynamodb_tracker.aio.context import AsyncContext, hold_on_loop, read_off_row
from pynamodb_tracker.aio.loop_thread import loop_thread
from pynamodb_tracker.execution.context import ExecutionContext


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that awaits an async one on the event loop of this process, and returns its result.

    It takes the context of a thread, and perhaps further arguments; the async function gets an AsyncContext instead.
    """

    def wait_for(ctx: ExecutionContext[Any], *arguments: object) -> Any:
        read_off_row(ctx.task)
        async_ctx = AsyncContext(ctx)
        async_ctx.invocation = ctx.invocation

        async def work() -> Any:
            try:
                await hold_on_loop(ctx)
            except Exception as error:
                ctx._journal.unstarted = error  # noqa: SLF001 - no name for it among what users see
                raise
            return await call(lambda given: function(given, *arguments), async_ctx)

        return loop_thread().call(work)

    return update_wrapper(wait_for, function)
