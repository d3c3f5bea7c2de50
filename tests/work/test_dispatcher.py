"""What one call tries: what was due, then what its own runs make due, each task once at each step."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pynamodb_tracker import clock
from pynamodb_tracker.model.status import Codes
from pynamodb_tracker.query.due import LeftBehind
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import Given, OnceThrough, StepWork
from pynamodb_tracker.writes.lock import new_token
from pynamodb_tracker.writes.participants import NewlyDue
from tests.support.shop import Order
from tests.work.search import Slots

PAY, SHIP, DELIVER = Order.tracker.steps
SOON, NOW = 30.0, clock.now()


def source_of(
    codes: Codes, *ids: str, read: Callable[[], Iterator[str]] | None = None, slots: Any = None, **options: Any
) -> OnceThrough:
    """Return the source of a step of which these ids are due."""
    definition = SimpleNamespace(model=Order, codes=codes, pause=lambda: None, slots=lambda: slots)
    work = StepWork(definition, print, print)  # all that is used of one
    return OnceThrough(work, Candidates(lambda *_: iter(ids) if read is None else read(), **options))


def after(*task_ids: str, at: Codes = SHIP, token: str = "") -> list[NewlyDue]:
    """Return what a run has made due at that step; the token is that of the creation."""
    return [NewlyDue(Order, task_id, at.pending, token, NOW) for task_id in task_ids]


def given_by(dispatcher: Dispatcher, made_due: Callable[[Given], list[NewlyDue]] = lambda _: []) -> list[str]:
    """Return all ids, each of whose attempts ends before the next one begins."""
    found = []
    while (given := dispatcher.take()) is not None:
        found.append(given.task_id)
        end(dispatcher, given, made_due(given))
    return found


def end(
    dispatcher: Dispatcher, given: Given | None, made_due: list[NewlyDue] | None = None, *, refused: bool = False
) -> None:
    assert given is not None
    dispatcher.note_answer(given, lost_to_other=False)
    dispatcher.note_end(given, made_due or [], was_refused=refused)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def coming(pool: ThreadPoolExecutor, dispatcher: Dispatcher) -> Future[Given | None]:
    return pool.submit(dispatcher.take)


def test_what_runs_make_due_comes_behind_the_others_of_its_step_and_each_task_once() -> None:
    dispatcher = Dispatcher([source_of(PAY, "a", "b"), source_of(SHIP, "c", "d")])

    def made_due(given: Given) -> list[NewlyDue]:
        is_pay = given.source.work.codes is PAY
        return after(given.task_id, "d", "z") if is_pay else after(given.task_id, at=DELIVER)

    assert given_by(dispatcher, made_due) == ["a", "c", "b", "d", "a", "z", "b"]


def test_a_task_that_is_always_due_again_and_one_that_creates_others_do_not_keep_it_going() -> None:
    dispatcher = Dispatcher([source_of(PAY, "again")])
    given = given_by(dispatcher, lambda it: after("again", f"after-{it.task_id}", at=PAY, token=new_token()))
    assert given == ["again"]


def test_a_step_that_is_paused_gives_no_more_tasks_and_does_not_count_for_the_limit() -> None:
    pay = source_of(PAY, "a", "b")
    dispatcher = Dispatcher([pay, source_of(SHIP, "c", "d")], limit=3)

    def pause(_: Given) -> list[NewlyDue]:
        pay.work.pause = lambda: "paused"  # type: ignore[assignment,return-value]
        return after("e", at=PAY)

    assert given_by(dispatcher, pause) == ["a", "c", "d"]


def test_a_source_that_selects_some_tasks_takes_no_others() -> None:
    dispatcher = Dispatcher([source_of(PAY, "a"), source_of(SHIP, selects=True)])
    assert given_by(dispatcher, lambda it: after(it.task_id)) == ["a"]


def test_a_selected_task_that_was_set_aside_is_tried_even_after_a_long_wait_for_a_slot(
    stopped_clock: StoppedClock,
) -> None:
    source, stopped = source_of(PAY, selects=True), threading.Event()
    assert source.next(stopped) is None
    source.aside["b"] = None
    assert source.has_next(stopped)
    stopped_clock.advance(timedelta(seconds=2))
    assert (given := source.next(stopped)) is not None
    assert given.task_id == "b"


def test_it_ends_only_once_nothing_runs_that_could_make_something_due(pool: ThreadPoolExecutor) -> None:
    dispatcher = Dispatcher([source_of(PAY, "a", "b"), source_of(SHIP)])
    first, second = dispatcher.take(), dispatcher.take()
    third = coming(pool, dispatcher)
    end(dispatcher, first)
    assert not third.done()
    end(dispatcher, second, after("b"))
    given = third.result(SOON)
    assert given is not None
    assert (given.source.work.codes, given.task_id) == (SHIP, "b")
    fourth = coming(pool, dispatcher)
    end(dispatcher, given)
    assert fourth.result(SOON) is None


@pytest.mark.parametrize("how", [Dispatcher.stop, Dispatcher.close])
def test_a_stop_ends_it_at_once(pool: ThreadPoolExecutor, how: Callable[[Dispatcher], None]) -> None:
    dispatcher = Dispatcher([source_of(PAY, "a")])
    dispatcher.take()
    second = coming(pool, dispatcher)
    how(dispatcher)
    assert second.result(SOON) is None
    assert dispatcher.stopped.is_set() == (how is Dispatcher.stop)


def test_a_limit_counts_starts_and_waits_to_know_whether_one_was_refused(pool: ThreadPoolExecutor) -> None:
    dispatcher = Dispatcher([source_of(PAY, "a", "b", "c"), source_of(SHIP)], limit=2)
    first, second = dispatcher.take(), dispatcher.take()
    third = coming(pool, dispatcher)
    end(dispatcher, first, refused=True)
    given = third.result(SOON)
    assert given is not None
    assert given.task_id == "c"
    end(dispatcher, second, after("b"))
    end(dispatcher, given, after("c"))
    assert dispatcher.take() is None


def test_no_task_starts_once_it_does_not_go_on_and_those_that_were_given_are_not_stopped() -> None:
    goes_on = iter([True] * 3 + [False] * 9)
    dispatcher = Dispatcher([source_of(PAY, "a", "b", "c")], goes_on=lambda: next(goes_on))
    assert given_by(dispatcher) in (["a"], ["a", "b"])
    assert not dispatcher.stopped.is_set()


def test_a_step_that_waits_for_an_answer_does_not_hold_up_another_one() -> None:
    """The claim of `a` is slow, and `a` of another step starts all the same."""
    dispatcher = Dispatcher([source_of(PAY, "a", "b", threads=2), source_of(SHIP, "c", "d", threads=2)])
    found = [dispatcher.take() for _ in range(2)]
    end(dispatcher, found[1])
    assert [given and given.task_id for given in (*found, dispatcher.take())] == ["a", "c", "d"]


def test_a_task_that_waits_for_a_slot_is_read_again(stopped_clock: StoppedClock, pool: ThreadPoolExecutor) -> None:
    """What was due before a slot is free may have been taken since."""
    slots, due = Slots(1), ["a", "b", "c"]
    dispatcher = Dispatcher([source_of(PAY, read=lambda: iter(list(due)), slots=slots)])
    assert dispatcher.take() is not None
    second = coming(pool, dispatcher)
    while not (dispatcher._waiting or second.done()):
        pass
    due.remove("b")  # by another worker
    stopped_clock.advance(timedelta(seconds=2))
    slots.leave()
    given = second.result(SOON)
    assert given is not None
    assert given.task_id == "c"


def test_a_rate_is_kept_by_looking_first_and_then_waiting_for_the_turn(stopped_clock: StoppedClock) -> None:
    began, starts = stopped_clock.now(), list[float]()
    dispatcher = Dispatcher([source_of(PAY, "a", "b", "c")], rate=0.1)

    def note(_: object) -> list[NewlyDue]:
        starts.append((stopped_clock.now() - began).total_seconds())
        return []

    given_by(dispatcher, note)
    assert (starts, (stopped_clock.now() - began).total_seconds()) == ([0, 10, 20], 20)


def test_a_clock_that_is_put_back_does_not_lengthen_the_wait_for_a_turn(stopped_clock: StoppedClock) -> None:
    dispatcher = Dispatcher([source_of(PAY, "a", "b")], rate=0.1)
    end(dispatcher, dispatcher.take())
    stopped_clock.advance(-timedelta(hours=1))
    before = stopped_clock.now()
    end(dispatcher, dispatcher.take())
    assert stopped_clock.now() == before


def left(task_id: str, worker: str = "host:1", *, is_last: bool = False) -> LeftBehind:
    return LeftBehind(task_id, worker, is_last=is_last)


def test_of_one_dead_worker_one_task_runs_at_a_time_and_others_run_beside_it() -> None:
    dispatcher = Dispatcher([source_of(PAY, left("a"), left("b"), left("c"), left("d", "host:2"), "e")])
    running = [dispatcher.take() for _ in range(3)]
    assert [given and given.task_id for given in running] == ["a", "d", "e"]
    for given in running:
        end(dispatcher, given)
    assert given_by(dispatcher) == ["b", "c"]


def test_after_every_eight_ends_one_more_task_of_a_dead_worker_runs_at_once(pool: ThreadPoolExecutor) -> None:
    dispatcher = Dispatcher([source_of(PAY, *(left(f"{number:02}") for number in range(12)))])
    for _ in range(8):
        end(dispatcher, dispatcher.take())
    running = [dispatcher.take(), dispatcher.take()]
    third = coming(pool, dispatcher)
    while not (dispatcher._waiting or third.done()):
        pass
    assert not third.done()
    end(dispatcher, running[0])
    assert third.result(SOON) is not None
    dispatcher.stop()


@pytest.mark.parametrize("is_read", [True, False])
def test_a_last_attempt_runs_alone_although_others_are_due_all_the_time(
    pool: ThreadPoolExecutor, *, is_read: bool
) -> None:
    """Whether it is the last one is known from the row, or from the claim, which is released then."""
    numbers = itertools.count()
    always = iter(lambda: f"b{next(numbers)}", "")
    dispatcher = Dispatcher(
        [source_of(PAY, left("a", is_last=True) if is_read else "a"), source_of(SHIP, read=lambda: always)]
    )
    dispatcher._order.reverse()
    running = [dispatcher.take()]
    if not is_read:
        found = dispatcher.take()
        assert found is not None
        assert not dispatcher.try_to_run_alone(found)
        dispatcher.note_answer(found, lost_to_other=False)
        dispatcher.note_end(found, was_refused=True, again_alone=True)
        running.append(dispatcher.take())
    alone = coming(pool, dispatcher)
    while not (dispatcher._waiting or alone.done()):
        pass
    for each in running:
        end(dispatcher, each)
    given = alone.result(SOON)
    assert given is not None
    other = coming(pool, dispatcher)
    while not (dispatcher._waiting or other.done()):
        pass
    assert (given.task_id, other.done(), dispatcher.try_to_run_alone(given)) == ("a", False, True)
    end(dispatcher, given)
    assert other.result(SOON) is not None
    dispatcher.stop()


def test_an_error_of_the_index_is_raised_where_the_task_was_asked_for() -> None:
    def fail() -> str:
        raise ConnectionError

    dispatcher = Dispatcher([source_of(PAY, read=lambda: iter(fail, ""))])
    with pytest.raises(ConnectionError):
        dispatcher.take()
    assert dispatcher.take() is None


def test_an_attempt_waits_no_longer_for_a_slot_than_it_takes_to_stop(pool: ThreadPoolExecutor) -> None:
    dispatcher, stopped = Dispatcher([source_of(PAY, "a", slots=Slots(0))]), threading.Event()
    first = coming(pool, dispatcher)
    assert not stopped.wait(0.01)
    dispatcher.stop()
    assert first.result(SOON) is None
