"""`compare`: a table and one that was restored from its backup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import Screen, run, run_on
from tests.cli.shop import Invoice, Order, StoreTask, charge
from tests.support.recorder import recorded
from tests.support.rows import change

RESTORED = "store-restored"
STORE = "tests.cli.shop:StoreTask"


@pytest.fixture
def client(store: StoppedClock) -> Iterator[Any]:
    """Have tasks in most states, a backup of the table, restored under another name, and what happened since."""
    client: Any = Order.tracker.connection().connection.client
    Order.create_many(["same", "done", "ahead", "tried", "gone", "again", "paid", "evil\x1b[2J"])
    Invoice.create("same")
    for task_id in ("part", "called off"):
        Order.create(task_id)
    running = Order.pay.start("part").__enter__()
    Order.pay.ignore("called off", reason="x")
    client.create_table(
        TableName=RESTORED,
        KeySchema=[
            {"AttributeName": "task_id", "KeyType": "HASH"},
            {"AttributeName": "use_case_id", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("task_id", "use_case_id")],
        BillingMode="PAY_PER_REQUEST",
    )
    for item in client.scan(TableName="store")["Items"]:
        client.put_item(TableName=RESTORED, Item=item)
    store.advance(timedelta(hours=1))
    Order.pay.run("done", charge)
    Order.ship.run("done", charge)
    Order.pay.run("ahead", charge)
    with Order.pay.start("tried", skip_error=True):
        raise ConnectionError
    for task_id in ("gone", "again"):
        Order.delete_task(task_id)
    Order.create("again")
    Order.create("new")
    Order.paid.send("paid", 1)
    Order.pay.ignore("evil\x1b[2J", reason="x")
    running.checkpoint("charge", lambda: 7)
    Order.cancel("called off", reason="x")
    yield client
    client.delete_table(TableName=RESTORED)


DIFFERENCES = {
    "done": ("ended", "ship.succeeded", "pay.pending"),
    "evil\x1b[2J": ("ended", "pay.ignored", "pay.pending"),
    "ahead": ("ahead", "ship.pending", "pay.pending"),
    "new": ("missing", "pay.pending", None),
    "gone": ("extra", None, "pay.pending"),
    "again": ("changed", "pay.pending", "pay.pending"),
    "called off": ("changed", "pay.ignored", "pay.ignored"),
    "paid": ("changed", "pay.pending", "pay.pending"),
    "part": ("changed", "pay.in_progress", "pay.in_progress"),
    "tried": ("changed", "pay.failed", "pay.pending"),
}


@pytest.mark.usefixtures("client")
def test_each_task_that_differs_is_listed_the_most_important_first() -> None:
    ended = run("compare", "store", RESTORED, "--json", of=STORE)
    lines = [json.loads(line) for line in ended.lines]
    assert ended.code == 1
    assert {each["task_id"]: (each["difference"], each["old"], each["new"]) for each in lines} == DIFFERENCES
    assert [each["task_id"] for each in lines] == list(DIFFERENCES)
    assert {each["use_case"] for each in lines} == {"order"}
    assert lines[0]["old_time"] > lines[0]["new_time"]
    again, called_off, paid, part, tried = (each["differs"] for each in lines[-5:])
    assert (list(again), tried["fence"]) == (["create_time", "update_time"], ["1", "0"])
    assert (paid, list(called_off)) == ({"signals": [["paid"], []]}, ["cancel_time"])
    assert part == {"parts": [["10/charge", "round"], []]}
    assert "store: 11 tasks, " in ended.err
    assert "store-restored: 11 tasks, " in ended.err


@pytest.mark.usefixtures("client")
def test_people_get_a_table_that_cannot_steer_the_terminal() -> None:
    ended = run("compare", "store", RESTORED)
    assert ended.lines[0] == "10 differences: 2 ended, 1 ahead, 1 missing, 1 extra, 5 changed"
    assert ended.lines[1].split() == [
        "difference",
        "use",
        "case",
        "task",
        "in",
        "store",
        "in",
        "store-restored",
        "differs",
    ]
    assert ended.lines[2].split() == ["ended", "order", "done", "ship.succeeded", "pay.pending"]
    assert ended.lines[-5].split()[2:] == ["again", "pay.pending", "pay.pending", "create_time,", "update_time"]
    assert "\x1b" not in ended.out


@pytest.mark.usefixtures("client")
def test_the_ids_of_a_kind_are_read_by_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = run("compare", "store", RESTORED, "--only", "missing", "--ids").out
    exported = run("export", "-", text=missing)
    assert (exported.code, exported.out) == (0, '{"task_id": "new", "state": "pay.pending"}\n')
    done = run("compare", "store", RESTORED, "--only", "ended", "--only", "ahead", "--ids").out
    assert done.splitlines() == ["done", "evil\x1b[2J", "ahead"]
    monkeypatch.setattr(Order.tracker.table.owner.Meta, "table_name", RESTORED)
    assert run("load", "-", text=exported.out).code == 0
    assert run("ignore", "-", "--reason", "done after the restore point", text=done).code == 0
    monkeypatch.setattr(Order.tracker.table.owner.Meta, "table_name", "store")


@pytest.mark.usefixtures("client")
def test_ids_at_a_terminal_cannot_steer_it() -> None:
    screen = Screen()
    run_on("compare", "store", RESTORED, "--ids", "--only", "ended", stdout=screen)
    assert screen.text.splitlines() == ["done", r"evil\x1b[2J"]


@pytest.mark.usefixtures("client")
def test_it_only_scans() -> None:
    with recorded(StoreTask) as requests:
        run("compare", "store", RESTORED)
    assert {request.operation for request in requests} == {"Scan"}


def test_equal_tables_exit_with_0(client: Any) -> None:
    ended = run("compare", RESTORED, RESTORED)
    assert (ended.code, ended.out) == (0, "no differences\n")
    client.put_item(
        TableName=RESTORED,
        Item={"task_id": {"S": "x"}, "use_case_id": {"S": "order"}, "expire_time": {"N": "5"}, "status": {"N": "10"}},
    )
    assert run("compare", "store", RESTORED, "--only", "extra", "--ids").out == "gone\n"


@pytest.mark.usefixtures("client")
@pytest.mark.usefixtures("store")
def test_a_damaged_status_is_one_that_no_step_declares() -> None:
    Order.create("o-1")
    change(Order, "o-1", status={"N": "1.5"})
    assert run("compare", "store", "store", of=STORE).out == "no differences\n"


def test_what_cannot_be_compared_is_reported_on_one_line() -> None:
    ended = run("compare", "store", "stroe")
    assert (ended.code, ended.out, ended.err.startswith("there is no table 'stroe' at https://")) == (2, "", True)
    assert run("compare", "store", RESTORED, "--ids", "--json").code == 2
    ended = run("compare", "store", RESTORED, "--ids", of=STORE)
    assert (ended.code, ended.err) == (2, "ids of several use cases cannot be told apart: add --use-case with --ids\n")
