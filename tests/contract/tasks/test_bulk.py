"""Reopening and ignoring many tasks: each on its own, and a report of what became of them."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from pynamodb_tracker import (
    Report,
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
)
from pynamodb_tracker.clock import StoppedClock, now
from pynamodb_tracker.dynamodb import write_batcher
from tests.support.network import Network, before, error, passing
from tests.support.rows import keys
from tests.support.shop import AppTask, Order
from tests.support.workers import die, fail

pytestmark = pytest.mark.usefixtures("table")

STEP = Order.ship

Many = Callable[..., Report]


def ignore_many(task_ids: object, **options: object) -> Report:
    return STEP.ignore_many(task_ids, reason="cancelled", **options)  # type: ignore[arg-type]  # as the test gives it


both = pytest.mark.parametrize("many", [STEP.reopen_many, ignore_many], ids=["reopen_many", "ignore_many"])


def one_in_each_state() -> list[str]:
    """Create a task in each state, and return their ids, that of a task which does not exist included."""
    for task_id in ("pending", "failed", "running"):
        Order.create(task_id, state=STEP.pending)
    fail(STEP, "failed")
    die(STEP, "running")
    Order.create("ignored", state=STEP.ignored)
    Order.create("before", state=Order.confirm_payment.failed)
    Order.create("beyond", state=STEP.succeeded)
    return ["missing", "pending", "failed", "running", "ignored", "before", "beyond"]


REFUSED = {
    "missing": TaskNotFoundError,
    "running": TaskLockedError,
    "before": TaskNotReadyError,
    "beyond": TaskAlreadySucceededError,
}


def test_many_are_reopened_each_once_and_none_that_is_refused_stops_the_others() -> None:
    ids = one_in_each_state()
    report = STEP.reopen_many([*ids, *ids], by="ada")
    assert sorted(report.succeeded) == ["failed", "ignored", "pending"]
    assert {task_id: type(found) for task_id, found in report.refused.items()} == REFUSED
    assert (report.failed, report.ignored) == ([], [])
    assert [task.errors[-1].worker for task in Order.get_many(["failed", "ignored"])] == ["ada", "ada"]
    assert {task.state for task in Order.get_many(report.succeeded)} == {STEP.pending}


def test_many_are_ignored_each_once_and_none_that_is_refused_stops_the_others() -> None:
    ids = one_in_each_state()
    report = STEP.ignore_many([*ids, *ids], reason="cancelled", by="ada")
    assert sorted(report.ignored) == ["failed", "ignored", "pending"]
    assert {task_id: type(found) for task_id, found in report.refused.items()} == REFUSED
    assert (report.succeeded, report.failed) == ([], [])
    pending, failed = Order.get_many(["pending", "failed"])
    assert [(each.message, each.worker) for each in pending.errors] == [("cancelled", "ada")]
    assert [each.message for each in failed.errors] == ["it broke", "cancelled"]
    assert {task.state for task in Order.get_many(report.ignored)} == {STEP.ignored}


def test_a_refused_task_has_the_error_of_a_single_reopen() -> None:
    Order.create("o-1", state=STEP.succeeded)
    refused = STEP.reopen_many(["o-1"]).refused["o-1"]
    with pytest.raises(TaskAlreadySucceededError) as caught:
        STEP.reopen("o-1")
    assert str(refused) == str(caught.value)


@both
def test_nothing_is_done_for_no_tasks(many: Many) -> None:
    assert many(iter(())) == Report()


def test_reopening_takes_an_id_when_it_is_needed() -> None:
    Order.create_many([{"task_id": f"o-{number}", "state": STEP.failed} for number in range(3)])
    seen: list[int] = []

    def task_ids() -> Iterator[str]:
        for number in range(3):
            seen.append(STEP.pending.count())
            yield f"o-{number}"

    STEP.reopen_many(task_ids(), threads=1)
    assert seen == [0, 1, 2]


def test_a_task_for_which_no_due_time_is_given_is_not_left_out_silently() -> None:
    with pytest.raises(ValueError, match="due_times has fewer times than task_ids has ids"):
        STEP.reopen_many(["o-1", "o-2"], due_times=[now()], threads=2)
    assert STEP.reopen_many(["o-1"], due_times=[now()]).refused.keys() == {"o-1"}


def test_ctrl_c_ends_it_and_leaves_the_others_as_they_are() -> None:
    ids = [f"o-{number:02}" for number in range(16)]
    Order.create_many([{"task_id": task_id, "state": STEP.failed} for task_id in ids])

    def interrupted() -> Iterator[str]:
        yield from ids[:13]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        STEP.reopen_many(interrupted(), threads=4)
    left = [task.task_id for task in STEP.failed.query()]
    assert set(ids[13:]) <= set(left)
    assert len(left) <= 3 + 4  # those that were not taken, and those that no thread had begun


def test_a_task_that_fails_after_it_was_read_is_ignored_with_that_failure(
    network: Network, clock: StoppedClock
) -> None:
    Order.create("o-1", state=STEP.pending)
    before(network, "UpdateItem", lambda: fail(STEP, "o-1"))
    assert ignore_many(["o-1"], threads=1).ignored == ["o-1"]
    clock.advance(timedelta(minutes=2))
    assert [each.message for each in Order.get_task("o-1").errors] == ["it broke", "cancelled"]


def test_a_task_that_was_created_again_after_it_was_read_is_not_ignored(network: Network) -> None:
    def begin_another_life() -> None:
        Order.delete_task("o-1")
        Order.create("o-1", state=STEP.pending)

    Order.create("o-1", state=STEP.pending)
    before(network, "UpdateItem", begin_another_life)
    refused = ignore_many(["o-1"], threads=1).refused["o-1"]
    assert "the task was deleted and recreated in the meantime" in str(refused)
    assert Order.get_task("o-1").state == STEP.pending


@both
def test_a_request_that_fails_refuses_its_task_alone(many: Many, network: Network) -> None:
    Order.create_many([{"task_id": f"o-{number}", "state": STEP.failed} for number in range(3)])

    def rule(operation: str, request: dict[str, object], send: Callable[[], dict[str, object]]) -> dict[str, object]:
        if operation == "BatchExecuteStatement":
            raise error(operation, "ValidationException")  # one of them is invalid: each is sent alone
        if operation == "BatchGetItem" or "o-1" in str(request.get("Key")):
            raise error(operation, "AccessDeniedException")
        return send()

    network.rule = rule
    report = many(["o-0", "o-1", "o-2"])
    assert sorted([*report.succeeded, *report.ignored]) == ["o-0", "o-2"]
    assert "AccessDenied" in str(report.refused["o-1"])


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the threads of a slow machine gather their writes, too, and the engine known."""
    monkeypatch.setattr(write_batcher, "_LONGEST_WAIT", 0.5)
    Order.create_many(["first", "second"], threads=2)


