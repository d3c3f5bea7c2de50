"""The call of a user's async function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pynamodb_tracker.aio.context import AsyncContext
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.execution.call import answer_of, check_done, expect_answer
from pynamodb_tracker.model.row import TaskRow

R = TypeVar("R")
T = TypeVar("T", bound=TaskRow)


async def call(function: Callable[[AsyncContext[T]], Awaitable[R]], ctx: AsyncContext[T]) -> R:
    """Call a function and await what it returns; TypeError if that cannot be awaited, or the work is not done then."""
    result: object = function(ctx)
    if not isinstance(result, Awaitable):
        check_done(result)  # raises for a generator
        raise TypeError(
            f"the function returned {shown(result)}, which cannot be awaited: write async def, or call run() or "
            "run_all() with a function that is not async"
        )
    awaited: R = await result
    check_done(awaited)
    return awaited


async def call_for_answer(function: Callable[[AsyncContext[T]], Awaitable[R]], ctx: AsyncContext[T]) -> R:
    """Call a function, store what it returns with the success, and return what a repeated call gets."""
    expect_answer(ctx)
    return answer_of(ctx, await call(function, ctx))
