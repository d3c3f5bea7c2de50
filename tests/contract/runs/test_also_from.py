"""Further states from which a step may start: declared, or for one call."""

from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    BoundStep,
    Step,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotReadyError,
    TaskNotStartableError,
    UseCase,
)
from pynamodb_tracker.clock import StoppedClock
from tests.support.recorder import recorded
from tests.support.shop import AppTask, Order, Receipt
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")


class Document(AppTask):
    """The archive takes what could not be translated, too; a review may also begin without being read."""

    use_case_id = UseCase("document")

    read = Step(10)
    translate = Step(20, retry_delay=timedelta(hours=1))
    archive = Step(30, also_from=(translate.failed, translate.ignored))
    review = Step(40, also_from=(read.pending, read.succeeded))


def run_again(step: BoundStep[Order], task_id: str, *states: Any) -> None:
    with step.start(task_id, also_from=states):
        pass


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (Document.translate.ignored, Document.archive),
        (Document.translate.pending, Document.review),  # where `read` has succeeded
        (Document.read.pending, Document.review),
    ],
    ids=str,
)
def test_a_step_starts_from_a_declared_further_state(state: Any, step: BoundStep[Document]) -> None:
    Document.create("d-1", state=state)
    succeed(step, "d-1")
    assert Document.get_task("d-1").state == step.succeeded


def test_the_further_state_has_to_be_due_as_well(clock: StoppedClock) -> None:
    Document.create("d-1", state=Document.translate.pending)
    fail(Document.translate, "d-1")
    with pytest.raises(TaskNotStartableError), Document.archive.start("d-1"):
        pytest.fail("it is not due")
    clock.advance(timedelta(hours=1))
    succeed(Document.archive, "d-1")


def test_no_other_state_is_startable_because_of_it() -> None:
    Document.create("d-1", state=Document.translate.pending)
    with pytest.raises(TaskNotReadyError), Document.archive.start("d-1"):
        pytest.fail("it is to be translated")


def test_a_step_that_was_left_to_another_one_begins_with_its_first_attempt(clock: StoppedClock) -> None:
    Document.create("d-1", state=Document.translate.pending)
    fail(Document.translate, "d-1")
    clock.advance(timedelta(hours=1))
    fail(Document.translate, "d-1")
    clock.advance(timedelta(hours=1))
    with Document.archive.start("d-1") as ctx:
        assert (ctx.attempt, ctx.task.fence) == (1, 3)


def test_a_failure_after_it_belongs_to_the_step_that_ran() -> None:
    Document.create("d-1", state=Document.translate.ignored)
    fail(Document.archive, "d-1")
    assert Document.get_task("d-1").state == Document.archive.failed


def test_an_ignored_task_can_be_started_by_a_single_call() -> None:
    Order.create("o-1", state=Order.ship.ignored)
    run_again(Order.ship, "o-1", Order.ship.ignored)
    assert Order.get_task("o-1").state == Order.deliver.pending


def test_a_single_call_adds_to_what_is_declared() -> None:
    Document.create("d-1", state=Document.translate.ignored)
    Document.create("d-2", state=Document.review.pending)
    for task_id in ("d-1", "d-2"):
        with Document.archive.start(task_id, also_from=[Document.review.pending]):
            pass
        assert Document.get_task(task_id).state == Document.archive.succeeded


def test_a_single_call_is_forgotten_after_it() -> None:
    Order.create("o-1", state=Order.ship.pending)
    run_again(Order.confirm_payment, "o-1", Order.ship.pending)
    with pytest.raises(TaskAlreadySucceededError), Order.confirm_payment.start("o-1"):
        pytest.fail("it is done")


def test_run_takes_further_states_as_well() -> None:
    Order.create("o-1", state=Order.ship.pending)
    assert Order.confirm_payment.run("o-1", lambda ctx: ctx.attempt, also_from=(Order.ship.pending,)) == 1
    assert Order.get_task("o-1").state == Order.ship.pending


def test_own_states_among_the_further_ones_change_nothing() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1")
    with Order.confirm_payment.start("o-1", also_from=(Order.confirm_payment.failed,)) as ctx:
        assert ctx.attempt == 2


@pytest.mark.parametrize(
    ("state", "operations"),
    [
        (Document.archive.pending, ["UpdateItem"]),
        (Document.translate.ignored, ["UpdateItem", "GetItem", "UpdateItem"]),
    ],
    ids=str,
)
def test_only_a_start_from_a_further_state_costs_three_requests(state: Any, operations: list[str]) -> None:
    Document.create("d-1", state=state)
    with recorded() as requests, Document.archive.start("d-1"):
        assert requests.operations == operations


def test_a_start_from_a_further_state_works_without_detailed_errors() -> None:
    Document.create("d-1", state=Document.translate.ignored)
    with Document.archive.start("d-1", detailed_error=False):
        pass
    assert Document.get_task("d-1").state == Document.archive.succeeded


def test_a_task_that_runs_another_step_is_refused_all_the_same() -> None:
    Document.create("d-1", state=Document.translate.pending)
    with Document.translate.start("d-1"), pytest.raises(TaskNotReadyError), Document.archive.start("d-1"):
        pytest.fail("it is being translated")


def test_what_was_started_from_a_further_state_can_be_taken_over(clock: StoppedClock) -> None:
    Document.create("d-1", state=Document.translate.ignored)
    with pytest.raises(TaskLockedError), Document.archive.start("d-1"):
        succeed(Document.archive, "d-1")
    Document.create("d-2", state=Document.archive.pending)
    die(Document.archive, "d-2")
    clock.advance(timedelta(minutes=6))
    with Document.archive.start("d-2") as ctx:
        assert ctx.attempt == 2


def test_a_finished_task_that_is_started_again_is_not_deleted_by_its_retention() -> None:
    Receipt.create("r-1", state=Receipt.send.succeeded)
    assert Receipt.get_task("r-1").expire_time is not None
    with Receipt.send.start("r-1", also_from=(Receipt.send.succeeded,)):
        assert Receipt.get_task("r-1").expire_time is None


def test_a_released_start_from_a_further_state_is_pending_of_the_step_that_ran() -> None:
    Order.create("o-1", state=Order.ship.ignored)
    with pytest.raises(KeyboardInterrupt), Order.ship.start("o-1", also_from=(Order.ship.ignored,)):
        raise KeyboardInterrupt
    task = Order.get_task("o-1")
    assert (task.state, task.attempt) == (Order.ship.pending, 0)


def test_an_ignored_task_stays_ignored_without_it() -> None:
    Order.create("o-1", state=Order.ship.ignored)
    with pytest.raises(TaskIgnoredError), Order.ship.start("o-1", also_from=(Order.confirm_payment.failed,)):
        pytest.fail("it is ignored")
