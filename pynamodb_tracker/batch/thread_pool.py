"""One function on many items, on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from itertools import takewhile
from typing import TypeVar

__all__ = ["in_threads"]

Item = TypeVar("Item")


def in_threads(function: Callable[[Item], None], items: Iterable[Item], threads: int) -> None:
    """Call the function on each item, taken when a thread is free for it, as if it were called here.

    An exception stops the feeding, and leaves when all have ended.
    """
    if threads == 1:
        for item in items:
            function(item)
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait  # noqa: PLC0415 - for cold starts

    failed = threading.Event()
    with ThreadPoolExecutor(threads, thread_name_prefix="pynamodb_tracker") as pool:
        running: set[Future[None]] = set()
        try:
            for item in takewhile(lambda _: not failed.is_set(), items):
                running.add(pool.submit(copy_context().run, _watched, function, item, failed))
                if len(running) >= threads:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
            for future in running:
                future.result()
        finally:
            for future in running:
                future.cancel()


def _watched(function: Callable[[Item], None], item: Item, failed: threading.Event) -> None:
    try:
        function(item)
    except BaseException:
        failed.set()
        raise
