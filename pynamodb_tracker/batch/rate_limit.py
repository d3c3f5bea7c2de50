"""How fast a batch goes: starts are spread evenly, however many threads there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TypeVar

from pynamodb_tracker import clock

__all__ = ["paced"]

Item = TypeVar("Item")


def paced(items: Iterable[Item], rate: float | None) -> Iterator[Item]:
    """Yield the items, no more than `rate` in a second; who feeds threads waits, so that an order to end ends that."""
    return iter(items) if rate is None else _in_turn(items, timedelta(seconds=1 / rate))


def _in_turn(items: Iterable[Item], interval: timedelta) -> Iterator[Item]:
    turn: datetime | None = None
    for item in items:
        now = clock.now()
        if turn is not None and now < turn <= now + interval:  # a clock that was put back makes no wait longer
            clock.sleep((turn - now).total_seconds())
            now = turn
        turn = now + interval
        yield item