@pytest.mark.usefixtures("gathered")
def test_a_task_that_exists_is_refused_with_its_row_in_a_batch_too() -> None:
    ids = [f"o-{number}" for number in range(8)]
    Order.create("o-5", amount=5)
    report = Order.create_many([{"task_id": task_id, "amount": 1} for task_id in ids], threads=8)
    assert sorted(report.succeeded) == [task_id for task_id in ids if task_id != "o-5"]
    refused = report.refused["o-5"]
    assert isinstance(refused, TaskAlreadyExistsError)
    assert isinstance(refused.task, Order)
    assert (refused.task.amount, Order.get_task("o-5").amount) == (5, 5)


@pytest.mark.usefixtures("gathered")
def test_a_task_of_this_call_is_created_although_the_answer_to_its_batch_was_lost(network: Network) -> None:
    lost = list[str]()

    def rule(operation: str, _request: dict[str, object], send: Callable[[], dict[str, object]]) -> dict[str, object]:
        answer = send()
        if operation in {"BatchExecuteStatement", "PutItem"} and not lost:
            lost.append(operation)
            raise error(operation, "InternalServerError")
        return answer

    network.rule = rule
    report = Order.create_many(["o-1", "o-2", "o-3"], threads=3)
    assert (sorted(report.succeeded), report.refused, len(lost)) == (["o-1", "o-2", "o-3"], {}, 1)


@pytest.mark.parametrize("threads", [1, 8])
def test_a_task_that_is_claimed_after_it_was_seen_is_not_deleted(network: Network, threads: int) -> None:
    Order.create_many(["o-1", "o-2"])

    def rule(operation: str, _request: dict[str, object], send: Callable[[], dict[str, object]]) -> dict[str, object]:
        answer = send()
        if operation == "Scan":
            network.rule = passing
            die(Order.confirm_payment, "o-1")
        return answer

    network.rule = rule
    report = Order.delete_use_case(threads=threads)
    assert report.succeeded == ["o-2"]
    assert isinstance(report.refused["o-1"], TaskLockedError)
    assert Order.get_task("o-1").state == Order.confirm_payment.in_progress


def test_what_a_command_stores_off_row_after_the_task_was_seen_is_deleted_with_it(network: Network) -> None:
    Order.create("o-1")

    def rule(operation: str, _request: dict[str, object], send: Callable[[], dict[str, object]]) -> dict[str, object]:
        answer = send()
        if operation == "Scan":
            network.rule = passing
            Order.confirm_payment.ignore("o-1", reason="cancelled " * 200)  # its log is off-row
            Order.confirm_payment.reopen("o-1")  # status, fence and attempt are those that were seen
        return answer

    network.rule = rule
    assert (Order.delete_use_case().succeeded, list(keys(AppTask))) == (["o-1"], [])
