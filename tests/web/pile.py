"""A table with tasks in every state, as years leave them: long ids, rules, groups, parents, large data, damage."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.clock import stamp
from tests.support.engines import Dynoxide, Engine
from tests.support.rows import client as dynamodb

TASKS = 1010
"""In each of 8 states, and as many that are done: more than the page reads of any state."""

ODD: tuple[dict[str, Any], ...] = (
    {},
    {"task_id": {"S": "x" * 280}},
    {"repeat": {"S": '{"cron":"0 2 * * *"}'}, "occurrence": {"S": "2026-01-01T02:00:00+00:00"}},
    {"attempt": {"S": "many"}, "fence": {"N": "-1"}},
    {"group": {"S": "g"}, "group_number": {"N": "7"}},
    {"parent": {"S": "pile#p-1#0"}, "last_error": {"S": "e" * 200}},
    {"create_time": {"S": "yesterday"}, "errors": {"L": [{"S": "x"}]}},
    {"blockers": {"N": "3"}, "data": {"S": "{"}},
)
"""What every few tasks have: long ids, rules, groups, parents, and attributes that cannot be read."""


class PileTask(Task):
    class Meta:
        table_name = "pile"
        region = "us-east-1"


class Pile(PileTask):
    use_case_id = UseCase("pile")

    one = Step(10)
    two = Step(20)


def row(code: int, number: int, now: datetime) -> dict[str, Any]:
    """Return a row as a transition leaves it."""
    changed = now - timedelta(seconds=number * 5)
    due = {1: changed + timedelta(hours=1), 2: changed + timedelta(hours=9)}.get(code % 10, changed)
    item = {
        "task_id": {"S": f"{code}-{number:05}"},
        "use_case_id": {"S": "pile"},
        "status": {"N": str(code)},
        "status_key": {"S": f"pile#{code}#0"},
        "attempt": {"N": "1"},
        "fence": {"N": "1"},
        "data": {"S": "{}"},
        "create_time": {"S": stamp(changed - timedelta(minutes=3))},
        "update_time": {"S": stamp(changed)},
        "due_time": {"S": stamp(due)},
        "worker": {"S": "ops-worker-7.eu-central-1.compute.internal:4711"},
    }
    if code % 10 == 1:
        item |= {"lock": {"S": "x" * 32}, "lock_expire_time": {"S": stamp(due)}}
    if code % 10 in (2, 3):
        error = f"CarrierError: label service: {(429, 502, 503)[number % 3]} Too Many Requests (request {number:032x})"
        item["last_error"] = {"S": error}
    odd = ODD[number % len(ODD)]
    return item | odd | ({"task_id": {"S": f"{code}-{number:05}-{'x' * 280}"}} if "task_id" in odd else {})


@contextmanager
def filled(endpoint: str) -> Iterator[Engine]:
    """Open the table on an engine: these tasks, a parent whose child is ignored, and one with 2 MB of data."""
    with Dynoxide.of([PileTask], endpoint) as engine:
        now, sdk, name = datetime.now(UTC), dynamodb(PileTask), PileTask.Meta.table_name
        codes = [*(step + status for step in (10, 20) for status in range(4)), 1000]
        rows = [row(code, number, now) for code in codes for number in range(TASKS)]
        for at in range(0, len(rows), 25):
            sdk.batch_write_item(RequestItems={name: [{"PutRequest": {"Item": each}} for each in rows[at : at + 25]]})
        Pile.create("parent")
        Pile.one.run("parent", lambda ctx: ctx.create(Pile, "child", wait=True))
        Pile.one.ignore("child", reason="lost")
        Pile.create("large", data={"text": random.Random(1).randbytes(1_000_000).hex()})
        yield engine
