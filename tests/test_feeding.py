"""What one call tries: what was due, then what its own runs make due, each task once at each step."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from pynamodb_tracker import clock
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.participants import MadeDue
from pynamodb_tracker.work.attempt import TaskAttempt
from pynamodb_tracker.work.candidates import Feed, Feeding
from tests.support.shop import Order

PAY, SHIP, DELIVER = Order.tracker.steps
SOON, NOW = 30.0, clock.now()


def feed_of(*ids: str, selects: bool = False) -> Feed:
    """Return a feed for several threads, each of whose claims is answered at once."""
    feed = Feed(lambda *_: iter(ids), selects=selects)
    feed.note_response(was_taken=False)
    return feed


def after(*task_ids: str, at: Codes = SHIP, token: str = "") -> list[MadeDue]:
    """Return what a run has made due at that step; the token is that of the creation."""
    return [MadeDue(Order, task_id, at.pending, token, NOW) for task_id in task_ids]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_what_runs_make_due_comes_behind_the_others_of_its_step_and_each_task_once() -> None:
    feeding, given = Feeding({PAY: feed_of("a", "b"), SHIP: feed_of("c", "d")}), []
    for codes, task_id in feeding:
        given.append((codes.step, task_id))
        following = {PAY: after(task_id, "d", "z"), SHIP: after(task_id, at=DELIVER)}
        feeding.note_end(following[codes])
    assert given == [
        *[("confirm_payment", "a"), ("ship", "c"), ("confirm_payment", "b"), ("ship", "d")],
        *[("ship", "a"), ("ship", "z"), ("ship", "b")],
    ]


def test_a_task_that_is_always_due_again_and_one_that_creates_others_do_not_keep_it_going() -> None:
    feeding, given = Feeding({PAY: feed_of("again")}), []
    for _, task_id in feeding:
        given.append(task_id)
        feeding.note_end(after("again", f"after-{task_id}", at=PAY, token=new_token()))
    assert given == ["again"]


def test_a_step_that_is_left_out_gives_no_more_tasks_and_does_not_count_for_the_limit() -> None:
    feeding, given = Feeding({PAY: feed_of("a", "b"), SHIP: feed_of("c", "d")}, limit=2), []
    for codes, task_id in feeding:
        given.append(task_id)
        if codes is PAY:
            feeding.leave_out(PAY)
        feeding.note_end(after("e", at=PAY))
    assert given == ["a", "c", "d"]


def test_a_feed_that_selects_some_tasks_takes_no_others() -> None:
    feeding, given = Feeding({PAY: feed_of("a"), SHIP: feed_of(selects=True)}), []
    for _, task_id in feeding:
        given.append(task_id)
        feeding.note_end(after(task_id))
    assert given == ["a"]


def test_it_ends_only_once_nothing_runs_that_could_make_something_due(pool: ThreadPoolExecutor) -> None:
    feeding = Feeding({PAY: feed_of("a", "b"), SHIP: feed_of()})
    tasks = iter(feeding)
    assert [task_id for _, task_id in (next(tasks), next(tasks))] == ["a", "b"]
    third = coming(pool, tasks)
    feeding.note_end(after())
    assert not third.done()
    feeding.note_end(after("b"))
    assert third.result(SOON) == (SHIP, "b")
    fourth = coming(pool, tasks)
    feeding.note_end(after())
    assert fourth.result(SOON) is None


def test_a_stop_ends_it_at_once(pool: ThreadPoolExecutor) -> None:
    feeding = Feeding({PAY: feed_of("a")})
    tasks = iter(feeding)
    next(tasks)
    second = coming(pool, tasks)
    attempt: TaskAttempt[Order] = TaskAttempt(PAY, "a")
    with pytest.raises(KeyboardInterrupt), attempt.followed_by(feeding):
        raise KeyboardInterrupt
    assert second.result(SOON) is None


def test_an_attempt_that_is_not_begun_because_of_an_error_answers_its_feed() -> None:
    feed = Mock(spec=Feed)
    attempt: TaskAttempt[Order] = TaskAttempt(PAY, "a", feed=feed)
    with pytest.raises(LookupError), attempt.followed_by(Feeding({PAY: feed})):
        raise LookupError
    feed.note_response.assert_called_once_with(was_taken=False)


def test_a_limit_counts_starts_and_waits_to_know_whether_one_was_refused(pool: ThreadPoolExecutor) -> None:
    feeding = Feeding({PAY: feed_of("a", "b", "c"), SHIP: feed_of()}, limit=2)
    tasks = iter(feeding)
    assert [task_id for _, task_id in (next(tasks), next(tasks))] == ["a", "b"]
    third = coming(pool, tasks)
    feeding.note_end([], was_refused=True)
    assert third.result(SOON) == (PAY, "c")
    feeding.note_end(after("b"))
    feeding.note_end(after("c"))
    assert next(tasks, None) is None


def coming(pool: ThreadPoolExecutor, tasks: Iterator[tuple[Codes, str]]) -> Future[tuple[Codes, str] | None]:
    """Ask for the next task on another thread."""
    return pool.submit(lambda: next(tasks, None))
