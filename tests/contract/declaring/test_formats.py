"""Rows that a later version of the library wrote: they are read as far as possible, and nothing changes them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import TaskFormatError, TaskNotStartableError
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.row import LATEST_FORMAT
from pynamodb_tracker.model.worker_name import this_worker
from tests.support.network import Network, silent
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import Order, Parcel, created
from tests.support.workers import die, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

STEP = Order.confirm_payment


def later(**attributes: Any) -> dict[str, Any]:
    """Let a later version write the row, and return it."""
    change(Order, "o-1", v={"N": str(LATEST_FORMAT + 1)}, **attributes)
    return stored(Order, "o-1")


def start(**options: Any) -> None:
    with STEP.start("o-1", **options):
        pytest.fail("it is of a later version")


def test_a_new_task_has_the_format_of_this_version() -> None:
    assert (stored(Order, "o-1")["v"], Order.get_task("o-1").format_version) == ({"N": "1"}, 1)


COMMANDS: dict[str, Callable[[], object]] = {
    "start": start,
    "ignore": lambda: STEP.ignore("o-1", reason="cancelled"),
    "reopen": lambda: STEP.reopen("o-1"),
    "delete": lambda: Order.delete_task("o-1"),
}


def test_a_row_without_a_format_is_damaged() -> None:
    change(Order, "o-1", v=None)
    before = stored(Order, "o-1")
    for command in COMMANDS.values():
        with pytest.raises(TaskError, match=r"format_version \(it is missing\)"):
            command()
    assert stored(Order, "o-1") == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "task", [{"state": STEP.pending}, {"state": STEP.failed}, {"state": STEP.ignored}], indirect=True
)
def test_what_changes_a_task_leaves_a_row_of_a_later_version_as_it_is(command: str) -> None:
    before = later()
    with pytest.raises(TaskFormatError, match="a later version of pynamodb_tracker wrote it in format 2") as caught:
        COMMANDS[command]()
    assert (caught.value.task_id, caught.value.task is not None, stored(Order, "o-1")) == ("o-1", True, before)


def test_a_running_task_of_a_later_version_is_neither_released_nor_taken_over(clock: StoppedClock) -> None:
    die(STEP, "o-1")
    before = later()
    with pytest.raises(TaskFormatError):
        STEP.unlock("o-1", reason="its host is gone", worker=this_worker())
    clock.advance(timedelta(hours=1))
    for command in (start, lambda: start(also_from=(Order.ship.pending,)), COMMANDS["ignore"], COMMANDS["delete"]):
        with pytest.raises(TaskFormatError):
            command()
    assert stored(Order, "o-1") == before


def test_a_task_of_a_later_version_without_attempts_left_is_not_ignored() -> None:
    before = later(attempt={"N": "3"})
    with pytest.raises(TaskFormatError):
        start()
    assert stored(Order, "o-1") == before


def test_without_details_the_refusal_is_one_request() -> None:
    later()
    with pytest.raises(TaskNotStartableError) as caught, recorded() as requests:
        start(detailed_error=False)
    assert (type(caught.value), requests.operations) == (TaskNotStartableError, ["UpdateItem"])


@created(state=Order.ship.ignored)
def test_a_claim_from_another_state_is_refused_as_well() -> None:
    before = later()
    with pytest.raises(TaskFormatError):
        start(also_from=(Order.ship.ignored,))
    assert stored(Order, "o-1") == before


def test_a_claim_without_an_answer_leaves_no_token_in_a_row_of_a_later_version(network: Network) -> None:
    before = later()
    network.rule = silent("UpdateItem")
    with pytest.raises(UpdateError) as caught:
        start()
    assert "was not locked by this call" in caught.value.__notes__[0]
    assert stored(Order, "o-1") == before


def test_a_run_that_began_before_ends() -> None:
    with STEP.start("o-1") as ctx:
        later()
        ctx.task.amount = 5
        ctx.save()
    assert (Order.get_task("o-1").state, Order.get_task("o-1").amount) == (STEP.succeeded, 5)


def test_a_batch_refuses_it_and_goes_on() -> None:
    later()
    Order.create("o-2")
    report = STEP.run_all(lambda _: None)
    assert (report.succeeded, list(map(type, report.refused.values()))) == (["o-2"], [TaskFormatError])


@created(amount=5)
def test_readers_find_a_task_of_a_later_version() -> None:
    later(news={"S": "unknown here"})
    for task in (Order.get_task("o-1"), *STEP.pending.query(), *STEP.pending.page().tasks, *STEP.due()):
        assert (task.amount, task.format_version) == (5, LATEST_FORMAT + 1)
    assert STEP.pending.count() == Order.counts()[STEP.pending] == 1


def test_a_row_that_this_version_cannot_read_is_reported_as_one_of_a_later_version() -> None:
    later(create_time={"S": "in another form"})
    for command in (lambda: Order.get_task("o-1"), start):
        with pytest.raises(TaskFormatError, match="'o-1'"):
            command()


def test_a_success_that_a_parent_of_a_later_version_prevents_uses_up_no_attempt() -> None:
    STEP.run("o-1", lambda ctx: ctx.create(Parcel, "p-1", wait=True))
    before = later()
    with pytest.raises(TaskFormatError, match="count a task that has ended for"):
        succeed(Parcel.sort, "p-1")
    parcel = Parcel.get_task("p-1")
    assert (parcel.state, parcel.attempt, parcel.errors) == (Parcel.sort.pending, 0, [])
    assert stored(Order, "o-1") == before
