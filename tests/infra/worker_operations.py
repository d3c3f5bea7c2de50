"""What a worker does."""

import random
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    SignalAlreadyReceivedError,
    TaskAlreadyExistsError,
    TaskAlreadySucceededError,
    TaskIgnoredError,
    TaskNotFoundError,
    TaskNotReadyError,
    Worker,
)
from pynamodb_tracker.aws_lambda import handles, handles_signal, retry_handler
from pynamodb_tracker.testing import stopped_clock
from tests.cli.command import run
from tests.infra.operations import row
from tests.infra.permissions import Record
from tests.infra.shop import DAILY, LETTERS, Freight, Letter, Parcel, Payout, ShopTask, Stock, pack, refuse
from tests.support.network import error
from tests.support.rows import remove
from tests.support.through import Dispatch, through

LARGE = {"text": [str(number) for number in range(1_000)]}
IN_TWO_PIECES = {"text": random.Random(0).randbytes(400_000).hex()}

RUN = (
    "`start`, `run`, `run_all`, `Worker`, `aws_lambda.handles` and `retry_handler`, the commands `run`, `retry`, "
    "`worker`, and in a run `save`, `checkpoint`, `extend_lock`, `transaction`, `check_in`, heartbeats"
)
PACK = "tests.infra.shop:pack"


@row("Worker", RUN)
def run_to_the_end(record: Record) -> None:
    Parcel.create("p-1")
    with record:
        Parcel.pack.run("p-1", pack)
        Parcel.send.run("p-1", pack)


@row("Worker", RUN)
def be_refused(record: Record) -> None:
    Parcel.create("p-2", state=Parcel.send.pending)
    with record, pytest.raises(TaskAlreadySucceededError):
        Parcel.pack.run("p-2", pack)


@row("Worker", RUN)
def read_and_change_large_data(record: Record) -> None:
    Parcel.create("p-3", data=LARGE)
    with record, Parcel.pack.start("p-3") as ctx:
        ctx.task.data["more"] = 1
    with record:
        Parcel.send.run("p-3", pack)  # its end gives the data a time to live


@row("Worker", RUN)
def fail_until_it_is_ignored(record: Record) -> None:
    Letter.create("l-1")
    with record:
        for _ in range(3):
            with pytest.raises(ConnectionError):
                Letter.post.run("l-1", refuse)
        with pytest.raises(TaskIgnoredError):
            Letter.post.run("l-1", pack)


@row("Worker", RUN)
def set_aside_what_killed_its_workers(record: Record) -> None:
    with stopped_clock() as clock:
        Letter.create("l-2")
        with record:
            for _ in range(3):
                Letter.post.start("l-2").__enter__()  # a worker that dies
                clock.advance(timedelta(hours=1))
            with pytest.raises(TaskIgnoredError):
                Letter.post.run("l-2", pack)


@row("Worker", RUN)
def run_a_finished_step_again(record: Record) -> None:
    Parcel.create("p-4", data=LARGE, state=Parcel.send.pending)
    Parcel.send.run("p-4", pack)
    with record:
        Parcel.send.run("p-4", pack, also_from=(Parcel.send.succeeded,))


@row("Worker", RUN)
def find_that_the_data_of_a_finished_task_has_gone(record: Record) -> None:
    Parcel.create("p-5", data=IN_TWO_PIECES, state=Parcel.send.pending)
    Parcel.send.run("p-5", pack)
    piece = {"task_id": {"S": "p-5"}, "use_case_id": {"S": "parcel#data#A#0"}}
    remove(ShopTask, piece)  # as time to live does
    with record, pytest.raises(TaskNotFoundError, match="its data is gone"):
        Parcel.send.run("p-5", pack, also_from=(Parcel.send.succeeded,))


@row("Worker", RUN)
def run_what_is_due(record: Record) -> None:
    Parcel.create_many(f"due-{number}" for number in range(3))
    with record:
        assert len(Parcel.pack.run_all(pack).succeeded) == 3
        Worker({Parcel.send: pack}).run(until_idle=True)
    assert Parcel.get_task("due-0").state == Parcel.send.succeeded


