"""Sentences about the whole are compared with a scan of all rows, on tables where only a part is read."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.clock import in_words, stamp
from pynamodb_tracker.presentation.text import clock_time
from pynamodb_tracker.step.state import all_tasks
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.support.rows import change
from tests.web.conftest import Open
from tests.web.shop import CarrierError, Order, leave
from tests.web.test_views import text_of

pytestmark = pytest.mark.usefixtures("shop")

APP = "tests.web.shop:Order"


def rows(matches: Callable[[Order], object]) -> list[Order]:
    return [task for task in all_tasks(Order) if matches(task)]


def refuse(_: ExecutionContext[Any]) -> None:
    raise CarrierError("HTTP 503")


def fail(*task_ids: str) -> None:
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
    assert "2 of 2 read" in text_of(client.get("/Order/errors"))
    assert not re.search("new since|the oldest", text_of(client.get("/Order/errors")))
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


def test_a_time_of_another_day_has_its_date(shop: StoppedClock) -> None:
    shop.advance(timedelta(hours=23 - shop.now().hour))
    assert [clock_time(shop.now() + timedelta(hours=hours))[:-4] for hours in (0, 1)] == [
        f"{shop.now():%H:%M}",
        f"{shop.now() + timedelta(hours=1):%Y-%m-%d %H:%M}",
    ]


def test_tasks_that_wait_until_a_time_wait_until_then(open_page: Open, shop: StoppedClock) -> None:
    Order.create("o-plain")
    Order.create("o-later", due_time=shop.now() + timedelta(days=1))
    Order.create("o-forever", wait_for=Order.approved)
    for number in range(3):
        Order.create(f"o-{number}", wait_for=Order.approved, until=timedelta(hours=number + 1))

    def say(waiting: int) -> None:
        assert len(rows(lambda task: task.waits_for)) == waiting
        [of] = open_page().get("/Order.json").json()["now"]["use_cases"]
        assert of["steps"][0]["waits"]["signal"] == {"tasks": waiting, "more": False}
        assert f"pending 6 ({waiting} wait)" in " ".join(run("status", of=APP).out.split())
        assert read("status", of=APP)["use_cases"][0]["states"][0]["waiting"] == waiting

    say(4)
    shop.advance(timedelta(hours=1, minutes=1))
    say(3)


def test_of_more_than_are_read_at_least_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.presentation.waiting._MOST_WAITING", 2)
    for number in range(3):
        Order.create(f"o-{number}", wait_for=Order.approved, until=timedelta(hours=number + 1))
    assert "(2+ wait)" in run("status", of=APP).out
    pending = read("status", of=APP)["use_cases"][0]["states"][0]
    assert (pending["waiting"], pending["more_waiting"]) == (2, True)


def test_ages_of_a_kept_answer_are_as_of_the_answer(open_page: Open, shop: StoppedClock) -> None:
    client = open_page()
    Order.create("o-1")
    fail("o-2")
    shop.advance(timedelta(seconds=2))
    paths = ("/Order/", "/Order/errors", "/Order/tasks?step=ship&state=failed")
    before = [text_of(client.get(path)).partition("As of")[0] for path in paths]
    shop.advance(timedelta(minutes=5))
    assert [text_of(client.get(path)).partition("As of")[0] for path in paths] == before
    assert "oldest 2s" in before[0]


def test_expired_locks_are_counted_also_behind_locks_that_were_extended(
    open_page: Open, shop: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynamodb_tracker.presentation.waiting._MOST_ROWS", (2, 8))
    for number in range(5):
        leave(Order.ship, Order.create(f"o-{number}", state=Order.ship.pending).task_id)
        shop.advance(timedelta(seconds=1))
    for number in range(3):
        change(Order, f"o-{number}", lock_expire_time={"S": stamp(shop.now() + timedelta(hours=5))})
    shop.advance(timedelta(hours=1))
    ends: list[datetime] = [task.lock_expire_time for task in rows(lambda task: task.lock_expire_time < shop.now())]
    said = f"{len(ends)} locks expired, the first {int((shop.now() - min(ends)).total_seconds() // 60)}m ago"
    assert (len(ends), f"ship: {said}" in run("status", of=APP).out) == (2, True)
    assert "2 expired" in text_of(open_page().get("/Order/"))
    monkeypatch.setattr("pynamodb_tracker.presentation.waiting._MOST_ROWS", (2, 3))
    assert "no lock of the first 3 has expired" in run("status", of=APP).out


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


def test_what_is_hidden_is_not_found_either(open_page: Open) -> None:
    Order.create_many([{"task_id": f"o-{number}", "customer": "c-7"} for number in range(2)])
    found = [open_page(hide=hide).get("/find?id=customer%3Dc-7").text.count("data-row") for hide in ((), {"customer"})]
    assert found == [2, 0]
