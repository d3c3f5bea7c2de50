"""When a worker looks for what is due, what that costs, and what it does when nobody answers."""

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from pynamodb.exceptions import QueryError, TableDoesNotExist, UpdateError

from pynamodb_tracker import TaskLockedError, Worker
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.model.cost import IDLE_READS
from pynamodb_tracker.model.status import Codes
from pynamodb_tracker.query.due import DueTasks, LeftBehind
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock, local_table
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.polling import Polling
from pynamodb_tracker.work.source import StepWork
from pynamodb_tracker.writes.participants import NewlyDue
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

    declared = SimpleNamespace(lock_for=timedelta(minutes=5))

    def __init__(self, clock: StoppedClock) -> None:
        self.table = SimpleNamespace(is_in_memory=False)
        tracker = SimpleNamespace(table=self.table, margin=timedelta(0), lane=None)
        self.model = SimpleNamespace(__name__="Fake", tracker=tracker)
        self.codes = Codes("order", "step", 10, 20)
        self.due: dict[int, datetime] = {}
        self.tasks: list[str] = []
        self.locks: dict[str, datetime] = {}
        """When the locks of tasks expire, extensions included."""
        self.startable = True
        self.error: Exception | None = None
        self.during_request: Callable[[], object] = bool
        self.looks: list[datetime] = []
        self.asked: list[int] = []
        """The states that were asked for, once for each request."""
        self.asked_at: list[tuple[int, datetime]] = []
        self.shards_asked: list[int] = []
        self.rounds: list[list[int]] = []
        self.shards = 1
        self._clock = clock

    def pause(self) -> None:
        return None

    def slots(self) -> None:
        return None

    def is_startable(self, _task_id: str) -> bool:
        return self.startable

    def due_codes_in(self, shard: int, *codes: int) -> "FakeDue":
        return FakeDue(self, shard, list(codes))


class FakeDue:
    """What is due in a shard of that step."""

    def __init__(self, step: FakeStep, shard: int, codes: list[int]) -> None:
        self._step = step
        self._shard = shard
        self._codes = codes

    def first(self) -> dict[int, datetime]:
        step, now = self._step, self._step._clock.now()
        step.looks.append(now)
        step.asked += self._codes
        step.asked_at += ((code, now) for code in self._codes)
        step.shards_asked.append(self._shard)
        if step.error is not None:
            raise step.error
        step.during_request()
        due = {step.codes.pending: now, **step.due} if step.tasks else step.due
        return {code: time for code, time in due.items() if code in self._codes}

    def ids(self, _limit: int | None = None) -> Iterator[str]:
        self._step.rounds.append(self._codes)
        yield from list(self._step.tasks)

    def expired_locks(self, _known: dict[str, datetime]) -> tuple[list[str], datetime | None]:
        step, now = self._step, self._step._clock.now()
        step.asked.append(step.codes.in_progress)
        step.during_request()
        later = [time for time in step.locks.values() if time > now]
        return [task_id for task_id, time in step.locks.items() if time <= now], min(later, default=None)


@pytest.fixture
def step(stopped_clock: StoppedClock) -> FakeStep:
    return FakeStep(stopped_clock)


class Poller(Polling):
    """A source of a step that polls, and asks one thread at a time."""

    def __init__(self, step: Any, longest: timedelta = LONGEST, **options: Any) -> None:
        super().__init__(StepWork(step, print, print), longest, **options)

    def take(self) -> str | None:
        """Return the next task, whose claim is answered when it ends."""
        given = self.next(threading.Event())
        return None if given is None else given.task_id

    def ends(self, task_id: str, outcome: str, error: Exception | None = None, **task: Any) -> None:
        """Note the outcome of a task."""
        task = {"tracker": SimpleNamespace(shard_of=lambda _key: 0), "status_key": "", **task}
        details, row = SimpleNamespace(postponed=False), SimpleNamespace(**task)
        self.note_ended(SimpleNamespace(task_id=task_id, outcome=outcome, error=error, task=row, details=details))


@pytest.fixture
def poller(step: FakeStep) -> Poller:
    return Poller(step)


