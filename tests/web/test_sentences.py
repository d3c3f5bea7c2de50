"""Sentences about the whole are compared with a scan of all rows, on tables where only a part is read."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.clock import in_words, stamp
from pynamodb_tracker.step.state import all_tasks
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web.words import clock_time
from tests.cli.command import read, run
from tests.support.rows import change
from tests.web.conftest import Open
from tests.web.shop import CarrierError, Order, leave
from tests.web.test_views import text_of

APP = "tests.web.shop:Order"


def rows(matches: Callable[[Order], object]) -> list[Order]:
    """Return all orders that match, from a scan of the table."""
    return [task for task in all_tasks(Order) if matches(task)]


def refuse(_: ExecutionContext[Any]) -> None:
    raise CarrierError("HTTP 503")


def fail(*task_ids: str) -> None:
    """Let orders fail at ship."""
    for task_id in task_ids:
        Order.create(task_id, state=Order.ship.pending)
        with pytest.raises(CarrierError):
            Order.ship.run(task_id, refuse)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the errors of two tasks per state be read, and of eight if somebody chooses a step or a time."""
    for name, most in (("SAMPLE", 2), ("LARGE_SAMPLE", 8)):
        monkeypatch.setattr(f"pynamodb_tracker.web.views.{name}", most)


@pytest.mark.usefixtures("sampled")
def test_errors_of_a_sample_say_of_how_many_and_not_since_when(open_page: Open, shop: StoppedClock) -> None:
    fail("o-other", "p-other")
    change(Order, "p-other", last_error={"S": "KeyError: 'weight'"}, update_time={"S": "damaged"})
    shop.advance(timedelta(hours=13))
    for minute in range(6):
        fail(f"o-{minute}")
        shop.advance(timedelta(minutes=10))
    client, broken = open_page(), rows(lambda task: "503" in (task.last_error or ""))
    for path in ("/Order/", "/Order/errors"):
        assert re.search("2 (CarrierError: HTTP 503 )?of 2 read", text_of(client.get(path)))
        assert not re.search("new since|the oldest", text_of(client.get(path)))
    chosen = client.get("/Order/errors?step=ship")
    assert f"{len(broken)} CarrierError: HTTP 503" in text_of(chosen)
    first = min(task.update_time for task in broken)
    assert f"the oldest {(shop.now() - first) // timedelta(hours=1)}h ago" in text_of(chosen)
    assert "KeyError: 'weight' for example p-other ship failed at an unreadable time" in text_of(chosen)
    since = shop.now() - timedelta(minutes=45)
    lately = client.get("/Order/errors", params={"since": since.isoformat()})
    assert f"{len([each for each in broken if each.update_time >= since])} CarrierError" in text_of(lately)
    assert f"Since {in_words(since)} ." in text_of(lately)


def test_an_error_is_new_if_no_task_of_it_can_have_failed_before(open_page: Open, shop: StoppedClock) -> None:
    Order.create_many(["r-1", "r-2"])
    Order.create("o-first", state=Order.ship.pending)
    Order.ship.ignore("o-first", reason="lost")
    shop.advance(timedelta(hours=9))
    fail("o-1", "o-2")
    first = min(task.update_time for task in rows(lambda task: "503" in (task.last_error or "")))
    assert f"new since {clock_time(first)}" in text_of(open_page().get("/Order/errors"))
    for task_id in ("o-1", "o-2"):  # they have failed again and again since they were created
        change(Order, task_id, attempt={"N": "3"}, create_time=Order.get_task("r-1")._row_state.stored["create_time"])
    assert "new since" not in text_of(open_page().get("/Order/errors"))


