"""When a worker looks for what is due, what that costs, and what it does when nobody answers."""

import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import QueryError, TableDoesNotExist, UpdateError

from pynamodb_tracker import TaskLockedError, Worker
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.status import Codes
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock, local_table
from pynamodb_tracker.worker.dispatcher import Dispatcher
from pynamodb_tracker.worker.poller import StepPoller
from pynamodb_tracker.worker.team import WorkerAttempt
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.recorder import recorded
from tests.support.workers import die
from tests.worker.shop import Order, Parcel, ShopTask

SECOND = timedelta(seconds=1)
LONGEST = 30 * SECOND
HOUR = timedelta(hours=1)


class FakeStep:
    """A step that says what a test wants."""

    model = SimpleNamespace(__name__="Fake")
    is_in_memory = False

    def __init__(self, clock: StoppedClock) -> None:
        self.name = "step"
        self.pending, self.failed, self.in_progress = "pending", "failed", "in_progress"
        self.due: dict[str, datetime] = {}
        self.tasks: list[str] = []
        self.error: Exception | None = None
        self.looks: list[datetime] = []
        self.rounds: list[list[str]] = []
        self.shards = 1
        self.codes = Codes("order", "ship", 10, 20)
        self.states = {state: state for state in (self.pending, self.failed, self.in_progress)}
        self._clock = clock
        self._definition = self

    def pause(self) -> None:
        return None

    def slots(self) -> None:
        return None

    def due_in(self, shard: int, *, only: Sequence[str] = ()) -> "FakeDue":
        return FakeDue(self, shard, list(only))


class FakeDue:
    """What is due in a shard of that step."""

    def __init__(self, step: FakeStep, shard: int, only: list[str]) -> None:
        self._step = step
        self._shard = shard
        self._only = only

    def first(self) -> dict[str, datetime]:
        self._step.looks.append(self._step._clock.now())
        if self._step.error is not None:
            raise self._step.error
        due = self._step.due
        return {"pending": self._step._clock.now(), **due} if self._step.tasks else due

    def ids(self, _limit: int | None = None) -> Iterator[str]:
        self._step.rounds.append(self._only)
        yield from list(self._step.tasks)


@pytest.fixture
def step(stopped_clock: StoppedClock) -> FakeStep:
    return FakeStep(stopped_clock)


@pytest.fixture
def poller(step: FakeStep) -> StepPoller:
    return StepPoller(step, LONGEST)  # type: ignore[arg-type]  # as good as one


