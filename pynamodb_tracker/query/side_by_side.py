"""Several requests at the same time, such as one to each shard of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

Q = TypeVar("Q")
R = TypeVar("R")

_THREADS = 8
"""A client keeps 10 connections unless its Meta says otherwise, and the program needs some of them itself."""


def side_by_side(ask: Callable[[Q], R], questions: Iterable[Q]) -> list[R]:
    """Call the function on each question, on a few threads in this context; return the answers in the same order.

    A single question is asked in this thread. If a call raises, so does this one, once no other call is running;
    questions whose turn has not come are then not asked.
    """
    asked = list(questions)
    if len(asked) <= 1:
        return [ask(question) for question in asked]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for cold starts

    with ThreadPoolExecutor(min(_THREADS, len(asked)), thread_name_prefix="pynamodb_tracker") as pool:
        futures = [pool.submit(copy_context().run, ask, question) for question in asked]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
