"""A row that has expired, and that DynamoDB has not deleted yet, is in nobody's way."""

# ruff: noqa: PT012 - the run that raises is what is tested, with what comes between its requests

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pynamodb_tracker import Step, TaskAlreadyExistsError, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.network import Network, before
from tests.support.recorder import recorded
from tests.support.rows import remove, stored
from tests.support.shop import AppTask
from tests.support.workers import die, succeed

pytestmark = pytest.mark.usefixtures("table")

DAY = timedelta(days=1)


class Order(AppTask):
    """Its tasks expire after a while, by the stopped clock; dynoxide, whose clock is behind, deletes none."""

    use_case_id = UseCase("expiring", keep_for=DAY, keep_ignored_for=DAY)

    pay = Step(10)
    ship = Step(20)


class Shop(AppTask):
    use_case_id = UseCase("creating")

    open = Step(10)


def of_shop(task_id: str, **options: Any) -> None:
    """Create the task in a run of another one."""
    Shop.create("s-1")
    with Shop.open.start("s-1") as ctx:
        ctx.create(Order, task_id, **options)


WAYS: dict[str, Callable[..., object]] = {
    "create": Order.create,
    "create_or_merge": Order.create_or_merge,
    "ctx.create": of_shop,
}


@pytest.fixture(params=list(WAYS))
def create(request: pytest.FixtureRequest) -> Callable[..., object]:
    return WAYS[request.param]


@pytest.fixture(params=["succeeded", "ignored"])
def expired(request: pytest.FixtureRequest, clock: StoppedClock) -> dict[str, Any]:
    """Leave an expired row, with data of its own, and return it."""
    clock.advance(datetime(2126, 1, 1, tzinfo=UTC) - clock.now())
    Order.create("o-1", data={"text": "old" * 500})
    if request.param == "ignored":
        Order.pay.ignore("o-1", reason="no")
    else:
        succeed(Order.pay, "o-1")
        succeed(Order.ship, "o-1")
    clock.advance(2 * DAY)
    return stored(Order, "o-1")


def test_a_task_of_its_id_can_be_created_as_if_it_were_gone(
    expired: dict[str, Any], create: Callable[..., object]
) -> None:
    create("o-1", data={"text": "new"})
    task = Order.get_task("o-1")
    assert (str(task.state), task.data, task.fence, task.errors) == ("pay pending", {"text": "new"}, 0, [])
    assert stored(Order, "o-1")["creation"] != expired["creation"]
    succeed(Order.pay, "o-1")
    with pytest.raises(TaskAlreadyExistsError):
        Order.create("o-1")


def test_it_costs_one_more_request(expired: dict[str, Any]) -> None:  # noqa: ARG001 - it is there
    with recorded() as requests:
        Order.create("o-1")
    assert requests.operations == ["PutItem", "PutItem"]


def test_a_row_that_has_not_expired_is_left_as_it_is(clock: StoppedClock) -> None:
    Order.create("o-1")
    Order.pay.ignore("o-1", reason="no")
    clock.advance(DAY / 2)
    with pytest.raises(TaskAlreadyExistsError):
        Order.create("o-1")


def before_second(network: Network, operation: str, act: Callable[[], object]) -> None:
    """Let something happen between the request that meets the expired row, and the next one."""
    before(network, operation, lambda: before(network, operation, act))


OPERATION = {"create": "PutItem", "create_or_merge": "PutItem", "ctx.create": "TransactWriteItems"}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_is_claimed_again_before_that_is_not_replaced(
    expired: dict[str, Any], network: Network, way: str
) -> None:
    also = Order.pay.ignored if expired["status"]["N"] == "13" else Order.ship.succeeded

    def claim() -> None:
        before_second(network, OPERATION[way], lambda: die(Order.pay, "o-1", also_from=(also,)))

    if way == "ctx.create":
        Shop.create("s-1")
        with pytest.raises(TaskAlreadyExistsError), Shop.open.start("s-1") as ctx:
            ctx.create(Order, "o-1")
            claim()
    elif way == "create":
        claim()
        with pytest.raises(TaskAlreadyExistsError):
            Order.create("o-1")
    else:
        claim()
        assert Order.create_or_merge("o-1").effect == "queued"
    task = Order.get_task("o-1")
    assert (str(task.state), task.creation) == ("pay in_progress", expired["creation"]["S"])


@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_is_deleted_before_that_is_created(expired: dict[str, Any], network: Network, way: str) -> None:
    def delete() -> None:
        key = {name: expired[name] for name in ("task_id", "use_case_id")}
        before_second(network, OPERATION[way], lambda: remove(AppTask, key))

    if way == "ctx.create":
        Shop.create("s-1")
        with Shop.open.start("s-1") as ctx:
            ctx.create(Order, "o-1")
            delete()
    else:
        delete()
        WAYS[way]("o-1")
    assert str(Order.get_task("o-1").state) == "pay pending"
