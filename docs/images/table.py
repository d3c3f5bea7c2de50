"""Draw an item and its index entry: `python docs/images/table.py` writes table.svg and table-narrow.svg next to it.

Both are read from a table in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from drawing import arrow, block, picture, text

from pynamodb_tracker import ExecutionContext, Step, Task, UseCase
from pynamodb_tracker.testing import local_table, stopped_clock

FOLDER = Path(__file__).parent

TITLE = "An item of the table, and its entry in status-index, whose key has the state and the shard"
KEYS = {"task_id": "hash key", "use_case_id": "range key"}
INDEX_KEYS = {"status_key": "hash key", "due_time": "range key"}
SHARDS = 4
ROW = 26


class AppTask(Task):
    """The table."""

    class Meta:
        """Its name and region."""

        table_name = "tasks"
        region = "us-east-1"


class Order(AppTask):
    """The use case."""

    use_case_id = UseCase("order", status_shards=SHARDS)

    confirm_payment = Step(100)
    ship = Step(200)


def fail(_: ExecutionContext[Order]) -> None:
    """Fail to ship."""
    raise RuntimeError("out of paper")


@cache
def stored() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return an item and its index entry, as DynamoDB returns them."""
    with local_table(AppTask), stopped_clock(datetime(2026, 11, 2, 9, tzinfo=UTC)):
        Order.create("o-7", state=Order.ship.pending)
        with suppress(RuntimeError):
            Order.ship.run("o-7", fail)
        client = boto3.client("dynamodb", region_name="us-east-1")
        [item] = client.scan(TableName="tasks")["Items"]
        [entry] = client.scan(TableName="tasks", IndexName="status-index")["Items"]
    return item, entry


def _table(
    at: tuple[int, int], width: int, title: str, values: Mapping[str, Any], keys: Mapping[str, str]
) -> Iterator[str]:
    """Yield a table of the attributes that the index has, those with keys first."""
    x, y = at
    names = [*keys, *(name for name in stored()[1] if name not in keys)]
    yield text(x, y - 10, title, "strong", anchor="start")
    yield block(x, y, width, ROW * len(names))
    for number, name in enumerate(names):
        [value] = values[name].values()
        line = y + 18 + ROW * number
        if name in KEYS | INDEX_KEYS:
            yield block(x, line - 18, width, ROW, colour="pending" if name in KEYS else "in_progress")
        yield text(x + width - 8, line - 1, keys.get(name, ""), "note", anchor="end")
        yield text(x + 10, line, name, "code strong" if name in keys else "code", anchor="start")
        yield text(x + 106, line, value.removesuffix(".000000+0000"), "code", anchor="start")


def _others(x: int, y: int) -> str:
    item, entry = stored()
    others = sorted(item.keys() - entry.keys())
    words = f"and {len(others)} that the index does not have:\n{', '.join(others[:6])}, ..."
    return text(x, y, words, "note", anchor="start")


def _parts(x: int, y: int) -> Iterator[str]:
    """Yield the parts of the index's hash key, below each other."""
    use_case, code, shard = stored()[1]["status_key"]["S"].split("#")
    meanings = {use_case: "the use case", code: f"the state: {Order.ship.failed}", shard: f"the shard, one of {SHARDS}"}
    for number, (part, meaning) in enumerate(meanings.items()):
        yield text(x, y + 20 * number, part if not number else f"#{part}", "code strong", anchor="start")
        yield text(x + 54, y + 20 * number, meaning, anchor="start")


def wide() -> Iterator[str]:
    """Yield the elements of the picture with the two beside each other."""
    item, entry = stored()
    yield from _table((16, 40), 390, "an item of the table", item, KEYS)
    yield _others(26, 292)
    yield from _table((494, 40), 390, "its entry in status-index", entry, INDEX_KEYS)
    yield from (arrow(f"M408 {104 + ROW * number} L490 {52 + ROW * number}") for number in range(2))
    yield from _parts(600, 296)


def narrow() -> Iterator[str]:
    """Yield the elements of the picture with the entry below the item."""
    item, entry = stored()
    yield from _table((10, 36), 340, "an item of the table", item, KEYS)
    yield _others(20, 288)
    yield from _table((10, 354), 340, "its entry in status-index", entry, INDEX_KEYS)
    yield from _parts(116, 612)


def files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, and its text."""
    yield "table.svg", picture(TITLE, 900, 350, wide())
    yield "table-narrow.svg", picture(TITLE, 360, 666, narrow())


if __name__ == "__main__":
    for name, drawn in files():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
