"""Calls a user's function, and decides whether it has done its work when it returns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from pynamodb_tracker.execution.context import BlockContext, ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Journal

R = TypeVar("R")
T = TypeVar("T", bound=TaskRow)


def call(function: Callable[[ExecutionContext[T]], R], ctx: ExecutionContext[T]) -> R:
    """Call a function and return its result. TypeError if the work is not done when it returns.

    If Ctrl-C, or another exception of a signal handler, arrives as it returns, its run still succeeds.
    """
    # A defaultdict stores the result without a line of Python, before which a signal could be handled.
    returned: defaultdict[str, R] = defaultdict(partial(function, ctx))
    ctx._journal.returned = returned  # noqa: SLF001 - no name for it among what users see
    try:
        result = returned["result"]
    finally:
        returned.default_factory = None  # it refers to the journal, and only the garbage collector could free both
    check_done(result)
    return result


def check_done(result: object) -> None:
    """Raise a TypeError if a result still has to be awaited or iterated over.

    The function does not show that: a lambda, a decorator or a partial may hide a coroutine function.
    """
    if not _is_to_be_done(result):
        return
    if isinstance(result, Coroutine | Generator):
        result.close()  # otherwise Python warns of it
    if isinstance(result, Generator):
        problem, remedy = "a generator, whose body has not run", "write return for yield, or iterate over it inside"
    elif isinstance(result, AsyncGenerator):
        problem, remedy = "an async generator, whose body has not run", "iterate over it in an async function"
    elif not isinstance(result, Awaitable):
        problem, remedy = "a future, so its work may not be done", "wait for it, and return its result()"
    else:
        problem = "an awaitable, so its work is not done"
        remedy = "await it in an async function, for arun or arun_all; a decorator of one has to return one, too"
    raise TypeError(f"the function returned {problem}: {remedy}")


def has_returned(journal: Journal[Any]) -> bool:
    """Return whether the function of a run has finished its work, so that an exception comes from outside."""
    return not journal.expects_result and any(not _is_to_be_done(result) for result in journal.returned.values())


def _is_to_be_done(result: object) -> bool:
    return result is not None and (
        issubclass(type(result), (Awaitable, AsyncGenerator, Generator)) or hasattr(type(result), "add_done_callback")
    )


def call_for_result(function: Callable[[ExecutionContext[T]], R], ctx: ExecutionContext[T]) -> R:
    """Call a function, store its result with the success, and return what a repeated call gets.

    If the function has called `ctx.store_result`, that is the result.
    """
    expect_result(ctx)
    return result_of(ctx, call(function, ctx))


def expect_result(ctx: BlockContext[T]) -> None:
    """Refuse to record the success in a transaction before a result is stored."""
    ctx._journal.expects_result = True  # noqa: SLF001 - users do not see it


def result_of(ctx: BlockContext[T], result: R) -> R:
    """Store the result of a function, unless it has stored one itself. Return the stored result."""
    journal = ctx._journal  # noqa: SLF001 - as above
    if journal.expects_result:
        ctx.store_result(result)
        return result
    stored: R = json.loads(journal.result or "null")
    return stored
