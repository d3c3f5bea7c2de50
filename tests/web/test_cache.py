"""Answers that are kept, what they cost, and how that is measured."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from operator import methodcaller
from typing import Any, cast

import pytest

from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web import cache as cache_module
from pynamodb_tracker.web.cache import Cache, _Asking
from tests.support.processes import until
from tests.web.conftest import Open
from tests.web.shop import Nightly, Order, Parcel, Refund
from tests.web.test_views import text_of

pytestmark = pytest.mark.usefixtures("shop")

LEAST = timedelta(seconds=9)


class Queue(threading.Condition):
    """A lock that knows how many threads hold it or wait for it."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())
        self._guard = threading.Lock()
        self.threads = 0

    def __enter__(self) -> bool:
        with self._guard:
            self.threads += 1
        return super().__enter__()


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> list[Queue]:
    """Return the locks at which the viewers of an answer meet, in the order of the answers."""
    queues: list[Queue] = []

    def asking() -> _Asking:
        queues.append(Queue())
        return _Asking(cast("Any", queues[-1]))

    monkeypatch.setattr(cache_module, "_Asking", asking)
    return queues


class Seconds:
    """The clock of kept answers, which the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """Stop the clock of kept answers."""
    clock = Seconds()
    monkeypatch.setattr("pynamodb_tracker.web.cache.monotonic", clock)
    return clock


class Asked:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_many_viewers_at_once_ask_once(queues: list[Queue]) -> None:
    cache, asked = Cache(LEAST), Asked()

    def ask() -> int:
        until(lambda: queues[0].threads == 8)
        return asked()

    def view() -> int:
        return cache.get("overview", [Order], ask).value

    with ThreadPoolExecutor(8) as pool:
        assert {each.result() for each in [pool.submit(view) for _ in range(8)]} == {1}


def test_an_answer_is_asked_for_again_after_a_while_and_sooner_if_somebody_wants_it(seconds: Seconds) -> None:
    cache, ask = Cache(LEAST), Asked()

    def value(*, fresh: bool = False) -> int:
        return cache.get("overview", [Order], ask, fresh=fresh).value

    assert value() == 1
    seconds.now += 8
    assert value() == 1
    assert value(fresh=True) == 2
    assert value(fresh=True) == 2
    seconds.now += 9
    assert value() == 3


def test_a_dear_answer_is_kept_for_as_long_as_20_read_units_a_second_take(shop: StoppedClock) -> None:
    cache = Cache(timedelta(milliseconds=1))

    def ask() -> None:
        for _ in range(10):
            Refund.get_task("r-1")

    Refund.create("r-1")
    answer = cache.get("tasks", [Refund], ask)
    assert answer.kept_for == timedelta(seconds=answer.spent.reads / 20) > timedelta(seconds=0.2)
    assert shop.now() == answer.time


def test_what_is_asked_for_while_something_changes_is_not_kept() -> None:
    cache, asked = Cache(LEAST), Asked()

    def ask() -> int:
        cache.forget()
        return asked()

    assert cache.get("overview", [Order], ask).value == 1
    assert cache.get("overview", [Order], asked).value == 2
    assert cache.get("overview", [Order], asked).value == 2


def test_an_error_is_not_kept() -> None:
    cache, asked = Cache(LEAST), Asked()

    def ask() -> int:
        if asked() == 1:
            raise ValueError("once")
        return asked.times

    with pytest.raises(ValueError, match="once"):
        cache.get("overview", [Order], ask)
    assert cache.get("overview", [Order], ask).value == 2


def test_viewers_who_wait_for_an_answer_share_its_error(queues: list[Queue]) -> None:
    cache, asked = Cache(LEAST), Asked()

    def ask() -> int:
        until(lambda: queues[0].threads == 8)
        raise ValueError(f"throttled, {asked()}")

    def view() -> str:
        with pytest.raises(ValueError, match="throttled") as refused:
            cache.get("overview", [Order], ask)
        return str(refused.value)

    with ThreadPoolExecutor(8) as pool:
        assert {each.result() for each in [pool.submit(view) for _ in range(8)]} == {"throttled, 1"}
    assert cache._asking == {}


def test_an_answer_that_took_long_is_kept_from_when_it_was_there(seconds: Seconds) -> None:
    cache, asked = Cache(LEAST), Asked()

    def ask() -> int:
        seconds.now += 30
        return asked()

    for fresh in (False, False, True):
        assert cache.get("overview", [Order], ask, fresh=fresh).value == 1


def test_an_answer_that_has_expired_takes_no_memory(seconds: Seconds) -> None:
    cache = Cache(LEAST)
    for number in range(5):
        cache.get(number, [Order], Asked())
    seconds.now += 9
    cache.get("overview", [Order], Asked())
    assert list(cache._answers) == ["overview"]


def test_only_so_many_answers_are_kept() -> None:
    cache = Cache(LEAST)
    for number in range(500):
        cache.get(number, [Order], Asked())
    assert len(cache._answers) <= 200
    assert len(cache._asking) <= 201


def test_only_requests_of_the_block_are_measured_those_of_its_threads_included() -> None:
    states = [Order.ship.failed, Order.ship.ignored, Nightly.collect.failed]
    Order.ship.failed.count()
    with Cache(LEAST).metered(Order) as spent:
        assert side_by_side(methodcaller("count"), states) == [0, 0, 0]
        Order.create("o-1")
    Order.ship.failed.count()
    assert (spent.requests, spent.reads > 0, spent.writes > 0) == (4, True, True)


def test_a_view_says_its_cost_and_its_age(open_page: Open, seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    client, connection = open_page(Refund), type(Refund.tracker.connection().connection)
    monkeypatch.setattr(connection, "is_in_memory", True, raising=False)
    assert "\u2248 $" not in text_of(client.get("/Refund/tasks?fresh=1"))  # what is in memory has no price
    monkeypatch.setattr(connection, "is_in_memory", False)
    seconds.now += 60
    foot = text_of(client.get("/Refund/tasks"))
    assert re.search(r"As of 0s ago , cached for 9 s 2 requests, [\d.]+ read units? ≈ \$0", foot)
    seconds.now += 5
    assert "As of 5s ago" in text_of(client.get("/Refund/tasks"))
    assert "As of 0s ago" in text_of(client.get("/Refund/tasks?fresh=1"))


def test_requests_to_all_shards_of_a_state_are_measured(open_page: Open) -> None:
    Parcel.create_many(f"p-{number}" for number in range(20))
    page = text_of(open_page(Parcel).get("/Parcel/tasks?step=pack&state=pending"))
    assert len(set(re.findall(r"p-\d+", page))) == 20
    assert " 4 requests" in page
