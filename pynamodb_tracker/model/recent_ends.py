"""A task's last successes, as many as fit into the KB of its row."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.dynamodb.limits import item_size
from pynamodb_tracker.model.failure import clean

NAME = "recent_ends"
_MOST = 10
_WORKER = 24  # characters of a worker's name
_KB = 1024
_SPARE = 64  # bytes that the next claim may add
_SECOND, _MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


class End(NamedTuple):
    step: int
    start: datetime
    end: datetime
    worker: str


def encode_ends(ends: Sequence[End]) -> str:
    """Return the stored form: a line of about 40 bytes per success."""
    lines = []
    for each in ends:
        start, took = (each.start - _EPOCH) // _SECOND, max((each.end - each.start) // _MILLISECOND, 0)
        lines.append(f"{start:x} {took:x} {each.step} {each.worker}")
    return "\n".join(lines)


def decode_ends(text: str) -> list[End]:
    """Parse the stored form. A damaged line is left out, because no run depends on it."""
    found = []
    for line in text.split("\n"):
        with suppress(OverflowError, ValueError):
            start, took, step, worker = line.split(" ", 3)
            began = _EPOCH + int(start, 16) * _SECOND
            found.append(End(int(step), began, began + int(took, 16) * _MILLISECOND, worker))
    return found


def add_end(row: Any, step: int, start: datetime, end: datetime) -> list[End]:
    before = row.attribute_values.get(NAME)
    worker = " ".join(clean(str(row.worker or "")).split())[:_WORKER]
    new = End(step, start.replace(microsecond=0), end, worker)
    return [*(before if isinstance(before, list) else ()), new][-_MOST:]


def fit_ends(ends: Sequence[End], stored: Item) -> list[End] | None:
    """Return the last ends that fit into the KB of a row. `stored` is the row after the write."""
    left, others = list(ends), {**stored}
    others.pop(NAME, None)
    room = -item_size(others) % _KB - _SPARE - len(NAME)
    while left and len(encode_ends(left).encode()) > room:
        del left[0]
    return left or None
