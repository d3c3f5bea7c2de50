"""One function on many items, on threads, optionally at a limited rate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TypeVar

from pynamodb_tracker import clock

Item = TypeVar("Item")


def in_threads(
    function: Callable[[Item], None], items: Iterable[Item], threads: int, *, rate: float | None = None
) -> None:
    """Call the function on each item, in this context; an item is taken when a thread is free for it.

    `rate` limits the calls per second, spread evenly, however many threads there are. An exception stops the feeding,
    and is raised once all running calls have returned.
    """
    paced = items if rate is None else _paced(items, timedelta(seconds=1 / rate))
    if threads == 1:
        for item in paced:
            function(item)
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait  # noqa: PLC0415 - for cold starts

    failed = threading.Event()
    with ThreadPoolExecutor(threads, thread_name_prefix="pynamodb_tracker") as pool:
        running: set[Future[None]] = set()
        try:
            for item in takewhile(lambda _: not failed.is_set(), paced):
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


def _paced(items: Iterable[Item], interval: timedelta) -> Iterator[Item]:
    """Yield an item per interval; the thread that feeds the others waits, so that Ctrl-C can end the wait."""
    turn: datetime | None = None
    for item in items:
        now = clock.now()
        if turn is not None and now < turn <= now + interval:  # setting the clock back does not lengthen the wait
            clock.sleep((turn - now).total_seconds())
            now = turn
        turn = now + interval
        yield item
