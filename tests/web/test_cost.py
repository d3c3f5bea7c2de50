"""What looking costs, on DynamoDB Local: bounds on requests and read units, and on time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import Step, Task, UseCase
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.web import dashboard
from tests.engine.dynamodb_local import Engine as Local
from tests.support.engines import DynamoDBLocal, Engine
from tests.support.rows import client as dynamodb
from tests.web.conftest import OWN
from tests.web.test_views import text_of

TASKS = 1225
"""In each of 8 states, and as many that are done: 11,025."""

ODD: tuple[dict[str, Any], ...] = (
    {},
    {"task_id": {"S": "x" * 280}},
    {"repeat": {"S": '{"cron":"0 2 * * *"}'}, "occurrence": {"S": "2026-01-01T02:00:00+00:00"}, "v": {"N": "2"}},
    {"attempt": {"S": "many"}, "fence": {"N": "-1"}},
    {"group": {"S": "g"}, "group_number": {"N": "7"}},
    {"parent": {"S": "pile#p-1#0"}, "last_error": {"S": "e" * 200}},
    {"create_time": {"S": "yesterday"}, "errors": {"L": [{"S": "x"}]}},
    {"waits": {"N": "3"}, "data": {"S": "{"}},
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


@pytest.fixture(scope="module")
def pile(dynamodb_local: Local) -> Iterator[Engine]:
    """Open a table with tasks in every state."""
    with DynamoDBLocal.of([PileTask], dynamodb_local.endpoint) as engine:
        now, sdk, name = datetime.now(UTC), dynamodb(PileTask), PileTask.Meta.table_name
        codes = [*(step + status for step in (10, 20) for status in range(4)), 1000]
        rows = [row(code, number, now) for code in codes for number in range(TASKS)]

        def put(at: int) -> None:
            sdk.batch_write_item(RequestItems={name: [{"PutRequest": {"Item": each}} for each in rows[at : at + 25]]})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, range(0, len(rows), 25)))
        yield engine


@pytest.fixture
def page(pile: Engine, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Open the page; a scan is an error."""
    sdk = dynamodb(pile.tables[0])
    send = sdk._make_api_call

    def send_no_scan(operation: str, request: dict[str, Any]) -> Any:
        assert operation != "Scan"
        return send(operation, request)

    monkeypatch.setattr(sdk, "_make_api_call", send_no_scan)
    return TestClient(dashboard(Pile, user=lambda _: "ada", actions=True), headers=OWN)


def cost_of(answer: Any) -> tuple[int, float]:
    """Return the requests and the read units that a page says it took."""
    assert answer.status_code == 200
    found = re.search(r"([\d,]+) requests?, ([\d,.]+) read units?", text_of(answer))
    assert found
    return int(found[1].replace(",", "")), float(found[2].replace(",", ""))


@pytest.mark.parametrize(
    ("path", "requests", "units", "kilobytes"),
    [
        ("/Pile/errors", 5, 70, 65),
        ("/Pile/tasks?step=two&state=failed", 1, 3, 60),
        ("/Pile/tasks?step=two&state=failed&newest=1", 1, 3, 60),
        ("/Pile/tasks?step=two&state=in_progress", 2, 55, 45),
        ("/Pile/tasks?step=two&state=failed&error=nobody has it", 9, 60, 10),
        ("/Pile/task?id=22-00007", 2, 2, 10),
        ("/find?id=22-00007%0Anone", 1, 2, 8),
        ("/Pile/schedules", 9, 575, 40),
        ("/Pile/bulk?verb=reopen&step=two&state=failed", 3, 60, 12),
        ("/workers", 22, 1080, 20),
        ("/table", 4, 0, 8),
    ],
)
def test_a_view_costs_no_more_than_that(
    page: TestClient, path: str, requests: int, units: float, kilobytes: int
) -> None:
    answer = page.get(path)
    asked, read = cost_of(answer)
    size = len(answer.content)
    assert (asked <= requests, read <= units, size <= kilobytes * 1000) == (True, True, True), (asked, read, size)


def test_an_overview_of_full_states_costs_20_viewers_what_it_costs_one(page: TestClient) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: page.get("/Pile/"), range(20)))
    requests, units = cost_of(answers[0])
    assert {cost_of(answer) for answer in answers} == {(requests, units)}
    assert requests <= 32
    assert max(len(answer.content) for answer in answers) <= 40_000
    assert units <= 460
    total = re.findall(r"UTC: ([\d,]+) read units", text_of(answers[-1]))
    assert max(float(each.replace(",", "")) for each in total) <= units + 1
