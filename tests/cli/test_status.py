"""`status`: what it counts, and how it shows that."""

import re

import pytest

from tests.cli.command import read, run
from tests.cli.shop import Invoice, Order
from tests.support.rows import change, park

pytestmark = pytest.mark.usefixtures("store")


def test_every_state_has_a_line_with_its_number_and_a_bar_in_proportion() -> None:
    Order.create_many(f"o-{number}" for number in range(4))
    Order.create("o-4", state=Order.ship.ignored)
    Invoice.create("i-1")
    ended = run("status")
    assert ended.code == 0
    assert ended.lines == [
        "Order: 5 tasks in table store at https://dynamodb.us-east-1.amazonaws.com",
        f"pay   pending      4  {'█' * 40}",
        "      in_progress  0",
        "      failed       0",
        "      gave up      0",
        "ship  pending      0",
        "      in_progress  0",
        "      failed       0",
        f"      gave up      1  {'█' * 10}",
        "      succeeded    0",
    ]


def test_a_step_to_which_no_plain_success_leads_is_called_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship._definition.codes, "branch", True)
    Order.create("o-1")
    assert [line.split("  ")[0] for line in run("status").lines if line[0] != " "][1:3] == ["pay", "ship (branch)"]


def test_of_pending_tasks_it_says_how_many_wait_for_others() -> None:
    Order.create_many(f"o-{number}" for number in range(12))
    for number in range(9):
        park(Order, f"o-{number}", 3)
    assert run("status").lines[1:3] == [f"pay   pending      12 (9 wait)  {'█' * 40}", "      in_progress   0"]
    assert read("status")["use_cases"][0]["states"][0] == {
        "step": "pay",
        "state": "pending",
        "code": 10,
        "tasks": 12,
        "waiting": 9,
    }


def test_one_task_among_very_many_has_a_draw_bar() -> None:
    from pynamodb_tracker.cli.commands.status import _draw_bar  # noqa: PLC0415 - ten thousand tasks take their time

    assert _draw_bar(1, 10_000, 40, blocks=True) == "▏"
    assert _draw_bar(1, 10_000, 40, blocks=False) == "#"
    assert _draw_bar(0, 10_000, 40, blocks=True) == ""


def test_states_that_no_step_declares_are_counted() -> None:
    Invoice.create("i-1", state=Invoice.send.ignored)
    change(Invoice, "i-1", status={"N": "77"}, status_key={"S": "invoice#77#0"})
    of = "tests.cli.shop:Invoice"
    assert re.search(r"unknown\.77 +1", run("status", of=of).out)
    assert run("list", "unknown.77", of=of).lines[1].startswith("i-1 ")
    assert run("export", "unknown.77", of=of).out == '{"task_id": "i-1", "state": "unknown.77"}\n'
    assert run("list", "unknown.78", of=of).out == "no task of Invoice is unknown.78\n"


def test_json_has_the_same() -> None:
    Order.create("o-1", state=Order.ship.failed)
    document = read("status")
    (counted,) = document["use_cases"]
    assert (document["table"], counted["use_case"], counted["tasks"]) == ("store", "order", 1)
    assert [state for state in counted["states"] if state["tasks"]] == [
        {"step": "ship", "state": "failed", "code": 22, "tasks": 1}
    ]


def test_of_a_table_all_use_cases_are_counted() -> None:
    Order.create("o-1")
    table = "tests.cli.shop:StoreTask"
    lines = run("status", of=table).lines
    assert [line.partition(" in ")[0] for line in lines if " in table " in line] == [
        "Invoice: 0 tasks",
        "Order: 1 task",
    ]
    assert [each["use_case"] for each in read("status", of=table)["use_cases"]] == ["invoice", "order"]
    assert [each["use_case"] for each in read("status", "--use-case", "order", of=table)["use_cases"]] == ["order"]


def test_a_wrong_interval_of_top_is_refused() -> None:
    ended = run("top", "--every", "soon")
    assert (ended.code, "--every" in ended.err) == (2, True)
