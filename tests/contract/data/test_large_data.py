"""Data that is too large for the row is stored off-row, and every reader gets the old or the new version."""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import (
    ExecutionContext,
    LockLostError,
    Step,
    TaskAlreadyExistsError,
    UseCase,
    ValueNotStorableError,
)
from pynamodb_tracker.testing import StoppedClock
from tests.support.network import unreached
from tests.support.recorder import recorded
from tests.support.rows import off_row_items, put, stored
from tests.support.shop import AppTask, Order

pytestmark = pytest.mark.usefixtures("table", "clock")

KB = 1024
LARGE, OTHER = {"text": "x" * 20 * KB}, {"text": "y" * 20 * KB}


class Report(AppTask):
    use_case_id = UseCase("report", max_inline_data=0)

    write = Step(10)


def noise(size: int) -> str:
    """Text that zlib can make half as long at best."""
    return random.Random(size).randbytes(size // 2).hex()


def off_row_keys(task_id: str = "o-1") -> list[str]:
    return [*off_row_items(Order, task_id)]


def write(data: Any, *saves: Any) -> None:
    """Run the first step of a task from wherever it stands, with so many saves before the success."""
    with Order.confirm_payment.start("o-1", also_from=(Order.ship.pending,)) as ctx:
        for each in saves:
            ctx.task.data = each
            ctx.save()
        ctx.task.data = data


@pytest.mark.parametrize("size", [900, 1100, 20 * KB, 500 * KB])
def test_data_of_any_size_reads_back_equal(size: int) -> None:
    data = {"text": noise(size), "ü": [1, None]}
    Order.create("o-1", data=data)
    assert Order.get_task("o-1").data == data
    with Order.confirm_payment.start("o-1") as ctx:
        assert ctx.task.data == data
        ctx.task.data["more"] = noise(size + 2)
        ctx.save()
        ctx.task.data["most"] = "done"
    data |= {"more": noise(size + 2), "most": "done"}
    assert (Order.get_task("o-1").data, Order.get("o-1").data) == (data, data)
    assert [task.data for task in Order.ship.pending.query()] == [data]
    assert ([task.data for task in Order.ship.due()], Order.ship.pending.page().tasks[0].data) == ([data], data)


def test_a_row_keeps_a_kilobyte_and_more_goes_to_overflow_chunks() -> None:
    Order.create("o-1", data={"t": "x" * 1000})
    assert off_row_keys() == []
    Order.create("o-2", data={"t": "x" * 1020})
    assert off_row_keys("o-2") == ["order#data#A#0"]
    assert "M" in stored(Order, "o-2")["data"]


def test_the_use_case_says_how_much_its_rows_keep() -> None:
    Report.create("o-1", data={"a": 1})
    assert "M" in stored(Report, "o-1")["data"]
    assert Report.get_task("o-1").data == {"a": 1}


def test_what_became_small_is_in_the_row_again() -> None:
    Order.create("o-1", data=LARGE)
    write({"small": 1})
    assert (stored(Order, "o-1")["data"], Order.get_task("o-1").data) == ({"S": '{"small":1}'}, {"small": 1})


def test_what_became_empty_is_gone() -> None:
    Order.create("o-1", data=LARGE)
    write({})
    assert Order.get_task("o-1").data == {}


def test_however_often_it_is_written_there_are_two_slots() -> None:
    Order.create("o-1", data=LARGE)
    for number in range(4):
        write({"text": "a" * 20 * KB, "number": number}, *[{"text": "b" * 20 * KB, "n": n} for n in range(number)])
        assert Order.get_task("o-1").data["number"] == number
    assert sorted(off_row_keys()) == ["order#data#A#0", "order#data#B#0"]


@pytest.mark.parametrize(
    ("use", "operations", "data"),
    [
        (lambda task: setattr(task, "amount", 1), ["UpdateItem", "UpdateItem"], LARGE),
        (lambda task: (task.data["text"], task.data), ["UpdateItem", "BatchGetItem", "UpdateItem"], LARGE),
        (lambda task: setattr(task, "data", OTHER), ["UpdateItem", "PutItem", "UpdateItem"], OTHER),
    ],
    ids=["not used", "read", "replaced"],
)
def test_a_run_reads_data_once_if_it_reads_it_and_writes_it_if_it_changes(
    use: Callable[[Order], object], operations: list[str], data: dict[str, str]
) -> None:
    Order.create("o-1", data=LARGE)
    with recorded() as requests:
        Order.confirm_payment.run("o-1", lambda ctx: use(ctx.task))
    assert (requests.operations, Order.get_task("o-1").data) == (operations, data)


@pytest.mark.parametrize(
    "read",
    [
        lambda: Order.get_task("o-1", with_data=False),
        lambda: next(Order.confirm_payment.pending.query(with_data=False)),
        lambda: next(Order.confirm_payment.due(with_data=False)),
        lambda: Order.confirm_payment.pending.page(with_data=False).tasks[0],
    ],
)
@pytest.mark.parametrize("data", [LARGE, {"small": 1}, {}])
def test_a_reader_can_leave_data_out(read: Callable[[], Order], data: dict[str, Any]) -> None:
    Order.create("o-1", data=data, amount=7)
    with recorded() as requests:
        task = read()
    keys = [key for request in requests for key in str(request.body).split("'") if key.startswith("order#data")]
    assert (keys, task.amount) == ([], 7)
    with pytest.raises(AttributeError, match="'o-1' was left out"):
        _ = task.data


def test_creating_a_task_that_exists_leaves_its_data_alone() -> None:
    Order.create("o-1", data=LARGE)
    with pytest.raises(TaskAlreadyExistsError):
        Order.create("o-1", data={"text": "z" * 30 * KB})
    assert Order.get_task("o-1").data == LARGE
    assert off_row_keys() == ["order#data#A#0"]


def test_deleting_a_task_deletes_its_chunks_and_nothing_else() -> None:
    Order.create("o-1", data=LARGE)
    Order.create("o-2", data=LARGE)
    write(LARGE | {"more": 1})
    Order.delete_task("o-1")
    assert (off_row_keys(), Order.get_task("o-2").data) == ([], LARGE)


def test_a_task_that_was_deleted_and_created_again_has_its_own_data(clock: StoppedClock) -> None:
    Order.create("o-1", data=LARGE)
    Order.delete_task("o-1")
    clock.advance(timedelta(seconds=1))
    Order.create("o-1", data=LARGE | {"again": True})
    assert Order.get_task("o-1").data == LARGE | {"again": True}


def test_chunks_of_an_earlier_task_whose_clock_was_ahead_are_overwritten() -> None:
    Order.create("o-1")
    key = {"task_id": {"S": "o-1"}, "use_case_id": {"S": "order#data#A#0"}}
    version = "9999-01-01T00:00:00.000000+0000/0000000001/000001"
    put(AppTask, {**key, "version": {"S": version}, "content": {"B": b"old"}})
    write(LARGE)
    assert Order.get_task("o-1").data == LARGE


@pytest.mark.parametrize("how", ["create", "save", "succeed"])
def test_more_than_10_mb_are_refused_before_any_request_and_the_error_advises(how: str) -> None:
    data = {"text": "x" * 10 * KB * KB}
    advice = "put it into an object store, and keep its key"
    if how == "create":
        with unreached(), pytest.raises(ValueNotStorableError, match=advice) as caught:
            Order.create("o-1", data=data)
    else:
        Order.create("o-1")

        def keep(ctx: ExecutionContext[Order]) -> None:
            ctx.task.data = data
            if how == "save":
                ctx.save()

        with pytest.raises(ValueNotStorableError, match=advice) as caught:
            Order.confirm_payment.run("o-1", keep)
        assert Order.get_task("o-1").state == Order.confirm_payment.ignored
    assert caught.value.attribute == "data"
    assert caught.value.size is not None
    assert caught.value.size > 10 * KB * KB


def test_what_one_transaction_cannot_take_is_saved_in_a_run() -> None:
    data = {"text": noise(9_000_000)}
    with pytest.raises(ValueNotStorableError, match="let a run save it"):
        Order.create("o-1", data=data)
    Order.create("o-1")
    write(data)
    assert Order.get_task("o-1").data == data


def test_a_worker_that_reads_data_after_it_lost_its_lock_gets_lock_lost(clock: StoppedClock) -> None:
    Order.create("o-1", data=LARGE)
    loser = Order.confirm_payment.start("o-1").__enter__()
    clock.advance(timedelta(minutes=6))
    write(LARGE | {"n": 2}, LARGE | {"n": 1})
    with pytest.raises(LockLostError, match="has lost its lock"):
        _ = loser.task.data


def failing(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next request of that kind fail, as if the worker had died before it."""
    connection = AppTask.tracker.connection().connection
    dispatch = connection.dispatch

    def broken(name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == operation:
            raise KeyboardInterrupt
        return dispatch(name, request)

    monkeypatch.setattr(connection, "dispatch", broken)


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
def test_no_reader_sees_half_of_a_save_after_a_crash(
    operation: str, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("o-1", data=LARGE)
    ctx = Order.confirm_payment.start("o-1").__enter__()
    ctx.task.data["text"] = noise(900 * KB)
    with monkeypatch.context() as patch:
        failing(operation, patch)
        with pytest.raises(KeyboardInterrupt):
            ctx.save()
    assert Order.get_task("o-1").data == LARGE
    clock.advance(timedelta(minutes=6))
    write(LARGE | {"n": 2}, LARGE | {"n": 1})
    assert Order.get_task("o-1").data == LARGE | {"n": 2}
    assert {key.rpartition("#")[0] for key in off_row_keys()} <= {"order#data#A", "order#data#B"}


def test_a_reader_that_is_overtaken_reads_the_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", data=LARGE)
    connection = AppTask.tracker.connection().connection
    dispatch, overtaken = connection.dispatch, list[dict[str, Any]]()

    def late(name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == "BatchGetItem" and not overtaken:
            overtaken.append(request)
            write(LARGE | {"n": 2}, LARGE | {"n": 1})
        return dispatch(name, request)

    monkeypatch.setattr(connection, "dispatch", late)
    task = Order.get_task("o-1")
    assert overtaken
    assert (task.data, task.state) == (LARGE | {"n": 2}, Order.ship.pending)


def test_a_query_leaves_out_a_task_that_moves_on_while_its_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", data=LARGE)
    connection = AppTask.tracker.connection().connection
    dispatch, reads = connection.dispatch, list[dict[str, Any]]()

    def late(name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == "BatchGetItem":
            reads.append(request)
            if len(reads) == 2:  # the row is read, and its overflow chunks are not
                write(LARGE | {"n": 2}, LARGE | {"n": 1})
        return dispatch(name, request)

    monkeypatch.setattr(connection, "dispatch", late)
    assert (list(Order.confirm_payment.pending.query()), len(reads)) == ([], 4)


def test_a_save_that_cannot_be_sent_is_not_taken_for_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", data=LARGE)
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["n"] = 1
        with monkeypatch.context() as patch:
            patch.setattr("pynamodb_tracker.writes.transition.send", _no_answer)
            with pytest.raises(UpdateError):
                ctx.save()
        ctx.task.data["n"] = 2
    assert Order.get_task("o-1").data == LARGE | {"n": 2}


def _no_answer(*_: Any, **__: Any) -> dict[str, Any]:
    raise UpdateError("no answer")
