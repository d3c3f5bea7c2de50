"""What looking costs, on dynoxide: bounds on requests and read units, and on time."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker.web import dashboard
from tests.engine.engine import Engine as Local
from tests.support.engines import Engine
from tests.support.rows import client as dynamodb
from tests.web.conftest import OWN
from tests.web.pile import Pile, filled
from tests.web.test_views import text_of


@pytest.fixture(scope="module")
def pile(dynamodb: Local) -> Iterator[Engine]:
    """Open a table with tasks in every state."""
    with filled(dynamodb.endpoint) as engine:
        yield engine


@pytest.fixture
def page(pile: Engine, monkeypatch: pytest.MonkeyPatch) -> TestClient:
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
        ("/Pile/task?id=22-00007", 3, 3, 10),
        ("/Pile/task?id=parent", 3, 5, 12),
        ("/Pile/task?id=large", 6, 300, 115),
        ("/Pile/task?id=large&all=1", 6, 300, 2100),
        ("/Pile/group?name=g", 4, 5, 12),
        ("/find?id=22-00007%0Anone", 1, 2, 8),
        ("/Pile/schedules", 9, 575, 40),
        ("/Pile/bulk?verb=reopen&step=two&state=failed", 3, 60, 12),
        ("/workers", 22, 1080, 20),
        ("/table", 4, 1, 8),
    ],
)
def test_a_view_costs_at_most_that(page: TestClient, path: str, requests: int, units: float, kilobytes: int) -> None:
    answer = page.get(path)
    asked, read = cost_of(answer)
    size = len(answer.content)
    assert (asked <= requests, read <= units, size <= kilobytes * 1000) == (True, True, True), (asked, read, size)


def test_a_look_at_full_states_costs_20_viewers_what_it_costs_one(page: TestClient) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: page.get("/Pile/"), range(20)))
    requests, units = cost_of(answers[0])
    assert {cost_of(answer) for answer in answers} == {(requests, units)}
    assert requests <= 32
    assert max(len(answer.content) for answer in answers) <= 37_500
    assert units <= 460
    total = re.findall(r"UTC\s*: ([\d,]+) read units", text_of(answers[-1]))
    assert max(float(each.replace(",", "")) for each in total) <= units + 1