@pytest.fixture
def always_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that is drawn by lot be as long as it can be."""
    monkeypatch.setattr(RANDOM, "uniform", lambda _low, high: high)
    monkeypatch.setattr(RANDOM, "random", lambda: 1.0)


def failed(code: str, kind: Any = QueryError) -> Exception:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error: Exception = kind("it failed", ClientError(answer, "Query"))
    return error


def pauses(poller: StepPoller, clock: StoppedClock, number: int) -> list[float]:
    """Take from a poller each time when it next poll; return the pauses between."""
    found = []
    for _ in range(number):
        assert poller.take() is None
        found.append((poller.next_poll - clock.now()).total_seconds())
        clock.advance(poller.next_poll - clock.now())
    return found


@pytest.mark.usefixtures("always_longest")
def test_pauses_double_up_to_the_longest_while_nothing_is_found(
    poller: StepPoller, stopped_clock: StoppedClock
) -> None:
    assert pauses(poller, stopped_clock, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_workers_that_wait_for_the_same_moment_begin_at_different_shards(
    step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.shards, now = 64, stopped_clock.now()
    begins = set()
    for _ in range(20):
        poller = StepPoller(step, LONGEST)  # type: ignore[arg-type]
        poller._next_due = dict.fromkeys(range(64), now)
        begins.add(next(poller._shards_to_poll(now)))
    assert len(begins) > 5


def test_pauses_are_between_50_and_100_percent(step: FakeStep, stopped_clock: StoppedClock) -> None:
    found = [pauses(StepPoller(step, LONGEST), stopped_clock, 8)[-1] for _ in range(50)]  # type: ignore[arg-type]
    assert 15 <= min(found) < 20
    assert 25 < max(found) <= 30


@pytest.mark.usefixtures("always_longest")
def test_the_pause_is_short_again_once_something_is_found(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 6)
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    step.tasks = []
    assert pauses(poller, stopped_clock, 2) == [0.5, 1]


def test_it_does_not_poll_before_the_end_of_its_pause(poller: StepPoller, stopped_clock: StoppedClock) -> None:
    assert poller.take() is None
    assert not poller.is_ready(stopped_clock.now())
    assert poller.is_ready(poller.next_poll)


@pytest.mark.usefixtures("always_longest")
def test_a_task_that_becomes_due_meanwhile_is_found_within_half_a_second(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 7)
    step.due = {"failed": stopped_clock.now() + 7 * SECOND, "in_progress": stopped_clock.now() + 9 * SECOND}
    assert pauses(poller, stopped_clock, 1) == [7.5]


def test_a_task_that_is_due_next_week_does_not_keep_it_from_polling(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.due = {"pending": stopped_clock.now() + 7 * 24 * HOUR}
    assert max(pauses(poller, stopped_clock, 20)) <= 30
    assert step.rounds == []


def test_only_states_with_due_tasks_are_scanned(poller: StepPoller, step: FakeStep) -> None:
    step.tasks, step.due = ["o-1"], {"failed": step._clock.now() + SECOND}
    assert poller.take() == "o-1"
    assert step.rounds == [["pending"]]


def test_locks_that_seem_to_have_expired_are_read_once_in_30_seconds(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.due = {"in_progress": stopped_clock.now() - SECOND}  # extended since, as a heartbeat does
    for _ in range(60):
        poller.take()
        stopped_clock.advance(SECOND)
    assert step.rounds == [["in_progress"]] * 2


def test_a_task_that_was_refused_is_left_alone_for_some_seconds(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    poller.note_end("o-1", "refused", TaskLockedError("held"))
    for _ in range(4):
        assert poller.take() is None
        stopped_clock.advance(SECOND)
    stopped_clock.advance(11 * SECOND)
    assert poller.take() == "o-1"


def test_a_task_that_still_runs_is_not_taken_again(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    stopped_clock.advance(HOUR)
    assert poller.take() is None


def test_a_new_scan_begins_after_30_seconds(poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock) -> None:
    step.tasks = ["o-1", "o-2"]
    assert poller.take() == "o-1"
    step.tasks = ["o-0"]
    stopped_clock.advance(LONGEST)
    assert poller.take() == "o-0"


def test_a_scan_of_a_thousand_tasks_is_followed_by_another_one_at_once(poller: StepPoller, step: FakeStep) -> None:
    step.due = {"in_progress": step._clock.now() - SECOND}
    step.tasks = [f"o-{number:04}" for number in range(1500)]
    taken = [poller.take() for _ in range(1502)]
    assert [each for each in taken if each] == step.tasks
    assert taken.index(None) == 1000
    assert step.rounds[:2] == [["pending", "in_progress"]] * 2


def test_setting_the_clock_back_does_not_lengthen_the_pause(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 8)
    assert poller.take() is None
    stopped_clock.advance(-HOUR)
    step.tasks = ["o-1"]
    assert poller.is_ready(stopped_clock.now())


def test_a_task_that_was_taken_by_another_worker_makes_it_read_again(poller: StepPoller, step: FakeStep) -> None:
    step.tasks = [f"o-{number:03}" for number in range(400)]
    assert poller.take() == "o-000"
    poller.feed.note_response(was_taken=True)
    after = poller.take()
    assert after is not None
    assert len(step.rounds) == 2


def test_a_task_that_is_not_started_because_the_worker_stops_holds_up_no_other_thread(step: FakeStep) -> None:
    step.tasks = ["o-1", "o-2"]
    poller, stopped = StepPoller(step, LONGEST, threads=4), threading.Event()  # type: ignore[arg-type]
    stopped.set()
    assert poller.take() == "o-1"
    WorkerAttempt(poller, "o-1", heartbeat=False, stopped=stopped).run(print)
    assert poller.feed._unanswered == 0
    assert poller.take() == "o-2"


@pytest.mark.usefixtures("always_longest")
def test_failing_polls_are_repeated_less_and_less_often_and_logged_once_a_minute(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    step.error = failed("ThrottlingException")
    assert pauses(poller, stopped_clock, 12) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4  # in 3 minutes, 31.5 seconds
    assert "Fake.step" in messages[0]
    assert "failed 8 times since" in messages[1]


@pytest.mark.usefixtures("always_longest")
def test_the_end_of_an_outage_is_logged(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pynamodb_tracker")
    step.error = failed("ThrottlingException")
    pauses(poller, stopped_clock, 3)
    step.error = None
    assert pauses(poller, stopped_clock, 1) == [0.5]
    assert "requests about Fake.step succeed again, after 3 failures" in caplog.text


def test_any_error_of_a_poll_is_survived_and_logged_with_its_traceback(
    poller: StepPoller, step: FakeStep, caplog: pytest.LogCaptureFixture
) -> None:
    step.error = RuntimeError("odd")
    assert poller.take() is None
    assert "RuntimeError: odd" in caplog.text
    assert "Traceback" in caplog.text


def test_a_claim_that_is_throttled_ends_the_scan(poller: StepPoller, step: FakeStep) -> None:
    step.tasks = ["o-1", "o-2"]
    assert poller.take() == "o-1"
    poller.note_end("o-1", "refused", failed("ThrottlingException", UpdateError))
    assert not poller.is_ready(step._clock.now())


def test_abandoned_tasks_are_read_again_after_a_scan_that_ended_early(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks, step.due = ["o-1", "o-2"], {"in_progress": stopped_clock.now() - SECOND}
    assert poller.take() == "o-1"
    poller.note_end("o-1", "refused", failed("ThrottlingException", UpdateError))
    stopped_clock.advance(poller.next_poll - stopped_clock.now())
    assert poller.take() == "o-2"  # a worker that stops when it is idle would otherwise leave it
    assert step.rounds == [["pending", "in_progress"]] * 2


def test_a_claim_that_is_denied_ends_the_scan_only_if_several_are(poller: StepPoller, step: FakeStep) -> None:
    step.tasks = [f"o-{number}" for number in range(9)]
    denied = failed("AccessDeniedException", UpdateError)
    for number in range(3):
        assert poller.take() == f"o-{number}"
        poller.note_end(f"o-{number}", "refused", denied)
        assert poller.is_ready(step._clock.now())
    assert poller.take() == "o-3"
    poller.note_end("o-3", "refused", denied)
    assert not poller.is_ready(step._clock.now())


@pytest.mark.usefixtures("always_longest")
def test_a_rate_limits_the_tasks_per_second_of_all_threads(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = [f"o-{number}" for number in range(9)]
    dispatcher = Dispatcher([poller], rate=2)
    assert dispatcher._choose(threading.Event())[0] is poller
    dispatcher._put_back(poller, found=True)
    chosen, seconds = dispatcher._choose(threading.Event())
    assert chosen is None
    assert seconds == 0.5
    stopped_clock.advance(SECOND / 2)
    assert dispatcher._choose(threading.Event())[0] is poller


def test_a_clock_that_is_put_back_does_not_make_a_worker_with_a_rate_wait(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = [f"o-{number}" for number in range(9)]
    dispatcher = Dispatcher([poller], rate=2)
    assert dispatcher._choose(threading.Event())[0] is poller
    dispatcher._put_back(poller, found=True)
    stopped_clock.advance(-HOUR)
    assert dispatcher._choose(threading.Event())[0] is poller


def test_a_poll_that_found_nothing_does_not_count_for_the_rate(poller: StepPoller) -> None:
    dispatcher = Dispatcher([poller], rate=0.001)
    assert dispatcher._choose(threading.Event())[0] is poller
    assert poller.take() is None
    dispatcher._put_back(poller, found=False)
    chosen, seconds = dispatcher._choose(threading.Event())
    assert chosen is None
    assert seconds <= 0.5


@pytest.mark.usefixtures("stopped_clock")
def test_a_table_that_does_not_exist_is_reported_at_once() -> None:
    with local_table(ShopTask):
        ShopTask.delete_table()
        try:
            with pytest.raises(TableDoesNotExist, match="the table 'shop' does not exist"):
                Worker({Order.confirm: print}).run()
        finally:
            ShopTask.create_table(wait=True)


@pytest.mark.usefixtures("shop")
def test_a_table_that_does_not_answer_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([failed("ThrottlingException")])
    check_index = StepDefinition.check_index

    def at_first_throttled(step: StepDefinition[Any]) -> None:
        for error in answers:
            raise error
        check_index(step)

    monkeypatch.setattr(StepDefinition, "check_index", at_first_throttled)
    ran: list[str] = []
    Order.create("o-1")
    Worker({Order.confirm: lambda ctx: ran.append(ctx.task.task_id)}).run(until_idle=True)
    assert ran == ["o-1"]
    assert "cannot be polled yet" in caplog.text


@pytest.mark.parametrize("due", [{}, {"pending": 24 * HOUR, "failed": 24 * HOUR, "in_progress": 24 * HOUR}])
def test_an_idle_hour_is_about_160_polls(
    poller: StepPoller, step: FakeStep, stopped_clock: StoppedClock, due: dict[str, timedelta]
) -> None:
    """The pauses are 22.5 seconds on average."""
    end = stopped_clock.now() + HOUR
    step.due = {state: stopped_clock.now() + time for state, time in due.items()}
    while stopped_clock.now() < end:
        pauses(poller, stopped_clock, 1)
    assert 130 <= len(step.looks) <= 200
    assert step.rounds == []


@pytest.mark.engine
def test_a_poll_of_an_idle_step_is_3_requests_for_each_shard_and_half_a_read_unit_each(
    dynamodb: Engine, stopped_clock: StoppedClock
) -> None:
    """AWS charges for a query that finds nothing."""
    with Dynoxide.of([ShopTask], dynamodb.endpoint):
        later = stopped_clock.now() + 24 * HOUR
        for state in (Order.confirm.pending, Order.confirm.failed):
            Order.create_many(
                {"task_id": f"{state}-{number}", "due_time": later, "state": state} for number in range(10)
            )
        Order.create("held")
        with Order.confirm.start("held", lock_for=24 * HOUR):
            assert requests_and_units(Order.confirm, stopped_clock, polls=5) == (15, 7.5)
        requests, units = requests_and_units(Parcel.sort, stopped_clock, polls=5)
        assert requests == 3 * 15
        assert units <= 3 * 7.5


def requests_and_units(step: Any, clock: StoppedClock, *, polls: int) -> tuple[int, float]:
    """Return how many requests some polls of a step send, and how many read units they use."""
    poller = StepPoller(step, LONGEST)
    with recorded(ShopTask) as requests:
        pauses(poller, clock, polls)
    assert set(requests.operations) == {"Query"}
    return len(requests), sum(request.answer["ConsumedCapacity"]["CapacityUnits"] for request in requests)


@pytest.mark.usefixtures("shop")
def test_next_due_returns_when_each_state_has_something_to_do(shop: StoppedClock) -> None:
    now = shop.now()
    assert Order.ship.next_due() == {}
    Order.create("o-1", state=Order.ship.pending, due_time=now + HOUR)
    Order.create("o-2", state=Order.ship.pending, due_time=now + 2 * HOUR)
    Order.create("o-3", state=Order.ship.failed)
    Order.create("o-4", state=Order.ship.pending)
    die(Order.ship, "o-4")
    assert Order.ship.next_due() == {
        Order.ship.pending: now + HOUR,
        Order.ship.failed: now,
        Order.ship.in_progress: now + timedelta(minutes=5) + 2 * SECOND,
    }


@pytest.mark.usefixtures("shop")
def test_next_due_takes_the_first_of_all_shards(shop: StoppedClock) -> None:
    now = shop.now()
    Parcel.create_many({"task_id": f"p-{hour}", "due_time": now + hour * HOUR} for hour in range(9, 1, -1))
    with recorded(ShopTask) as requests:
        assert Parcel.sort.next_due() == {Parcel.sort.pending: now + 2 * HOUR}
    assert requests.entries_read == 3
