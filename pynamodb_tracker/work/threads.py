"""One function on many items, on threads, optionally at a limited rate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.retries import NotSentError, is_stopped, stopped_by

Item = TypeVar("Item")

_GLANCE = 1.0
"""Seconds after which a sleep checks whether to stop."""


def in_threads(
    function: Callable[[Item], None],
    items: Iterable[Item],
    threads: int,
    *,
    rate: float | None = None,
    stopped: threading.Event | None = None,
    admit: Callable[[Item], bool] | None = None,
) -> None:
    """Call the function on each item, in this context. Take an item when a thread is free for it.

    An exception stops the feeding, and is raised once all running calls have returned. A second one, such as another
    Ctrl-C, does not wait for them: they retry no more requests.

    Args:
        function: The function to call.
        items: The items.
        threads: How many calls run at the same time.
        rate: The limit of calls per second, evenly spread over all threads.
        stopped: Once this is set, no item waits for its turn.
        admit: Called with each item until it returns True, which may take a short wait each time.

    Raises:
        NotSentError: The block around this was stopped before all items were taken.
    """
    stopped, failed, left = stopped or threading.Event(), threading.Event(), threading.Event()
    paced = _paced(items, None if rate is None else Pace(rate), stopped)
    if admit is not None:
        paced = _admitted(paced, admit, stopped, failed)
    if threads == 1:
        for item in paced:
            function(item)
        return
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait  # noqa: PLC0415 - for cold starts

    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="pynamodb_tracker") as pool:
            running: set[Future[None]] = set()
            try:
                for item in takewhile(lambda _: not failed.is_set(), paced):
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


def _admitted(
    items: Iterable[Item], admit: Callable[[Item], bool], stopped: threading.Event, failed: threading.Event
) -> Iterator[Item]:
    """Yield each item once it is admitted. The feeding thread waits, as in `_paced`."""
    for item in items:
        while not admit(item):
            if failed.is_set():
                return
            if is_stopped():
                raise NotSentError
            if stopped.is_set():  # the function sees that, too, and ends the feeding
                break
        yield item


class Pace:
    """Evenly spread turns, `rate` of them per second."""

    def __init__(self, rate: float) -> None:
        self._interval = timedelta(seconds=1 / rate)
        self._next: datetime | None = None

    def take_turn(self) -> float:
        """Take the next turn, and return in how many seconds it is. Setting the clock back does not lengthen that."""
        now, turn = clock.now(), self._next
        if turn is None or not now < turn <= now + self._interval:
            turn = now
        self._next = turn + self._interval
        return (turn - now).total_seconds()


def _paced(items: Iterable[Item], pace: Pace | None, stopped: threading.Event) -> Iterator[Item]:
    """Yield an item per turn. The feeding thread waits, so that Ctrl-C can end the wait."""
    for item in items:
        left = 0.0 if pace is None else pace.take_turn()
        # Waiting for the event would not move a stopped clock.
        while left > 0 and not (stopped.is_set() or is_stopped()):
            clock.sleep(min(left, _GLANCE))
            left -= _GLANCE
        if is_stopped():
            raise NotSentError
        yield item
