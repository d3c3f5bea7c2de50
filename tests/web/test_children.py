"""A task that waits for others: the page names them, says which of them blocks it, and cancels it with them."""

import json
import re

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import ExecutionContext
from tests.web.conftest import Open
from tests.web.shop import Order, Refund
from tests.web.test_cost import cost_of
from tests.web.test_views import text_of

FORM = {"verb": "cancel_task", "step": "reserve_stock", "task": "o-1", "reason": "by phone"}


def split(ctx: ExecutionContext[Order]) -> None:
    ctx.create(Refund, "r-1", wait=True)
    ctx.create(Order, "o-1/a", wait=True)


@pytest.fixture
def client(open_page: Open, shop: object) -> TestClient:  # noqa: ARG001 - it is to be there
    """Open the page of a shop with a task that waits for two others, one of which gave up."""
    Order.create("o-1")
    Order.confirm_payment.run("o-1", split)
    Refund.pay_back.ignore("r-1", reason="no paper")
    return open_page()


def test_a_blocked_task_looks_nowhere_as_if_nothing_was_needed(client: TestClient) -> None:
    blocked = "o-1 is blocked by refund r-1, which gave up"
    assert blocked in text_of(client.get("/Order/")).replace(" ,", ",")
    [need] = [each for each in client.get("/Order.json").json()["now"]["needs"] if each["kind"] == "blocked"]
    assert need["title"] == f"Order {blocked}"
    assert 'href="/Refund/task?id=r-1">Reopen child' in client.get("/Order/").text
    page = client.get("/Order/task?id=o-1")
    text = text_of(page)
    assert "Blocked by refund r-1, which gave up, waits for 2 tasks" in text
    assert "Waits for refund r-1 : pay_back gave up order o-1/a : confirm_payment.pending" in text
    assert 'href="/Refund/task?id=r-1"' in page.text
    family = client.get("/Order/task.json?id=o-1").json()["view"]["family"]
    assert [each["task_id"] for each in family["children"]] == ["r-1", "o-1/a"]
    assert [each["task_id"] for each in family["blockers"]] == ["r-1"]
    assert cost_of(page) <= (3, 4)
    Refund.pay_back.reopen("r-1")
    assert "blocked" not in text_of(client.get("/Order/task?id=o-1"))


def test_a_task_is_cancelled_at_the_step_where_it_is_by_then_also_with_what_it_waits_for(client: TestClient) -> None:
    page = client.get("/Order/task?id=o-1")
    assert ("Cancel this Order" in page.text, 'name="children"' in page.text) == (True, True)
    assert client.post("/Order/task", data={**FORM, "reason": " "}).status_code == 400
    done = client.post("/Order/task", data={**FORM, "step": "confirm_payment"})
    assert done.headers["location"] == "/Order/task?id=o-1&done=cancel_task"
    page = client.get(done.headers["location"])
    assert "Cancelled. No step starts until somebody reopens it" in text_of(page)
    assert "Cancel this Order" not in page.text
    assert Order.get_task("o-1/a").state == Order.confirm_payment.pending
    assert "to come" not in text_of(page)
    assert "Passed over" not in text_of(page)
    listed = text_of(client.get("/Order/tasks?state=cancelled"))
    assert re.search(r"In this state Created Last error o-1 \S+ \S+ \S+ ago cancelled: by phone", listed)
    assert 'href="/Order/tasks?state=cancelled"' in client.get("/Order/").text
    reopen = {"verb": "reopen", "step": "reserve_stock", "task": "o-1", "cancelled": "1"}
    assert [f'name="{name}" value="{value}"' in page.text for name, value in reopen.items()] == [True] * 4
    client.post("/Order/task", data=reopen)
    assert Order.get_task("o-1").state == Order.reserve_stock.pending
    Order.confirm_payment.run("o-1/a", lambda ctx: ctx.create(Order, "o-1/b", wait=True))
    client.post("/Order/task", data={**FORM, "task": "o-1/a", "children": "1"})
    assert Order.get_task("o-1/b").last_error == "cancelled: by phone"


def test_a_child_that_is_refused_is_named(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    Order.create("o-2", group="g")
    Order.confirm_payment.run("o-2", lambda ctx: ctx.create(Order, "o-2/a", wait=True, group="h"))
    Order.confirm_payment.start("o-2/a").__enter__()
    answer = client.post("/Order/task", data={**FORM, "task": "o-2", "children": "1"})
    assert "cannot cancel Order 'o-2/a': it is confirm_payment in_progress" in text_of(answer)
    assert json.loads(caplog.records[-1].message)["did"] == "cancel_task"
