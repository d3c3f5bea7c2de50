"""Rows that each release has written: this version loads, runs, queries, exports, checks and shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import ExecutionContext, Repeat, Report, TaskAlreadySucceededError, TaskIgnoredError, clock
from pynamodb_tracker.apscheduler import DynamoDBJobStore, JSONSerializer
from pynamodb_tracker.doctor import examine_rows
from pynamodb_tracker.model.child_list import children_of
from pynamodb_tracker.testing import local_table, stopped_clock
from pynamodb_tracker.web import dashboard
from tests.cli.command import run
from tests.compat.declared import AppTask, Nightly, Order, Parcel, Payout, Piece, Receipt, Sale, remind
from tests.compat.write import WRITTEN, done
from tests.support.engines import quick_sessions
from tests.support.rows import put

FILES = sorted((Path(__file__).parent / "rows").glob("*.jsonl"))
STATES = {
    "new": Order.confirm.pending,
    "running": Order.confirm.in_progress,
    "failed": Order.confirm.failed,
    "ignored": Order.confirm.ignored,
    "set-aside": Order.confirm.ignored,
    "log": Order.confirm.ignored,
    "confirmed": Order.ship.pending,
    "large": Order.ship.pending,
    "shipped": Order.deliver.pending,
    "delivered": Order.deliver.succeeded,
}
HOUR = timedelta(hours=1)
OTHERS = {"merged", "parent", "answered"}
"""The orders whose state does not show in their name."""


def as_binary(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a file as the client takes it."""
    return {name: {"B": bytes.fromhex(value["B"]["hex"])} if "B" in value else value for name, value in item.items()}