def test_tasks_that_wait_until_a_time_wait_until_then(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-plain")
    Order.create("o-later", due_time=shop.now() + timedelta(days=1))
    Order.create("o-forever", wait_for=Order.approved)
    for number in range(3):
        Order.create(f"o-{number}", wait_for=Order.approved, until=timedelta(hours=number + 1))

    def say(waiting: int) -> None:
        assert len(rows(lambda task: task.waits_for)) == waiting
        page = open_page().get("/Order/")
        assert f"{waiting} waiting for signals or other tasks" in text_of(page)
        assert f"pending 6 ({waiting} wait)" in " ".join(run("status", of=APP).out.split())
        assert read("status", of=APP)["use_cases"][0]["states"][0]["waiting"] == waiting

    say(4)
    shop.advance(timedelta(hours=1, minutes=1))
    say(3)


@pytest.mark.usefixtures("shop")
def test_of_more_than_are_read_at_least_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.presentation.overview.waiting_of.__kwdefaults__", {"most": 2})
    for number in range(3):
        Order.create(f"o-{number}", wait_for=Order.approved, until=timedelta(hours=number + 1))
    assert "(2+ wait)" in run("status", of=APP).out
    pending = read("status", of=APP)["use_cases"][0]["states"][0]
    assert (pending["waiting"], pending["more_waiting"]) == (2, True)


class Pipeline:
    """Orders that come and are done, and what the page concludes."""

    def __init__(self, client: TestClient, shop: StoppedClock) -> None:
        self.client = client
        self.shop = shop

    def look(self, minutes: int, came: int, done: int) -> str:
        """Let so many orders come and be done per minute, and return what the page says about what is left."""
        for _ in range(minutes):
            self.shop.advance(timedelta(minutes=1))
            Order.create_many([{"task_id": f"{self.shop.now()} {n}", "state": Order.ship.pending} for n in range(came)])
            if done:
                Order.ship.run_all(lambda _: None, limit=done)
        shown = re.search(r"Steps ([^|]*?) Step Pending", text_of(self.client.get("/Order/?fresh=1")))
        assert shown
        return shown[1]


@pytest.mark.usefixtures("shop")
def test_whether_it_keeps_up_is_told_by_ten_minutes_and_not_by_a_task_or_two(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynamodb_tracker.web.cache._SOONEST", timedelta(0))
    pipeline = Pipeline(open_page(), shop)
    Order.create_many([{"task_id": f"o-{number}", "state": Order.ship.pending} for number in range(20)])
    assert pipeline.look(0, 0, 0) == "counts stop at 1,000"
    assert pipeline.look(5, came=4, done=3) == "25 left, 1 more a minute over 5m"
    assert pipeline.look(5, came=4, done=3) == "30 left, 1 more a minute over 10m: it does not keep up"
    assert pipeline.look(10, came=4, done=4) == "30 left, unchanged for 10m"
    Order.create("one more", state=Order.ship.pending)
    assert pipeline.look(10, came=4, done=4) == "31 left, 0.1 more a minute over 10m"
    assert pipeline.look(10, came=1, done=3) == "11 left, 2 fewer a minute over 10m: empty in about 5m 30s"
    assert len(rows(lambda task: task.state == Order.ship.pending)) == 11


def test_a_count_that_is_older_than_the_view_has_its_age_and_nothing_follows_from_it(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynamodb_tracker.web.cache._SOONEST", timedelta(0))
    pipeline = Pipeline(open_page(), shop)
    pipeline.look(1, came=2, done=0)
    pipeline.look(12, came=2, done=1)
    left = len(rows(lambda task: task.state == Order.ship.pending))
    monkeypatch.setattr("pynamodb_tracker.presentation.overview.MOST", 5)
    assert pipeline.look(26, came=2, done=0) == f"{left} left at the last count, 26m ago"


def test_ages_of_a_kept_answer_are_as_of_the_answer(open_page: Open, shop: StoppedClock) -> None:
    client = open_page()
    Order.create("o-1")
    fail("o-2")
    shop.advance(timedelta(seconds=2))
    paths = ("/Order/", "/Order/errors", "/Order/tasks?step=ship&state=failed")
    before = [text_of(client.get(path)).partition("As of")[0] for path in paths]
    shop.advance(timedelta(minutes=5))
    assert [text_of(client.get(path)).partition("As of")[0] for path in paths] == before
    assert "oldest due for 2s" in before[0]


def test_durations_are_rounded_and_a_rate_is_that_of_the_last_minutes(open_page: Open, shop: StoppedClock) -> None:
    for seconds in (0.8, 1.68, 1.72, 30):
        Order.create(f"o-{seconds}", state=Order.ship.pending)
        shop.advance(timedelta(seconds=seconds))
        Order.ship.run(f"o-{seconds}", lambda _: None)
    shop.advance(timedelta(hours=1))
    Order.create("o-new", state=Order.ship.pending)
    Order.ship.run("o-new", lambda _: None)
    took = sorted(task.update_time - task.create_time for task in rows(lambda task: task.state.status == "succeeded"))
    page = text_of(open_page().get("/Order/"))
    assert (took[2], "Median 1.7s 95th percentile 30s" in page) == (timedelta(seconds=1.68), True)
    assert "0.10 a minute in the last 10m" in page


def test_expired_locks_are_counted_also_behind_locks_that_were_extended(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynamodb_tracker.presentation.overview._MOST_ROWS", (2, 8))
    for number in range(5):
        leave(Order.ship, Order.create(f"o-{number}", state=Order.ship.pending).task_id)
        shop.advance(timedelta(seconds=1))
    for number in range(3):
        change(Order, f"o-{number}", lock_expire_time={"S": stamp(shop.now() + timedelta(hours=5))})
    shop.advance(timedelta(hours=1))
    ends: list[datetime] = [task.lock_expire_time for task in rows(lambda task: task.lock_expire_time < shop.now())]
    said = f"{len(ends)} locks expired, the first {int((shop.now() - min(ends)).total_seconds() // 60)}m ago"
    assert (len(ends), said in text_of(open_page().get("/Order/"))) == (2, True)
    assert f"ship: {said}" in run("status", of=APP).out
    monkeypatch.setattr("pynamodb_tracker.presentation.overview._MOST_ROWS", (2, 3))
    assert "no lock of the first 3 has expired" in text_of(open_page().get("/Order/"))


@pytest.mark.usefixtures("shop")
def test_tasks_of_a_customer_that_are_not_all_say_so_first(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.web.views._MOST_IDS", 3)
    Order.create_many([{"task_id": f"o-{number}", "customer": "c-7"} for number in range(5)])
    page, found = (open_page(Order).get(f"/find{form}?id=customer%3Dc-7") for form in ("", ".json"))
    assert text_of(page).index("Only the newest 3 tasks per use case with customer=c-7") < text_of(page).index("o-4")
    assert (found.json()["cut"], len(found.json()["found"])) == (["customer=c-7"], 3)
    link = re.search(r'href="([^"]*most=30)"', page.text)
    assert link
    rest = open_page(Order).get(link[1].replace("&amp;", "&"))
    assert len(re.findall("data-row", rest.text)) == len(rows(lambda task: task.customer == "c-7"))
    assert "Only the newest" not in rest.text


@pytest.mark.usefixtures("shop")
def test_what_is_hidden_is_not_found_either(open_page: Open) -> None:
    Order.create_many([{"task_id": f"o-{number}", "customer": "c-7"} for number in range(2)])
    found = [open_page(hide=hide).get("/find?id=customer%3Dc-7").text.count("data-row") for hide in ((), {"customer"})]
    assert found == [2, 0]