@pytest.fixture
def always_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that is drawn by lot be as long as it can be."""
    monkeypatch.setattr(RANDOM, "uniform", lambda _low, high: high)
    monkeypatch.setattr(RANDOM, "random", lambda: 1.0)


def failed(code: str, kind: Any = QueryError) -> Exception:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error: Exception = kind("it failed", ClientError(answer, "Query"))
    return error


def pauses(poller: Poller, clock: StoppedClock, number: int) -> list[float]:
    found = []
    for _ in range(number):
        assert poller.take() is None
        found.append((poller.look_at - clock.now()).total_seconds())
        clock.advance(poller.look_at - clock.now())
    return found


@pytest.mark.usefixtures("always_longest")
def test_pauses_double_up_to_the_longest_while_nothing_is_found(poller: Poller, stopped_clock: StoppedClock) -> None:
    assert pauses(poller, stopped_clock, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_workers_that_wait_for_the_same_moment_begin_at_different_shards(
    step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.shards, now = 64, stopped_clock.now()
    begins = set()
    for _ in range(20):
        poller = Poller(step)
        poller._due_at = dict.fromkeys(((shard, step.codes.pending) for shard in range(64)), now)
        step.shards_asked.clear()
        poller.take()
        begins.add(step.shards_asked[0])
    assert len(begins) > 5


def test_pauses_are_between_90_and_100_percent(step: FakeStep, stopped_clock: StoppedClock) -> None:
    found = [pauses(Poller(step), stopped_clock, 8)[-1] for _ in range(50)]
    assert 27 <= min(found) < 28
    assert 29 < max(found) <= 30


@pytest.mark.usefixtures("always_longest")
def test_the_pause_is_short_again_once_something_is_found(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 6)
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    step.tasks = []
    assert pauses(poller, stopped_clock, 2) == [0.5, 1]


def test_a_task_that_was_set_aside_waits_while_its_step_is_paused(poller: Poller, stopped_clock: StoppedClock) -> None:
    poller.aside["o-1"] = None
    poller.work.pause = lambda: cast("Any", "paused")
    asked = poller.take(), poller.is_ready(stopped_clock.now()), poller.is_ready(poller.look_at)
    poller.work.pause = lambda: None
    assert (*asked, poller.take()) == (None, False, True, "o-1")


def test_it_does_not_poll_before_the_end_of_its_pause(poller: Poller, stopped_clock: StoppedClock) -> None:
    assert poller.take() is None
    assert not poller.is_ready(stopped_clock.now())
    assert poller.is_ready(poller.look_at)


@pytest.mark.usefixtures("always_longest")
def test_a_task_that_becomes_due_meanwhile_is_found_within_half_a_second(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 7)
    step.due = {step.codes.pending: stopped_clock.now() + 7 * SECOND}
    assert pauses(poller, stopped_clock, 1) == [7.5]


def test_a_task_that_is_due_next_week_does_not_keep_it_from_polling(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.due = {step.codes.pending: stopped_clock.now() + 7 * 24 * HOUR}
    assert max(pauses(poller, stopped_clock, 20)) <= 30
    assert step.rounds == []


def test_only_states_with_due_tasks_are_scanned(poller: Poller, step: FakeStep) -> None:
    step.tasks, step.due = ["o-1"], {step.codes.failed: step._clock.now() + SECOND}
    assert (poller.take(), step.rounds) == ("o-1", [[step.codes.pending]])


def test_failed_tasks_and_locks_of_which_nothing_is_known_are_asked_for_every_30_seconds(
    step: FakeStep, stopped_clock: StoppedClock
) -> None:
    poller, end = Poller(step, 2 * SECOND), stopped_clock.now() + HOUR
    while stopped_clock.now() < end:
        pauses(poller, stopped_clock, 1)
    numbers = [step.asked.count(code) for code in (step.codes.pending, step.codes.failed, step.codes.in_progress)]
    assert 1800 <= numbers[0] <= 2000
    assert 110 <= numbers[1] == numbers[2] <= 122
    assert sum(numbers) / 2 < IDLE_READS


@pytest.mark.usefixtures("always_longest")
def test_a_failed_task_is_asked_for_when_the_worker_that_saw_it_fail_knows_that_it_is_due(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 7)
    assert poller.take() is None
    poller.cooldown.begin_run("o-1")
    poller.ends("o-1", "failed", due_time=stopped_clock.now() + 3 * SECOND)
    assert (poller.next_look - stopped_clock.now()).total_seconds() == 3
    step.due = {step.codes.failed: stopped_clock.now() + 3 * SECOND}
    step.tasks = ["o-1"]
    stopped_clock.advance(3 * SECOND)
    assert (poller.is_ready(stopped_clock.now()), poller.take()) == (True, "o-1")
    assert step.rounds == [[step.codes.failed]]


@pytest.mark.parametrize("delay", [0, 0.7, 3, 40])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.usefixtures("always_longest")
def test_a_task_that_fails_during_any_request_is_asked_for_once_it_is_due_and_in_the_index(
    step: FakeStep, stopped_clock: StoppedClock, number: int, delay: float
) -> None:
    source, requests, failed = Poller(step, 2 * SECOND), itertools.count(), step.codes.failed
    due = shown = stopped_clock.now() + HOUR

    def fail_at_last() -> None:
        """Fail before the first request, or during one of the next."""
        nonlocal due, shown
        if next(requests) == number:
            due, shown = stopped_clock.now() + delay * SECOND, stopped_clock.now() + SECOND
            source.ends("o-1", "failed", due_time=due)
            stopped_clock.advance(SECOND / 100)

    step.tasks = ["o-1"]
    assert source.take() == "o-1"
    step.tasks, step.during_request = [], fail_at_last
    fail_at_last()
    while stopped_clock.now() < max(due, shown) + SECOND:
        step.due = {failed: due} if stopped_clock.now() >= shown else {}
        source.take()
        stopped_clock.advance(max(source.next_look - stopped_clock.now(), SECOND / 100))
    assert [time for code, time in step.asked_at if code == failed and max(due, shown) <= time]


def test_a_look_before_a_failed_task_may_be_tried_again_does_not_lose_it(
    step: FakeStep, stopped_clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, now = Poller(step, eager=True), stopped_clock.now()
    step.tasks = ["o-1"]
    assert source.take() == "o-1"
    step.tasks = []
    while source.is_ready(now):
        assert source.take() is None
    step.due, end_run = {step.codes.failed: now}, source.cooldown.end_run

    def look_first(task_id: str) -> None:
        if source.is_ready(now):
            source.take()  # on another thread
        end_run(task_id)

    monkeypatch.setattr(source.cooldown, "end_run", look_first)
    source.ends("o-1", "failed", due_time=now)
    assert source.is_ready(now)


@pytest.mark.usefixtures("always_longest")
def test_locks_that_expire_one_after_another_are_taken_over_at_once_and_before_all_others(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    now = stopped_clock.now()
    step.tasks = [f"o-{number}" for number in range(500)]
    step.locks = {f"lost-{number}": now + 4 * number * SECOND for number in range(1, 6)}
    late = []
    for _ in range(25):
        if (task_id := poller.take()) is not None and task_id.startswith("lost"):
            late.append((stopped_clock.now() - step.locks.pop(task_id)).total_seconds())
        stopped_clock.advance(SECOND)
    assert len(late) == 5
    assert max(late) <= 2


def test_a_task_that_was_refused_is_left_alone_for_some_seconds(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    poller.ends("o-1", "refused", TaskLockedError("held"))
    for _ in range(4):
        assert poller.take() is None
        stopped_clock.advance(SECOND)
    stopped_clock.advance(11 * SECOND)
    assert poller.take() == "o-1"


def test_a_task_that_still_runs_is_not_taken_again(poller: Poller, step: FakeStep, stopped_clock: StoppedClock) -> None:
    step.tasks = ["o-1"]
    assert poller.take() == "o-1"
    stopped_clock.advance(HOUR)
    assert poller.take() is None


def test_a_task_that_ends_after_the_index_was_read_is_not_taken_again(
    step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.table.is_in_memory = True
    poller = Poller(step, threads=2)
    step.tasks = ["a"]
    assert poller.take() == "a"
    step.tasks = ["b", "a"]
    stopped_clock.advance(31 * SECOND)
    poller.window.note_answer(lost_to_other=False)
    assert poller.take() == "b"
    poller.ends("a", "succeeded")
    poller.window.note_answer(lost_to_other=False)
    assert poller.take() is None


def test_a_new_scan_begins_after_30_seconds(poller: Poller, step: FakeStep, stopped_clock: StoppedClock) -> None:
    step.tasks = ["o-1", "o-2"]
    assert poller.take() == "o-1"
    step.tasks = ["o-0"]
    stopped_clock.advance(LONGEST)
    assert poller.take() == "o-0"


def test_a_scan_of_a_thousand_tasks_is_followed_by_another_one_at_once(poller: Poller, step: FakeStep) -> None:
    step.tasks = [f"o-{number:04}" for number in range(1500)]
    taken = [poller.take() for _ in range(1502)]
    assert ([each for each in taken if each], taken.index(None)) == (step.tasks, 1000)
    assert step.rounds[:2] == [[step.codes.pending]] * 2


def test_setting_the_clock_back_does_not_lengthen_the_pause(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    pauses(poller, stopped_clock, 8)
    assert poller.take() is None
    stopped_clock.advance(-HOUR)
    step.tasks = ["o-1"]
    assert poller.is_ready(stopped_clock.now())


def test_a_task_that_was_taken_by_another_worker_makes_it_read_again(poller: Poller, step: FakeStep) -> None:
    step.tasks = [f"o-{number:03}" for number in range(400)]
    assert poller.take() == "o-000"
    poller.window.note_sent()
    poller.window.note_answer(lost_to_other=True)
    assert poller.take() is not None
    assert len(step.rounds) == 2


@pytest.mark.usefixtures("always_longest")
def test_failing_polls_are_repeated_less_and_less_often_and_logged_once_a_minute(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    step.error = failed("ThrottlingException")
    assert pauses(poller, stopped_clock, 12) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4  # in 3 minutes, 31.5 seconds
    assert "Fake.step" in messages[0]
    assert "failed 8 times since" in messages[1]


@pytest.mark.usefixtures("always_longest")
def test_the_end_of_an_outage_is_logged(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pynamodb_tracker")
    step.error = failed("ThrottlingException")
    pauses(poller, stopped_clock, 3)
    step.error = None
    assert pauses(poller, stopped_clock, 1) == [0.5]
    assert "requests about Fake.step succeed again, after 3 failures" in caplog.text


def test_any_error_of_a_poll_is_survived_and_logged_with_its_traceback(
    poller: Poller, step: FakeStep, caplog: pytest.LogCaptureFixture
) -> None:
    step.error = RuntimeError("odd")
    assert poller.take() is None
    assert "RuntimeError: odd" in caplog.text
    assert "Traceback" in caplog.text


def test_a_claim_that_is_throttled_ends_the_scan(poller: Poller, step: FakeStep) -> None:
    step.tasks = ["o-1", "o-2"]
    assert poller.take() == "o-1"
    poller.ends("o-1", "refused", failed("ThrottlingException", UpdateError))
    assert not poller.is_ready(step._clock.now())


def test_locks_are_asked_for_again_after_a_scan_that_ended_early(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = ["o-1", "o-2"]
    assert poller.take() == "o-1"
    poller.ends("o-1", "refused", failed("ThrottlingException", UpdateError))
    stopped_clock.advance(poller.look_at - stopped_clock.now())
    assert (poller.take(), step.asked.count(step.codes.in_progress)) == ("o-2", 2)


def test_a_claim_that_is_denied_ends_the_scan_only_if_several_are(poller: Poller, step: FakeStep) -> None:
    step.tasks = [f"o-{number}" for number in range(9)]
    denied = failed("AccessDeniedException", UpdateError)
    for number in range(3):
        assert poller.take() == f"o-{number}"
        poller.ends(f"o-{number}", "refused", denied)
        assert poller.is_ready(step._clock.now())
    assert poller.take() == "o-3"
    poller.ends("o-3", "refused", denied)
    assert not poller.is_ready(step._clock.now())


def made_due(task_id: str, due_time: datetime) -> NewlyDue:
    return NewlyDue(None, task_id, 0, "", due_time)


def test_what_a_run_has_made_due_is_tried_by_its_id_and_not_polled_for(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    """The next step of a task starts at once, in a worker that was idle."""
    pauses(poller, stopped_clock, 8)
    assert poller.take() is None
    polls = len(step.looks)
    assert poller.follow_up(made_due("o-1", stopped_clock.now()))
    assert poller.is_ready(stopped_clock.now())
    given = poller.next(threading.Event())
    assert given is not None
    assert (given.task_id, given.is_follow_up, len(step.looks)) == ("o-1", True, polls)


def test_a_task_that_makes_itself_due_again_and_again_waits_for_the_index_each_time(
    poller: Poller, stopped_clock: StoppedClock
) -> None:
    poller.take()
    poller.follow_up(made_due("o-1", stopped_clock.now()))
    starts = []
    for _ in range(50):
        if poller.take() == "o-1":
            starts.append(stopped_clock.now())
            poller.ends("o-1", "succeeded")
            poller.follow_up(made_due("o-1", stopped_clock.now()))
        stopped_clock.advance(SECOND / 10)
    assert len(starts) == 5


def test_what_a_run_has_made_due_is_left_to_the_index_after_two_seconds(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    poller.take()
    poller.follow_up(made_due("o-1", stopped_clock.now()))
    stopped_clock.advance(2 * SECOND)
    step.tasks = ["o-1"]
    assert poller.is_ready(stopped_clock.now())
    given = poller.next(threading.Event())
    assert given is not None
    assert (given.task_id, given.is_follow_up) == ("o-1", False)


def test_what_the_scan_has_found_first_is_not_tried_once_more_as_made_due(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock
) -> None:
    step.tasks = ["o-1", "o-2"]
    poller.take()
    poller.follow_up(made_due("o-2", stopped_clock.now()))
    assert poller.take() == "o-2"
    poller.ends("o-2", "succeeded")
    step.tasks = []
    stopped_clock.advance(1.5 * SECOND)
    assert [poller.take(), poller.take()] == [None, None]


def test_a_poll_that_found_nothing_does_not_count_for_the_rate(poller: Poller, stopped_clock: StoppedClock) -> None:
    dispatcher, before = Dispatcher([poller], rate=0.001), stopped_clock.now()
    source, seconds = dispatcher._choose(threading.Event())
    assert source is poller
    assert dispatcher._return_source(poller, dispatcher._ask_source(poller, seconds or 0)) is None
    assert stopped_clock.now() == before
    _, seconds = dispatcher._choose(threading.Event())
    assert seconds is not None
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


@pytest.mark.usefixtures("shop")
def test_an_outage_ends_while_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, first = iter([failed("ThrottlingException")]), DueTasks.first

    def at_first_throttled(due: DueTasks[Any]) -> dict[int, datetime]:
        for error in errors:
            raise error
        return first(due)

    monkeypatch.setattr(DueTasks, "first", at_first_throttled)
    Order.create("o-1")
    assert Worker({Order.confirm: print}, threads=2).run(until_idle=True)[Order.confirm].succeeded == 1


@pytest.mark.parametrize("due", [{}, {10: 24 * HOUR, 12: 24 * HOUR}])
def test_an_idle_hour_at_polls_of_30_seconds_is_about_126_polls(
    poller: Poller, step: FakeStep, stopped_clock: StoppedClock, due: dict[int, timedelta]
) -> None:
    """The pauses are 28.5 seconds on average."""
    end = stopped_clock.now() + HOUR
    step.due = {state: stopped_clock.now() + time for state, time in due.items()}
    while stopped_clock.now() < end:
        pauses(poller, stopped_clock, 1)
    assert 115 <= len(step.looks) <= 140
    assert step.rounds == []


@pytest.mark.engine
def test_a_poll_of_an_idle_step_is_1_request_for_each_shard_or_3_and_half_a_read_unit_each(
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
            assert requests_and_units(Order.confirm, stopped_clock, polls=5) == (7, 3.5)
        requests, units = requests_and_units(Parcel.sort, stopped_clock, polls=5)
        assert requests == 3 * 7
        assert units <= 3 * 3.5


def requests_and_units(step: Any, clock: StoppedClock, *, polls: int) -> tuple[int, float]:
    """Return how many requests some polls of a step send, and how many read units they use."""
    poller = Poller(step._definition)
    with recorded(ShopTask) as requests:
        pauses(poller, clock, polls)
    polled = [request for request in requests if request.operation == "Query"]
    return len(polled), sum(request.answer["ConsumedCapacity"]["CapacityUnits"] for request in polled)


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


def test_a_task_that_waits_to_run_alone_is_left_to_another_worker_that_has_it(
    step: FakeStep, poller: Poller, stopped_clock: StoppedClock
) -> None:
    step.locks = {LeftBehind("a", "host:1", is_last=True): stopped_clock.now()}
    for _ in range(2):
        given = poller.next(threading.Event())
        assert given is not None
        assert given.task_id == "a"
        poller.keep_next(given)
        assert poller.is_ready(stopped_clock.now())
        stopped_clock.advance(5 * SECOND)
    step.startable = False
    assert poller.take() is None