@row("Worker", RUN)
def look_for_pauses(record: Record) -> None:
    Payout.create("pay-1")
    Payout.create("pay-4", urgent=True)
    with record:
        assert len(Payout.pay.run_all(pack).succeeded) == 2


@row("Worker", RUN)
def repeat_and_create_what_repeats(record: Record) -> None:
    Letter.create("l-8", repeat=DAILY)
    with record, Letter.post.start("l-8") as ctx:
        ctx.create(Parcel, "l-8/a", repeat=DAILY)
    assert Letter.get_task("l-8").state == Letter.post.pending


@row("Worker", RUN)
def go_to_a_branch(record: Record) -> None:
    Freight.create("f-3")
    with record, Freight.haul.start("f-3") as ctx:
        ctx.go_to(Freight.send_back)
    assert Freight.get_task("f-3").state == Freight.send_back.pending


@row("Worker", RUN)
def create_tasks_with_its_end(record: Record) -> None:
    Freight.create_many(["f-1", "f-2"])
    with record:
        with Freight.haul.start("f-1") as ctx:
            for number in range(99):
                ctx.create(Parcel, f"f-1/{number}")
        with pytest.raises(GiveUp):
            Freight.haul.run("f-2", give_up)
    assert Letter.get_task("f-2").state == Letter.post.pending


def give_up(_ctx: object) -> None:
    raise GiveUp


@row("Worker", RUN)
def run_from_the_terminal(record: Record) -> None:
    Letter.create("l-3")
    Letter.post.run_all(refuse)
    Letter.create("l-4", data=LARGE)
    Letter.post.ignore("l-4", reason="later")
    with record:
        assert run("retry", "post", PACK, "--reopen-ignored", of=LETTERS).code == 0
    Letter.create_many(["l-5", "l-6"])
    with record:
        assert run("run", "post", PACK, "--limit", "1", of=LETTERS).code == 0
        assert run("worker", f"post={PACK}", "--until-idle", of=LETTERS).code == 0
    assert Letter.post.succeeded.count() == 4


@row("Worker", RUN)
def handle_what_comes(record: Record) -> None:
    handler = handles(Parcel.pack, task_id="id", create_if_missing=lambda event: {"weight": event["kg"]})(pack_event)
    with record:
        for _ in range(2):
            handler({"id": "h-1", "kg": 3}, None)
        with pytest.raises(TaskNotFoundError):
            handles(Parcel.pack, task_id="id")(pack_event)({"id": "h-2"}, None)
    assert Parcel.get_task("h-1").weight == 3


@row("Worker", RUN)
def handle_what_is_left(record: Record) -> None:
    Parcel.create_many(["h-3", "h-4"])
    with record:
        assert retry_handler(Parcel.pack, pack)({}, None)["succeeded"] == 2


def pack_event(ctx: ExecutionContext[Parcel], _event: object) -> None:
    pack(ctx)


@row("Worker", "`due`, `due_ids`, `next_due`")
def look_at_what_is_due(record: Record) -> None:
    Parcel.create("due-3", data=LARGE)
    with record:
        assert list(Parcel.pack.due_ids()) == ["due-3"]
        assert [parcel.data for parcel in Parcel.pack.due()] == [LARGE]
        assert list(Parcel.pack.next_due()) == [Parcel.pack.pending]


@row("Worker", RUN)
def save_in_the_middle(record: Record) -> None:
    Parcel.create("p-6")
    with Parcel.pack.start("p-6", heartbeat=True) as ctx, record:
        ctx.task.weight = 1
        ctx.save()
        ctx.task.data = dict(LARGE)
        ctx.save()
        ctx.extend_lock(timedelta(hours=1))


@row("Worker", RUN)
def write_rows_of_its_own_in_a_transaction(record: Record) -> None:
    Parcel.create("p-7")
    with Parcel.pack.start("p-7") as ctx, record:
        with ctx.transaction() as transaction:
            transaction.save(Stock("tea", left=100))
        with TransactWrite(connection=Connection(region="us-east-1")) as transaction:
            ctx.check_in(transaction)
            transaction.update(Stock("tea"), [Stock.left.add(-1)])
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(Stock("tea"), [Stock.left.add(-1)])
    assert Stock.get("tea").left == 98


