"""Calls a step's function, and checks that its work is done when it returns."""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from pynamodb_tracker.execution.context import BlockContext, ExecutionContext
from pynamodb_tracker.model.row import T
from pynamodb_tracker.transitions import Journal

R = TypeVar("R")


def call(function: Callable[[ExecutionContext[T]], R], ctx: ExecutionContext[T]) -> R:
    """Call a function and return its result, or raise a TypeError if its work is not done yet."""
    # A defaultdict stores the result before Python can call a signal handler, so that the run still succeeds.
    returned: defaultdict[str, R] = defaultdict(partial(function, ctx))
    ctx._journal.returned = returned  # noqa: SLF001 - hidden from users
    try:
        result = returned["result"]
    finally:
        returned.default_factory = None  # otherwise only the garbage collector could free it and the journal
    check_done(result)
    return result


def check_done(result: object) -> None:
    """Raise a TypeError if a result still has to be awaited or iterated over, which its function may hide."""
    if not _is_to_be_done(result):
        return
    if isinstance(result, Coroutine | Generator):
        result.close()  # so that Python does not warn about it
    if isinstance(result, Generator):
        problem, remedy = "a generator, so its body has not run", "write return for yield, or iterate over it inside"
    elif isinstance(result, AsyncGenerator):
        problem, remedy = "an async generator, so its body has not run", "iterate over it in an async function"
    elif not isinstance(result, Awaitable):
        problem, remedy = "a future, so its work may not be done", "wait for it, and return its result()"
    else:
        problem = "an awaitable, so its work is not done"
        remedy = "await it in an async function, and call arun or arun_all. A decorator must return one, too"
    raise TypeError(f"the function returned {problem}: {remedy}")


def has_returned(journal: Journal[Any]) -> bool:
    """Return whether a run's function has finished, so that a later exception comes from outside."""
    returned = journal.returned
    return not journal.expects_result and "result" in returned and not _is_to_be_done(returned["result"])


def _is_to_be_done(result: object) -> bool:
    return result is not None and (
        issubclass(type(result), (Awaitable, AsyncGenerator, Generator)) or hasattr(type(result), "add_done_callback")
    )


def call_for_result(function: Callable[[ExecutionContext[T]], R], ctx: ExecutionContext[T]) -> R:
    """Call a function, and store its result with the success, or return the one that it has stored itself."""
    expect_result(ctx)
    return result_of(ctx, call(function, ctx))


def expect_result(ctx: BlockContext[T]) -> None:
    """Refuse a transaction with the success before a result is stored."""
    ctx._journal.expects_result = True  # noqa: SLF001 - as above


def result_of(ctx: BlockContext[T], result: R) -> R:
    """Store a function's result, unless it has stored one itself, and return the stored one."""
    journal = ctx._journal  # noqa: SLF001 - as above
    if journal.expects_result:
        ctx.store_result(result)
        return result
    stored: R = json.loads(journal.result or "null")
    return stored
