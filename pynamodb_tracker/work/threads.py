"""Calls one function on many items, on threads."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from itertools import takewhile
from typing import TypeVar

from pynamodb_tracker.dynamodb.retries import NotSentError, is_stopped, stopped_by

Item = TypeVar("Item")


def in_threads(function: Callable[[Item], None], items: Iterable[Item], threads: int) -> None:
    """Call the function on each item, in this context, when a thread is free. NotSentError if the block is stopped.

    Raise an exception once all running calls have returned, and a second one, such as another Ctrl-C, at once. Calls
    that still run retry no requests.
    """
    failed, left = threading.Event(), threading.Event()
    if threads == 1:
        for item in _until_stopped(items):
            function(item)
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait  # noqa: PLC0415 - for cold starts

    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="pynamodb_tracker") as pool:
            running: set[Future[None]] = set()
            try:
                for item in takewhile(lambda _: not failed.is_set(), _until_stopped(items)):
                    running.add(pool.submit(copy_context().run, _watched, function, item, failed, left))
                    if len(running) >= threads:
                        done, running = wait(running, return_when=FIRST_COMPLETED)
                        for future in done:
                            future.result()
                for future in running:
                    future.result()
            finally:
                for future in running:
                    future.cancel()
    finally:
        left.set()


def _watched(function: Callable[[Item], None], item: Item, failed: threading.Event, left: threading.Event) -> None:
    try:
        with stopped_by(left):
            function(item)
    except BaseException:
        failed.set()
        raise


def _until_stopped(items: Iterable[Item]) -> Iterator[Item]:
    for item in items:
        if is_stopped():
            raise NotSentError
        yield item