@row("Worker", RUN)
def wait_for_another_task(record: Record) -> None:
    Parcel.create("p-9")
    with record:
        with Parcel.pack.start("p-9") as ctx:
            ctx.create(Letter, "l-9", wait=True)
        Letter.post.run("l-9", pack)
    assert Parcel.send.run("p-9", pack) is None


@row("Worker", RUN)
def hand_on_the_turn_of_a_group(record: Record) -> None:
    for number in range(4):
        Letter.create(f"g-{number}", group="customer-7")
    with record, Letter.post.start("g-0") as ctx:
        ctx.group.data["posted"] = ctx.task.task_id
    lost = {"task_id": {"S": "g-2"}, "use_case_id": {"S": "letter"}}
    remove(ShopTask, lost)  # as a person may
    with record:
        Letter.post.run("g-1", pack)
    assert Letter.group("customer-7").turn == "g-3"


@row("Worker", "`create`, `create_many`, `ctx.create` in a group")
def create_in_a_group(record: Record) -> None:
    with record:
        for task_id in ("g-4", "g-5"):
            Letter.create(task_id, group="customer-8")


@row("Worker", "`create`, `create_many`")
def create_what_an_event_names(record: Record) -> None:
    with record:
        Parcel.create("new-1", weight=1)
        assert list(Parcel.create_many(["new-1", "new-2"]).refused) == ["new-1"]
        Parcel.create("new-3", data=LARGE)
        with pytest.raises(TaskAlreadyExistsError):
            Parcel.create("new-3", data=LARGE)


@row("Worker", "`create` with `repeat`")
def create_what_repeats(record: Record) -> None:
    with record:
        Letter.create("new-4", repeat=DAILY)


@row("Worker", "`create_or_merge`")
def merge_what_is_asked_for(record: Record) -> None:
    with record:
        Parcel.create_or_merge("m-1", data=LARGE, due_time=timedelta(hours=1))
        Parcel.create_or_merge("m-1")
        Parcel.create_or_merge("m-2", weight=1, repeat=DAILY)


@row("Worker", "`create_or_merge`")
def begin_a_finished_task_anew(record: Record) -> None:
    Parcel.create("m-3", data=LARGE, state=Parcel.send.pending)
    Parcel.send.run("m-3", pack)
    with record:
        assert Parcel.create_or_merge("m-3").effect == "restarted"


@row("Worker", "`create_or_merge`")
def fail_to_begin_a_finished_task_anew(record: Record) -> None:
    def refuse_to(dispatch: Dispatch, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "UpdateItem" and request["Key"]["use_case_id"] == {"S": "parcel"}:
            raise error(operation, "ConditionalCheckFailedException")
        return dispatch(operation, request)

    with stopped_clock():
        Parcel.create("m-4", data=LARGE, state=Parcel.send.pending)
        Parcel.send.run("m-4", pack)
        with through(ShopTask, refuse_to), record, pytest.raises(TaskNotReadyError):
            Parcel.create_or_merge("m-4")


@row("Worker", "`update`")
def update_attributes_of_its_own(record: Record) -> None:
    parcel = Parcel.create("p-8")
    with record:
        parcel.update([Parcel.weight.set(5)])


@row("Worker", "`send`, `aws_lambda.handles_signal`, and the command `signal`")
def send_an_answer(record: Record) -> None:
    Payout.create("pay-2", wait_for=Payout.approved)
    with record:
        assert handles_signal(Payout.approved, task_id="id", value="ok")({"id": "pay-2", "ok": True}, None)
        with pytest.raises(SignalAlreadyReceivedError):
            Payout.approved.send("pay-2", value=False)
        with pytest.raises(TaskNotFoundError):
            Payout.approved.send("pay-3", value=True)
        assert run("signal", "pay-2", "approved", "--value", "true", of="tests.infra.shop:Payout").code == 0