@pytest.fixture(params=FILES, ids=[file.stem for file in FILES], autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the rows of a release into a table. It is an hour later."""
    items = [as_binary(json.loads(line)) for line in request.param.read_text(encoding="utf-8").splitlines()]
    with quick_sessions(), local_table(AppTask), stopped_clock(WRITTEN + HOUR):
        for item in items:
            put(AppTask, item)
        yield


def test_every_task_is_read_in_its_state_with_what_is_stored_off_row() -> None:
    assert {name: Order.get_task(name).state for name in STATES} == STATES
    assert Order.get_task("new").data == {"customer": "new"}
    assert Order.get_task("large").data["lines"][2999] == "line 2999" * 9
    assert [failure.message[:3] for failure in Order.get_task("log").errors] == ["0: ", "1: ", "2: "]
    assert Order.get_task("failed").last_error == "ConnectionError: the bank does not respond"
    assert Order.get_task("delivered").tracking_no == "T-delivered"
    assert Receipt.get_task("kept").state == Receipt.send.succeeded
    assert Order.confirm.result(Order.get_task("answered")) == {"paid": True}
    assert Order.get_task("merged").state == Order.confirm.in_progress


def test_a_job_is_loaded_as_it_was_added() -> None:
    store = DynamoDBJobStore(AppTask, serializer=JSONSerializer(allow=["tests.compat.declared"]))
    store.start(None, "default")
    jobs = [(job.id, job.func, job.args, job.next_run_time.year) for job in store.get_all_jobs()]
    assert jobs == [("remind", remind, ("o-1",), 2100)]


def test_signals_checkpoints_branches_pauses_and_rules_are_read() -> None:
    assert {task.task_id: str(task.state) for task in Sale.scan(Sale.use_case_id == "sale")} == {
        **dict.fromkeys(["awaits", "paid"], "pay pending"),
        **dict.fromkeys(["postponed", "parts"], "check failed"),
        "early": "check pending",
        "aside": "refund pending",
        "ended": "ship succeeded",
        "cancelled": "check ignored",
    }
    results = [Sale.get_task(name).paid for name in ("awaits", "paid", "early")]
    assert [result and result.value for result in results] == [None, {"amount": 5}, {"amount": 5}]
    assert list(Sale.get_task("awaits").awaited_signals or ()) == ["paid"]
    assert [(pause.reason, pause.by) for pause in Sale.pauses()] == [("stocktaking", "ada")]
    assert (Sale.get_task("postponed").attempt, Sale.get_task("postponed").postpone_count) == (0, 1)
    assert Sale.get_task("aside").skipped_steps == [200, 300]
    again: Any = Nightly.get_task("changed").queued
    assert (again.repeat, Nightly.get_task("changed").repeat) == tuple(Repeat.every(h * HOUR) for h in (2, 1))
    with pytest.raises(TaskAlreadySucceededError):
        Sale.ship.run("ended", print)
    with pytest.raises(TaskIgnoredError, match="was cancelled"):
        Sale.check.run("cancelled", print, also_from=[Sale.check.ignored])
    [children] = children_of([Order.get_task("parent")]).values()
    assert ([child.task_id for child in children.tasks], children.unlisted) == (["parent/2"], 0)
    last: Any = Nightly.get_task("hourly").last_run
    assert (last.outcome, last.ended, Nightly.get_task("changed").last_run) == ("succeeded", WRITTEN, None)


def test_signals_checkpoints_branches_pauses_and_rules_are_used() -> None:
    receipts: list[object] = []

    def check(ctx: ExecutionContext[Sale]) -> None:
        if ctx.task.task_id == "parts":
            receipts.append(ctx.checkpoint("charge", lambda: pytest.fail("it is charged once more")))

    Sale.check.run_all(check)
    Sale.paid.send("awaits", {"amount": 7})
    Sale.pay.run_all(lambda _: None)
    assert (receipts, Sale.ship.pending.count()) == ([{"receipt": 17}], 5)
    assert Sale.ship.run_all(lambda _: None) == Report(paused=True)
    Sale.ship.resume(by="ada")
    clock.sleep(5)  # until this process looks again
    for step in (Sale.ship, Sale.refund):
        assert not step.run_all(lambda _: None).failed
    assert Sale.counts()[Sale.ship.succeeded] == 7
    Payout.create("next")
    assert Payout.pay.run_all(lambda _: None).succeeded == ["next"]
    done(Nightly.report, "changed")
    assert Nightly.get_task("changed").repeat == Repeat.every(2 * HOUR)


def test_queries_find_every_task_of_a_state() -> None:
    for state in set(STATES.values()):
        found = {task.task_id for task in state.query()} - OTHERS
        assert found == {name for name, each in STATES.items() if each == state}
    assert {task.task_id for task in Parcel.sort.pending.query()} == {f"p-{number}" for number in range(4)}
    assert Nightly.report.pending.count() > 0


def test_what_is_due_runs_to_its_end() -> None:
    for _ in range(3):
        for step in (Piece.make, Order.confirm, Order.ship, Order.deliver, Parcel.sort, Receipt.send, Nightly.report):
            report = step.run_all(lambda _: None)
            assert not report.failed, (step, report)
    names = set(STATES) - {"ignored", "set-aside", "log"} | OTHERS
    assert {Order.get_task(name).state for name in names} == {Order.deliver.succeeded}
    assert {task.task_id for task in Order.confirm.ignored.query()} == {"ignored", "set-aside", "log"}
    Order.confirm.reopen("log")
    Order.confirm.run("log", lambda _: None)
    assert {Piece.get_task(name).state for name in ("g-1", "g-2", "g-3")} == {Piece.make.succeeded}
    following = Nightly.get_task("hourly").occurrence
    assert following
    assert following > WRITTEN + HOUR


def test_the_doctor_finds_nothing_wrong() -> None:
    assert [finding for finding in examine_rows(AppTask) if "decided" not in str(finding)] == []


def test_an_export_is_whole_and_the_same_as_the_table() -> None:
    of = "tests.compat.declared:Order"
    exported = run("export", of=of)
    assert exported.code == 0, exported.err
    lines = [json.loads(line) for line in exported.out.splitlines()]
    assert {line["task_id"] for line in lines} == set(STATES) | OTHERS
    name = AppTask.Meta.table_name
    assert run("compare", name, name, of=of).code == 0


def test_the_page_shows_every_task() -> None:
    client = TestClient(dashboard(AppTask, user=lambda _: "ada"))
    paths = ["/", "/Order/", "/Order/errors", *(f"/Order/task?id={name}" for name in STATES)]
    paths += ["/Nightly/task?id=nightly", "/Piece/task?id=g-2", "/Order/task?id=merged"]
    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
