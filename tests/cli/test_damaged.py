"""Tasks with attributes that nobody can read: the commands show the others, and of these what they can."""

import json
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import run
from tests.cli.shop import Order, refuse
from tests.support.rows import change, keys, remove

AMOUNT = {"amount": {"S": "much"}}
ATTEMPT = {"attempt": {"S": "first"}}
ERRORS = {"errors": {"L": [{"S": "oh"}]}}
TIME = {"update_time": {"S": "yesterday"}}
DATA = {"data": {"S": "{"}}


@pytest.fixture(autouse=True)
def failed(store: StoppedClock) -> StoppedClock:
    for number in range(3):
        Order.create(f"u-{number}", amount=number)
        with pytest.raises(ConnectionError):
            Order.pay.run(f"u-{number}", refuse)
        store.advance(timedelta(minutes=1))
    return store


def test_a_list_has_every_task_and_says_what_cannot_be_read() -> None:
    change(Order, "u-1", **AMOUNT)
    ended = run("list", "pay.failed")
    assert ended.code == 1
    assert [line.split()[0] for line in ended.lines] == ["task", "u-0", "u-1", "u-2"]
    assert ended.err.startswith("u-1  cannot be read: amount (")
    assert ended.err.count("\n") == 1
    output = run("list", "pay.failed", "--json")
    assert [(each["task_id"], each["attributes"].get("amount")) for each in json.loads(output.out)] == [
        ("u-0", 0),
        ("u-1", None),
        ("u-2", 2),
    ]
    assert list(json.loads(output.out)[1]["unread"]) == ["amount"]
    assert output.code == 1


@pytest.mark.parametrize("values", [ATTEMPT, TIME])
def test_a_task_without_its_own_attributes_hides_no_other(values: dict[str, Any]) -> None:
    change(Order, "u-1", **values)
    ended = run("list", "pay.failed")
    assert (ended.code, [line.split()[0] for line in ended.lines]) == (1, ["task", "u-0", "u-2"])
    assert ended.err.startswith(f"u-1  cannot be read: {next(iter(values))} (")
    assert len(json.loads(run("list", "pay.failed", "--json").out)) == 3


@pytest.mark.parametrize(("values", "tasks"), [(AMOUNT, 3), (ERRORS, 3), (DATA, 3), (TIME, 2)])
def test_errors_need_no_attribute_of_the_user(values: dict[str, Any], tasks: int) -> None:
    change(Order, "u-1", **values)
    ended = run("errors", "--json")
    assert (ended.code, [group["tasks"] for group in json.loads(ended.out)]) == (1, [tasks])
    assert ended.err.startswith("u-1  cannot be read: update_time (" if tasks < 3 else "")
    assert bool(ended.err) == (tasks < 3)


@pytest.mark.parametrize(
    ("values", "stuck"), [(AMOUNT, True), ({"fence": {"S": "x"}}, True), ({"lock_expire_time": {"S": "soon"}}, False)]
)
def test_what_is_stuck_is_listed(failed: StoppedClock, values: dict[str, Any], *, stuck: bool) -> None:
    Order.pay.start("u-1").__enter__()
    failed.advance(timedelta(hours=1))
    change(Order, "u-1", **values)
    ended = run("stuck")
    assert (ended.code, ended.lines[-1].startswith("u-1")) == (1, stuck)
    assert (ended.err == "") == stuck
    assert len(json.loads(run("stuck", "--json").out)) == stuck


@pytest.mark.parametrize("values", [AMOUNT, ATTEMPT, ERRORS, TIME, DATA])
def test_show_shows_what_can_be_read(values: dict[str, Any]) -> None:
    (name,) = values
    change(Order, "u-1", **values)
    ended = run("show", "u-1")
    text = " ".join(ended.out.split())
    assert (ended.code, ended.err) == (1, "")
    assert "Order u-1: pay" in text
    assert f" {name} cannot be read: " in text
    assert ("amount 1" in text) == (name != "amount")
    assert ("ConnectionError: the bank did not answer" in text) == (name != "errors")
    assert list(json.loads(run("show", "u-1", "--json").out)["unread"]) == [name]


@pytest.mark.parametrize("values", [AMOUNT, ATTEMPT, ERRORS, TIME, DATA])
def test_an_export_has_the_others_whole_and_says_which_is_missing(values: dict[str, Any]) -> None:
    change(Order, "u-1", **values)
    for ended in (run("export"), run("export", "pay.failed")):
        assert (ended.code, [json.loads(line)["task_id"] for line in sorted(ended.lines)]) == (1, ["u-0", "u-2"])
        said = [line.partition(" (")[0] for line in ended.err.splitlines()]
        assert said == [f"u-1  cannot be read: {next(iter(values))}", "2 tasks of Order"]


def test_an_export_gets_past_data_that_is_not_whole() -> None:
    for number in range(5):
        Order.create(f"w-{number}", state=Order.pay.failed, data={"text": "x" * 5000})
    for key in [*keys(Order)]:
        if key["task_id"]["S"] == "w-2" and key["use_case_id"]["S"] != "order":
            remove(Order, key)
    for ended in (run("export"), run("export", "pay.failed")):
        lines = {line["task_id"]: line for line in map(json.loads, ended.lines)}
        assert (ended.code, sorted(lines)) == (1, ["u-0", "u-1", "u-2", "w-0", "w-1", "w-3", "w-4"])
        assert all(len(line["data"]["text"]) == 5000 for name, line in lines.items() if name.startswith("w"))
        assert ended.err.startswith("w-2  cannot be read: data (")
    assert run("show", "w-2").code == 1


@pytest.mark.parametrize("values", [AMOUNT, ATTEMPT, ERRORS, TIME, DATA])
@pytest.mark.parametrize(
    "order", [("delete", "--yes"), ("ignore", "pay", "--reason", "x"), ("reopen", "pay")], ids=" ".join
)
def test_an_order_for_several_tasks_ends_with_the_last_of_them(values: dict[str, Any], order: tuple[str, ...]) -> None:
    change(Order, "u-1", **values)
    ended = run(*order, "u-0", "u-1", "u-2")
    assert [line.partition(":")[0] for line in ended.lines if "u-1" not in line] == ["u-0", "u-2"]
    assert (ended.code == 0) == (not ended.err)


@pytest.mark.parametrize(
    "damaged",
    [
        {"queued": {"M": {"due_time": {"S": "soon"}, "attributes": {"M": {}}}}},
        {"queued": {"M": {}}},
        {"trace": {"S": "[1, 2]"}},
        {"repeat": {"S": "{"}},
        {"repeat": {"N": "5"}},
    ],
    ids=lambda damaged: str(damaged)[:25],
)
def test_a_damaged_rule_request_or_trace_hides_nothing_else(damaged: dict[str, Any]) -> None:
    change(Order, "u-1", **damaged)
    for ended in (run("show", "u-1"), run("show", "u-1", "--json")):
        assert ended.code == 1
        assert next(iter(damaged)) in ended.out
        assert "ConnectionError" in ended.out
    exported = run("export")
    assert exported.code == 1
    assert '"u-0"' in exported.out
    assert '"u-2"' in exported.out
