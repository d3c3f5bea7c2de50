"""The tasks of an operator on the page, each with the number of clicks that it may take."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import ExecutionContext, LockLostError, Repeat
from pynamodb_tracker.testing import StoppedClock
from tests.support.rows import change
from tests.web.conftest import Open
from tests.web.shop import CarrierError, Nightly, Order, Refund, leave
from tests.web.test_decisions import SIGNAL, fields_of
from tests.web.test_views import text_of


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fresh answer be asked for at once."""
    monkeypatch.setattr("pynamodb_tracker.web.cache._SOONEST", timedelta(0))


class Operator:
    """Somebody at the page, who begins at the overview of the orders, and clicks."""

    def __init__(self, client: TestClient, path: str = "/Order/") -> None:
        self.client = client
        self.page: Any = client.get(path)
        self.clicks = 0

    def follow(self, label: str, within: str = "") -> None:
        """Click on the first link of that text, behind a text of the page."""
        place = self.page.text.index(within)
        links = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', self.page.text[place:], re.DOTALL)
        texts = [(href, " ".join(re.sub("<[^>]*>", " ", text).split())) for href, text in links]
        self._go(self.client.get(html.unescape(next(href for href, text in texts if label in text))))

    def send(self, form: str, **fields: Any) -> None:
        """Fill in the form that posts there, and press its button."""
        path = form.partition("[")[0].partition('"')[0]
        self._go(self.client.post(path, data={**fields_of(self.page, form), **fields}))

    def show(self, path: str, **fields: str) -> None:
        """Fill in a form of filters, and press its button."""
        self._go(self.client.get(path, params=fields))

    def _go(self, answer: Any) -> None:
        self.clicks += 1
        self.page = self.client.get(answer.headers["location"]) if answer.is_redirect else answer
        assert self.page.status_code == 200

    @property
    def text(self) -> str:
        return text_of(self.page)


def refuse(ctx: ExecutionContext[Any]) -> None:
    raise CarrierError("HTTP 503 Service Unavailable" if "new" in ctx.task.task_id else "no such street")


def fail_at_ship(*task_ids: str) -> None:
    for task_id in task_ids:
        Order.create(task_id, state=Order.ship.pending)
        with pytest.raises(CarrierError):
            Order.ship.run(task_id, refuse)


def test_why_ship_fails_since_nine(open_page: Open, shop: StoppedClock) -> None:
    fail_at_ship("o-old-1", "o-old-2")
    shop.advance(timedelta(hours=6))
    since = shop.now()
    shop.advance(timedelta(minutes=20))
    fail_at_ship("o-new-1", "o-new-2", "o-new-3")
    shop.advance(timedelta(minutes=10))
    ada = Operator(open_page())
    ada.follow("Errors")
    assert "3 CarrierError: HTTP 503 Service Unavailable" in ada.text
    assert "new since" in ada.text
    ada.show("/Order/errors", step="ship", since=f"{since:%H:%M}")
    assert "no such street" not in ada.text
    assert "3 CarrierError: HTTP 503 Service Unavailable" in ada.text
    assert ada.clicks <= 3


def test_what_a_host_does(open_page: Open, shop: StoppedClock) -> None:
    for number in range(3):
        leave(Order.ship, Order.create(f"o-{number}", state=Order.ship.pending).task_id)
    change(Order, "o-2", worker={"S": "web-3:17"})
    shop.advance(timedelta(minutes=1))
    ada = Operator(open_page())
    ada.follow("Workers")
    assert "web-3:17 1 Order.ship 1 1m expires in 14m" in ada.text
    assert "3 tasks in progress, in all use cases" in ada.text
    ada.show("/workers", worker="web-3")
    assert ("o-2" in ada.text, "o-1" in ada.text, ada.clicks) == (True, False, 2)
    shop.advance(timedelta(minutes=20))
    assert "1 expired: the next run takes it over" in text_of(ada.client.get("/workers?worker=web-3&fresh=1"))


@pytest.mark.usefixtures("shop")
def test_a_running_order_is_cancelled(open_page: Open) -> None:
    def cancel(_: ExecutionContext[Any]) -> None:
        ada.show("/find", id="o-1")
        assert "keeps running until it notices" in ada.text
        ada.send("/Order/task", verb="cancel", reason="the customer called")

    ada = Operator(open_page())
    Order.create("o-1", state=Order.ship.pending)
    with pytest.raises(LockLostError):
        Order.ship.run("o-1", cancel)
    assert ada.text.startswith("Run cancelled. The task is ignored")
    assert ada.clicks <= 3
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].worker) == (Order.ship.ignored, "ada")
    assert "the customer called" in task.errors[-1].message


