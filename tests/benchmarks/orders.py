"""The use case that is measured, and a row of it as a claim returns it."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.clock import stamp

Change = Callable[[dict[str, Any]], object]
"""What a block does to data."""

LOCK_FOR = timedelta(hours=1)
MARGIN = timedelta(seconds=2)
SHARDS = 5
OF_A_CLAIM = {"lock", "lock_expire_time", "worker"}
"""The attributes that a task does not have before its first claim."""


class OrderTable(Task):
    class Meta:
        table_name = "benchmark"
        region = "us-east-1"


class Order(OrderTable):
    use_case_id = UseCase("order")

    ship = Step(10, lock_for=LOCK_FOR)
    deliver = Step(20)

    note = UnicodeAttribute(null=True)


class InRow(OrderTable):
    """The same with all of its data in the row: what claim and finish take is compared without what lies beside."""

    use_case_id = UseCase("in-row", max_inline_data=350_000)

    ship = Step(10, lock_for=LOCK_FOR)
    deliver = Step(20)


class Kept(OrderTable):
    """Finished tasks are deleted by DynamoDB, later."""

    use_case_id = UseCase("kept", keep_for=timedelta(days=30))

    ship = Step(10, lock_for=LOCK_FOR)
    deliver = Step(20)


class Sharded(OrderTable):
    """Each state is spread over some hash keys of the index."""

    use_case_id = UseCase("sharded", status_shards=SHARDS)

    ship = Step(10, lock_for=LOCK_FOR)
    deliver = Step(20)


class Wide(OrderTable):
    """Each state is spread over as many keys as thousands of tasks per second need."""

    use_case_id = UseCase("wide", status_shards=64)

    ship = Step(10, lock_for=LOCK_FOR)


def add_entry(data: dict[str, Any]) -> None:
    data["receipt"] = "r-1"


def change_entry(data: dict[str, Any]) -> None:
    data["item-00000"]["sku"] = "none"


def data_of(size: int) -> dict[str, Any]:
    """Return a dictionary whose stored form has that many bytes: many short entries, as data has.

    It is the same each time. Packed by zlib it takes about a fifth.
    """
    drawn = random.Random(size)
    empty = len(text_of({"note": ""}))
    data: dict[str, Any] = {}
    left = size - empty
    while left > 0:
        entry = {"sku": str(drawn.randrange(10**12, 10**13)), "quantity": drawn.randrange(1, 10), "price": 9.95}
        name = f"item-{len(data):05}"
        left -= len(text_of({name: entry})) - 1
        if left >= 0:
            data[name] = entry
    data["note"] = ""
    data["note"] = "x" * (size - len(text_of(data)))
    return data


def text_of(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def claimed(task_id: str, data: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "task_id": {"S": task_id},
        "use_case_id": {"S": "order"},
        "status": {"N": "11"},
        "status_key": {"S": "order#11#0"},
        "due_time": {"S": stamp(now + LOCK_FOR)},
        "create_time": {"S": stamp(now)},
        "update_time": {"S": stamp(now)},
        "attempt": {"N": "1"},
        "fence": {"N": "1"},
        "lock": {"S": "18b7a3b2c4d5e6f701234567"},
        "lock_expire_time": {"S": stamp(now + LOCK_FOR)},
        "worker": {"S": "worker-1:4711"},
        "unfinished": {"L": [{"N": "1"}]},
        "saves": {"N": "0"},
        "v": {"N": "1"},
        "creation": {"S": "18b7a3b2c4d5e6f700000000"},
        "data": {"S": text_of(data)},
    }


def pending(row: dict[str, Any]) -> dict[str, Any]:
    """Return the stored row that was there before a claim left this one."""
    left = {name: value for name, value in row.items() if name not in OF_A_CLAIM}
    due = {"status": {"N": "10"}, "status_key": {"S": "order#10#0"}, "due_time": row["create_time"]}
    return {**left, **due, "attempt": {"N": "0"}, "fence": {"N": "0"}, "unfinished": {"L": []}}
