"""Off-row items that another program deleted: incomplete data raises when it is touched, a missing log never does."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import LockLostError, Task, TrackerError
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import Answer, Network, Request
from tests.support.recorder import recorded
from tests.support.rows import client, keys, put, remove
from tests.support.shop import AppTask, Order
from tests.support.workers import Broken, fail

pytestmark = pytest.mark.usefixtures("table")

LARGE = {"text": "x" * 5_000}


def tear(kind: str) -> None:
    for key in [key for key in keys(AppTask) if f"#{kind}" in key["use_case_id"]["S"]]:
        remove(AppTask, key)


@pytest.mark.parametrize(
    "read",
    [
        lambda: Order.get_task("o-1"),
        lambda: next(Order.confirm_payment.pending.query()),
        lambda: Order.confirm_payment.pending.page().tasks[0],
    ],
    ids=["task", "query", "page"],
)
def test_incomplete_data_raises_when_it_is_touched_after_two_reads(
    read: Callable[[], Task], clock: StoppedClock
) -> None:
    Order.create("o-1", data=LARGE)
    tear("data")
    begin = clock.now()
    with recorded() as requests:
        task = read()
        assert task.state == Order.confirm_payment.pending
        with pytest.raises(TrackerError, match="data of Order 'o-1' is incomplete"):
            len(task.data)
    of_pieces = [request for request in requests if "#data#" in str(request.body)]
    assert (requests.operations.count("BatchGetItem"), len(of_pieces)) <= (4, 2)
    assert clock.now() - begin < timedelta(seconds=1)


@pytest.mark.parametrize("chunk", [{"B": b"no zlib"}, {"S": "x"}, None], ids=repr)
def test_data_that_is_damaged_hides_no_other_task(chunk: Any) -> None:
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, data=LARGE)
    (key,) = (
        key for key in keys(AppTask) if (key["task_id"]["S"], "#data" in key["use_case_id"]["S"]) == ("o-1", True)
    )
    item = client(AppTask).get_item(TableName=AppTask.Meta.table_name, Key=key, ConsistentRead=True)["Item"]
    put(AppTask, {name: value for name, value in {**item, "piece": chunk}.items() if value is not None})
    damaged, other = sorted(Order.confirm_payment.pending.query(), key=lambda task: task.task_id)
    assert other.data == LARGE
    for task in (damaged, Order.get("o-1", consistent_read=True)):
        with pytest.raises(TrackerError, match="data of Order 'o-1' is incomplete"):
            len(task.data)


def test_a_thread_that_reads_data_while_another_one_replaces_it_gets_what_was_stored(network: Network) -> None:
    Order.create("o-1", data=LARGE)
    with Order.confirm_payment.start("o-1") as ctx:

        def replace(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
            if operation == "BatchGetItem":
                ctx.task.data = {"new": 1}
            return send()

        network.rule = replace
        assert (ctx.task.data, ctx.task.data) == (LARGE, {"new": 1})
    assert Order.get_task("o-1").data == {"new": 1}


def told() -> list[str]:
    return [failure.type for failure in Order.get_task("o-1").errors]


def fail_at_length() -> None:
    for number in range(2):
        fail(Order.confirm_payment, "o-1", Broken(f"attempt {number} failed " * 40))
    assert told() == ["Broken", "Broken"]


@pytest.mark.parametrize(
    "read",
    [
        lambda: Order.get_task("o-1"),
        lambda: next(Order.confirm_payment.failed.query()),
        lambda: next(Order.confirm_payment.due()),
        lambda: Order.get("o-1", consistent_read=True),
    ],
    ids=["task", "query", "due", "get"],
)
def test_a_task_without_its_log_item_is_read_with_its_newest_errors(
    read: Callable[[], Task], caplog: pytest.LogCaptureFixture
) -> None:
    Order.create("o-1", data=LARGE)
    fail_at_length()
    tear("errors")
    task = read()
    assert task.data == LARGE
    assert task.errors[-1].message.startswith("attempt 1 failed")
    assert "only the newest" in caplog.text


def test_a_task_without_its_log_item_can_fail_again_and_succeed() -> None:
    Order.create("o-1")
    fail_at_length()
    tear("errors")
    fail(Order.confirm_payment, "o-1", Broken("and once more " * 60))
    assert told()[-1] == "Broken"
    tear("errors")
    Order.confirm_payment.reopen("o-1")
    tear("errors")
    Order.confirm_payment.run("o-1", lambda _: None)
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_task_without_its_log_item_can_be_ignored() -> None:
    Order.create("o-1")
    fail_at_length()
    tear("errors")
    ignored: Any = Order.confirm_payment.ignore("o-1", reason="cancelled " * 60)
    assert ignored.state == Order.confirm_payment.ignored
    assert Order.get_task("o-1").errors[-1].message == "cancelled " * 60


def test_a_run_with_incomplete_data_does_not_get_a_lost_lock_error() -> None:
    Order.create("o-1", data=LARGE)
    tear("data")
    with pytest.raises(TrackerError, match="is incomplete") as torn, Order.confirm_payment.start("o-1") as ctx:
        len(ctx.task.data)
    assert not isinstance(torn.value, LockLostError)
