"""What an operator does in addition to what workers and readers do."""

from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import TaskNotFoundError
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.web import dashboard
from tests.cli.command import run
from tests.infra.operations import row
from tests.infra.permissions import Record
from tests.infra.shop import DAILY, LETTERS, Freight, Letter, Parcel, Payout, ShopTask, refuse
from tests.infra.worker_operations import IN_TWO_PIECES, LARGE
from tests.support.rows import remove
from tests.support.workers import die

MOVED = (
    "`reopen`, `ignore`, `cancel`, `unlock`, `reopen_many`, `ignore_many`, the commands `reopen`, `ignore`, `cancel`, "
    "`unlock`, and `web.dashboard` with `actions`"
)
DELETED = "`delete_task`, `delete`, and the command `delete`"


@row("Operator", MOVED)
def set_aside_and_reopen(record: Record) -> None:
    Parcel.create("o-1", data=LARGE)
    Letter.create("o-2")
    Letter.post.run_all(refuse)
    Letter.create("o-6")
    die(Letter.post, "o-6")
    with record:
        Letter.post.unlock("o-6", reason="its host is gone", worker=this_worker())
        Letter.post.reopen("o-2")
        Letter.cancel("o-2", reason="by phone")
        Letter.reopen("o-2")
        Parcel.pack.ignore("o-1", reason="cancelled " * 200)
        Parcel.pack.reopen("o-1")  # its overflow chunks lose their time to live


@row("Operator", "`pause`, `resume`, and the commands `pause`, `resume`, `steps --accept`, `steps require`")
def pause_and_resume(record: Record) -> None:
    with record:
        Payout.pay.pause(until=None, reason="")
        Payout.pay.pause(until=timedelta(hours=1), reason="")  # the first one lasts longer
        Payout.pay.resume()
        assert run("pause", "pay", "--until", "resumed", "--reason", "audit", of="tests.infra.shop:Payout").code == 0
        assert run("resume", "pay", of="tests.infra.shop:Payout").code == 0
        assert run("steps", "--accept", of="tests.infra.shop:Payout").code == 0
        assert run("steps", "require", "payout", "20", of="tests.infra.shop:Payout").code == 0


@row("Operator", "`cancel` with `children`, and the command `cancel --children`")
def cancel_with_children(record: Record) -> None:
    Parcel.create("o-18")
    with Parcel.pack.start("o-18") as ctx:
        ctx.create(Letter, "o-19", wait=True)
    with record:
        assert Parcel.cancel("o-18", reason="by phone", children=True).children == (("letter", "o-19"),)


@row("Operator", MOVED)
def cancel_to_a_branch(record: Record) -> None:
    Freight.create("o-20")
    with record:
        assert Freight.cancel("o-20", reason="by phone", go_to=Freight.send_back).effect == "moved"


@row("Operator", MOVED)
def set_aside_and_reopen_many(record: Record) -> None:
    Letter.create_many(["o-15", "o-16"])
    with record:
        assert len(Letter.post.ignore_many(["o-15", "o-16"], reason="cancelled").ignored) == 2
        assert len(Letter.post.reopen_many(["o-15", "o-16"]).succeeded) == 2


@row("Operator", MOVED)
def reopen_and_ignore_on_the_page(record: Record) -> None:
    Letter.create("o-17", state=Letter.post.failed)
    own = {"Sec-Fetch-Site": "same-origin"}
    page = TestClient(dashboard(Letter, user=lambda _: "ada", actions=True), headers=own, follow_redirects=False)
    form = {"step": "post", "task": "o-17", "reason": "lost"}
    with record:
        for verb in ("ignore", "reopen"):
            assert page.post("/Letter/task", data={**form, "verb": verb}).status_code == 303
        assert page.post("/Letter/", data={"step": "post", "verb": "resume"}).status_code == 303


@row("Operator", MOVED)
def set_aside_what_creates_a_task_then(record: Record) -> None:
    Freight.create("o-7")
    with record:
        Freight.haul.ignore("o-7", reason="cancelled")
    assert Letter.get_task("o-7").state == Letter.post.pending


@row("Operator", MOVED)
def find_that_the_data_of_an_ignored_task_has_gone(record: Record) -> None:
    Parcel.create("o-3", data=IN_TWO_PIECES)
    Parcel.pack.ignore("o-3", reason="cancelled")
    piece = {"task_id": {"S": "o-3"}, "use_case_id": {"S": "parcel#data#A#0"}}
    remove(ShopTask, piece)  # as time to live does
    with record, pytest.raises(TaskNotFoundError, match="its data is gone"):
        Parcel.pack.reopen("o-3")


@row("Operator", MOVED)
def set_aside_and_reopen_from_the_terminal(record: Record) -> None:
    Letter.create("o-4")
    with record:
        assert run("ignore", "post", "o-4", "--reason", "cancelled", of=LETTERS).code == 0
        assert run("reopen", "post", "o-4", of=LETTERS).code == 0


@row("Operator", MOVED)
def set_aside_and_reopen_in_a_group(record: Record) -> None:
    for number in range(3):
        Letter.create(f"g-{number}", group="customer-7")
    with record:
        Letter.post.ignore("g-1", reason="cancelled")
        Letter.post.ignore("g-0", reason="cancelled")
        Letter.post.reopen("g-1")


@row("Operator", "`repair` of a group, and the command `group --repair`")
def repair_a_group(record: Record) -> None:
    for number in range(4):
        Letter.create(f"g-{number}", group="customer-7")
    for task_id in ("g-0", "g-1"):
        remove(ShopTask, {"task_id": {"S": task_id}, "use_case_id": {"S": "letter"}})
    with record:
        assert Letter.group("customer-7").repair() == "g-2"


@row("Operator", DELETED)
def delete_in_a_group(record: Record) -> None:
    for number in range(3):
        Letter.create(f"g-{number}", group="customer-7")
    with record:
        Letter.delete_task("g-1")
        Letter.delete_task("g-0")


@row("Operator", DELETED)
def delete_some(record: Record) -> None:
    Parcel.create("o-5", data=LARGE)
    Parcel.create("o-6", repeat=DAILY)
    with record:
        Parcel.delete_task("o-5")
        Parcel.get_task("o-6").delete()
        with pytest.raises(TaskNotFoundError):
            Parcel.delete_task("o-6")


@row("Operator", DELETED)
def delete_what_another_task_waits_for(record: Record) -> None:
    Parcel.create("o-10")
    with Parcel.pack.start("o-10") as ctx:
        ctx.create(Letter, "o-11", wait=True)
        ctx.create(Letter, "o-12", wait=True)
    with record:
        Letter.delete_task("o-11")
    assert Parcel.get_task("o-10").blockers == 1


@row("Operator", DELETED)
def delete_from_the_terminal(record: Record) -> None:
    Letter.create("o-7", data=LARGE)
    with record:
        assert run("delete", "o-7", "--yes", of=LETTERS).code == 0


@row("Operator", "`delete_use_case`")
def delete_all(record: Record) -> None:
    Letter.create("o-8", data=LARGE)
    Parcel.create("o-13")
    with Parcel.pack.start("o-13") as ctx:
        ctx.create(Letter, "o-14", wait=True)
    with record:
        assert sorted(Letter.delete_use_case().succeeded) == ["o-14", "o-8"]


@row("Operator", "`pynamodb-tracker load`")
def load(record: Record) -> None:
    with record:
        assert run("load", "-", "--format", "jsonl", of=LETTERS, text='{"task_id": "o-9"}\n').code == 0
    assert Letter.get_task("o-9").state == Letter.post.pending