def test_the_first_with_an_error_are_reopened_at_50_a_minute(open_page: Open, shop: StoppedClock) -> None:
    Order.create_many([{"task_id": f"o-new-{number}", "state": Order.ship.pending} for number in range(103)])
    Order.ship.run_all(refuse)
    fail_at_ship("o-old")
    shop.advance(timedelta(seconds=1))
    ada = Operator(open_page())
    ada.follow("Reopen\u2026", within="HTTP 503")
    ada.send("/Order/bulk", first="101", rate="50")
    assert ("101 reopened" in ada.text, ada.clicks <= 2) == (True, True)
    due = sorted(each.due_time - shop.now() for each in Order.ship.pending.query(with_data=False))
    assert (len(due), due[0], due[-1]) == (101, timedelta(0), timedelta(minutes=100 / 50))


def test_whether_the_nightly_run_happened_and_what_it_made(open_page: Open, shop: StoppedClock) -> None:
    midnight = shop.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    Nightly.create("nightly", repeat=Repeat.cron("0 2 * * *"))
    Nightly.create("weekly", repeat=Repeat.cron("0 2 * * MON", tz="Europe/Berlin"))
    Nightly.create("plain")
    shop.advance(midnight + timedelta(hours=3) - shop.now())
    with Nightly.collect.start("nightly") as ctx:
        for number in range(3):
            ctx.create(Refund, f"r-{number}")
    Nightly.collect.ignore("weekly", reason="not this week", by="ada")
    ada = Operator(open_page(), "/Nightly/")
    ada.follow("Schedules")
    assert "nightly collect pending every day at 02:00, UTC succeeded 0s ago for" in ada.text
    assert re.search(r"nightly .*? 3 may start in 23h weekly collect gave up Monday at 02:00", ada.text)
    assert "plain" not in ada.text
    assert ada.clicks <= 2
    ada.follow("nightly")
    assert "Last run succeeded 0s ago, created 3 tasks, for" in ada.text


@pytest.mark.usefixtures("trouble")
def test_what_is_stuck_and_why_and_what_grows_is_on_the_first_page(open_page: Open) -> None:
    ada = Operator(open_page(), "/")
    assert "12 failed at Order.ship : CarrierError: HTTP 503" in ada.text
    assert "Nobody runs Order.reserve_stock : 3 locks expired" in ada.text
    assert "Order split is blocked by refund split/1 , which gave up" in ada.text
    assert "/ h: growing" in ada.text
    ada.follow("split/1")
    assert "GiveUp: card declined" in ada.text
    assert ada.clicks == 1


@pytest.mark.usefixtures("trouble")
def test_a_step_is_paused_and_resumed_from_the_first_page(open_page: Open) -> None:
    ada = Operator(open_page(), "/")
    ada.follow("Pause ship…")
    assert 'class="ask" open' in ada.page.text
    ada.send("/Order/", verb="pause", step="ship", until="1h", reason="the carrier is down")
    assert "“the carrier is down” by ada" in ada.text
    ada.show("/")
    ada.send('/Order/">\\s*<input type="hidden" name="step" value="ship', verb="resume")
    assert (ada.clicks, [pause.step for pause in Order.pauses()]) == (4, ["confirm_payment"])


@pytest.mark.usefixtures("trouble")
def test_an_approval_is_sent_from_the_first_page(open_page: Open) -> None:
    ada = Operator(open_page(), "/")
    ada.follow("Send…")
    ada.send(SIGNAL, value="true")
    assert "This sends true" in ada.text
    ada.send(SIGNAL)
    assert ada.text.startswith("Sent. A worker continues")
    assert ada.clicks == 3


@pytest.mark.usefixtures("trouble")
def test_an_order_is_cancelled_with_its_children(open_page: Open) -> None:
    ada = Operator(open_page(), "/")
    ada.follow("split")
    ada.send("/Order/task", verb="cancel_task", children="1", reason="the customer called")
    assert ada.text.startswith("Cancelled. No step starts")
    assert ada.clicks == 2
    assert Refund.get_task("split/2").state == Refund.cancelled


@pytest.mark.usefixtures("trouble")
def test_a_schedule_that_failed_last_night_runs_now(open_page: Open) -> None:
    ada = Operator(open_page(), "/")
    assert "nightly-ledger failed: GiveUp: no route to the archive" in ada.text
    ada.send('/Nightly/task[^"]*ledger', verb="run_now")
    assert ada.text.startswith("Made due now.")
    assert ada.clicks == 1
