"""`signal`, and what `show` and `status` say of a task that waits for one."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import SignalAlreadyReceivedError
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.cli.shop import Order

pytestmark = pytest.mark.usefixtures("store")


def test_a_person_answers_what_a_task_waits_for(store: StoppedClock) -> None:
    Order.create("o-1", wait_for=Order.paid, until=timedelta(days=2))
    Order.create("o-2", wait_for=Order.paid)
    assert "waits for the signal paid, or until" in run("show", "o-1").out
    assert "o-2   pay.pending   0s  the signal paid" in run("list", "--waiting").out
    pending = read("status")["use_cases"][0]["states"][0]
    assert (pending["tasks"], pending["waiting"]) == (2, 2)

    ended = run("signal", "o-1", "paid", "--value", '{"amount": "42.50"}', "--by", "ada", "--key", "evt-1")

    assert (ended.code, ended.lines) == (0, ["o-1: pay.pending (due by this signal)"])
    assert '{"amount": "42.50"}' in run("show", "o-1").out
    assert read("show", "o-1")["signals"]["paid"] == {
        "value": {"amount": "42.50"},
        "by": "ada",
        "key": "evt-1",
        "time": store.now().isoformat(),
    }
    again = run("signal", "o-1", "paid", "--value", '{"amount": "42.50"}')
    assert again.lines == ["o-1: pay.pending (signal stored)"]
    other = run("signal", "o-1", "paid", "--value", "false")
    assert (other.code, "with another value. The first one counts" in other.err) == (1, True)
    assert re.search(r"received at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC by ada with", other.err)


def test_a_signal_to_a_cancelled_task_is_refused_and_is_none_of_the_commands_of_people() -> None:
    Order.create("o-1", wait_for=Order.paid)
    Order.cancel("o-1", reason="by phone")
    ended = run("signal", "o-1", "paid", "--value", "1")
    assert (ended.code, "paid of Order 'o-1' is not stored: the task was cancelled" in ended.err) == (1, True)
    assert read("now")["commands"] == []


def test_now_and_an_error_say_which_values_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vars(Order)["approved"], "choices", {"Approve": True, "Say no": "no"})
    Order.create("o-1", wait_for=Order.approved)
    Order.create("o-2", wait_for=Order.paid)
    lines = [line.strip() for line in run("now").lines]
    assert "1 task of Order.pay waits for the signal approved" in lines
    signal = "pynamodb-tracker signal --app tests.cli.shop:Order --use-case order"
    assert [line for line in lines if line.startswith(signal)] == [
        f"{signal} o-1 approved --value true  # Approve",
        f"{signal} o-1 approved --value '\"no\"'  # Say no",
        f"{signal} o-2 paid --value JSON",
    ]
    assert 'write it as JSON, one of true (Approve), "no" (Say no)' in run("signal", "o-1", "approved").err
    for value in ("1", '"true"', '"yes"'):
        ended = run("signal", "o-1", "approved", "--value", value)
        told = 'this value is not a choice of approved: write one of true (Approve), "no" (Say no)\n'
        assert (ended.code, ended.err) == (2, told)
    assert run("signal", "o-1", "approved", "--value", "true").code == 0


def test_a_choice_can_be_written_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = {"rate": 0.5, "who": "Zoë"}
    monkeypatch.setattr(vars(Order)["approved"], "choices", {"Half": choice})
    Order.create("o-1", wait_for=Order.approved)
    assert run("signal", "o-1", "approved", "--value", '{"who":"Zo\\u00eb", "rate": 0.50}').code == 0
    signals: Any = Order.get_task("o-1").signals
    assert signals["approved"].value == choice


@pytest.mark.parametrize(
    ("choice", "written", "code"),
    [
        (1.0, "1", 0),
        (1, "1.0", 0),
        (100, "1e2", 0),
        ({"rates": [2.0]}, '{"rates": [2]}', 0),
        (1, "true", 2),
        ({"rates": [0]}, '{"rates": [false]}', 2),
    ],
)
def test_a_choice_is_compared_as_a_repeated_signal_is(
    monkeypatch: pytest.MonkeyPatch, choice: object, written: str, code: int
) -> None:
    monkeypatch.setattr(vars(Order)["approved"], "choices", {"Rate": choice})
    Order.create("o-1", wait_for=Order.approved)
    Order.create("o-2", wait_for=Order.approved)
    assert run("signal", "o-1", "approved", "--value", written).code == code
    Order.approved.send("o-2", choice)
    if code:
        with pytest.raises(SignalAlreadyReceivedError):
            Order.approved.send("o-2", json.loads(written))
    else:
        assert Order.approved.send("o-2", json.loads(written)).effect == "stored"


def test_the_round_of_a_task_that_has_started_over_is_to_be_named() -> None:
    Order.create("o-1", state=Order.ship.succeeded)
    Order.create_or_merge("o-1")
    of_round = Order.get_task("o-1").round

    ended = run("signal", "o-1", "paid", "--value", "1")
    assert (ended.code, f"add --round {of_round} if" in ended.err) == (2, True)
    assert run("signal", "o-1", "paid", "--value", "1", "--round", "0" * 24).code == 1
    assert run("signal", "o-1", "paid", "--value", "1", "--round", str(of_round)).code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["o-1", "paid"], 2, "Missing option '--value'"),
        (["o-1", "paid", "--value", ""], 2, "'' is not JSON"),
        (["o-1", "paid", "--value", "null"], 2, "null is not a value"),
        (["o-1", "payed", "--value", "1"], 2, "Order has no signal 'payed'. It has approved, paid"),
        (["o-1", "paid", "--value", "1"], 1, "Order 'o-1' does not exist"),
        (["o-1", "paid", "--value", "yes"], 2, "'yes' is not JSON"),
        (["o-1", "paid", "--value", "[" * 100_000], 2, "its JSON is nested deeper than Python can walk"),
        (["", "paid", "--value", "1"], 2, "a task id"),
    ],
)
def test_what_cannot_be_answered_is_reported_on_one_line(words: list[str], code: int, message: str) -> None:
    ended = run("signal", *words)
    assert (ended.code, message in ended.err, ended.err.count("\n")) == (code, True, 1)
