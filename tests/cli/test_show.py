"""`show`: everything about one task."""

import re
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from pynamodb_tracker import Repeat
from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.cli.shop import Order, Sample, refuse
from tests.support.rows import change, park

pytestmark = pytest.mark.usefixtures("store")


def shown(task_id: str = "o-1") -> str:
    """Return what it prints, a space between words."""
    ended = run("show", task_id)
    assert (ended.code, ended.err) == (0, "")
    return " ".join(ended.out.split())


def test_a_failed_task_is_shown_with_attributes_data_and_failures(store: StoppedClock) -> None:
    Order.create("o-1", amount=42, note="urgent", data={"lines": [1, {"a": 2}]})
    with pytest.raises(ConnectionError):
        Order.pay.run("o-1", refuse)
    store.advance(timedelta(days=2))
    text = shown()
    for words in (
        "Order o-1: pay.failed",
        "attempt 1 of 3",
        "next may start now",
        "2d ago",
        "amount 42",
        "note urgent",
        'data { "lines": [ 1, { "a": 2 } ] }',
        "pay, attempt 1:",
        "Traceback (most recent call last):",
        "in refuse raise ConnectionError(",
        "ConnectionError: the bank did not answer about o-1",
        "of this task",
    ):
        assert words in text


def test_a_task_that_waits_for_others_is_shown_with_what_it_waits_for(store: StoppedClock) -> None:
    Order.create_many(["o-1", "o-2"])
    park(Order, "o-1", 3)
    park(Order, "o-2", 1, until=store.now() + timedelta(hours=2))
    assert "next waits for 3 tasks created" in shown()
    assert "due" not in shown()
    assert re.search(r"next waits for 1 task, or until .* due .*, in 2h", shown("o-2"))


def test_a_task_is_shown_with_what_it_has_to_do_with_others(store: StoppedClock) -> None:
    Order.create("o-1", trace={"traceparent": "00-1"})
    Order.pay.start("o-1").__enter__()
    Order.create_or_merge("o-1", amount=2, due_time=store.now())
    change(Order, "o-1", creator={"S": "order#1a#o#0"}, parent={"S": "invoice#1b#i-1"})
    text = shown()
    for words in (
        "after this run, with amount",
        "created by order o#0",
        "child of invoice i-1",
        "trace traceparent: 00-1",
    ):
        assert words in text
    document = read("show", "o-1")
    assert document["queued"] == {"due_time": store.now().isoformat(), "attributes": {"amount": 2}}
    assert (document["creator"], document["parent"], document["request_count"], document["trace"]) == (
        {"use_case": "order", "task_id": "o#0"},
        {"use_case": "invoice", "task_id": "i-1"},
        1,
        {"traceparent": "00-1"},
    )


def test_a_task_is_shown_with_what_its_runs_have_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship._definition.codes, "branch", True)
    Order.create("o-1", state=Order.ship.pending)
    parts = {
        "round": {"S": round_of(Order.get_task("o-1"))},
        "10/charge": {"S": "1"},
        "20/mail": {"S": "2"},
        "20/log": {"S": "3"},
    }
    change(Order, "o-1", postpone_count={"N": "3"}, skipped_steps={"L": [{"N": "10"}]}, checkpoints={"M": parts})
    text = shown()
    for words in (
        "Order o-1: ship.pending (branch)",
        "postponed 3 times, without using up an attempt",
        "parts done mail, log (a reopen with clear_checkpoints repeats them)",
        "passed over pay",
    ):
        assert words in text
    document = read("show", "o-1")
    names = ("state", "postpone_count", "parts_done", "skipped_steps")
    assert [document[name] for name in names] == ["ship.pending", 3, ["mail", "log"], ["pay"]]


def test_a_rule_that_a_running_task_gets_is_shown_without_a_run_that_nobody_has_asked_for() -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(hours=1)))
    Order.pay.start("o-1").__enter__()
    Order.create_or_merge("o-1", repeat=Repeat.every(timedelta(hours=2)))
    assert "new rule every 2:00:00, after this run" in shown()
    assert "asked again" not in shown()
    again = read("show", "o-1")["queued"]
    assert (again["repeat"]["every"], "due_time" in again) == ("7200", False)


def test_what_comes_next_depends_on_where_the_task_is(store: StoppedClock) -> None:
    Order.create("o-1", due_time=store.now() + timedelta(hours=2), state=Order.ship.pending)
    assert "next may start in 2h" in shown()
    store.advance(timedelta(hours=2))
    Order.ship.start("o-1").__enter__()
    assert "has run it for 0s" in shown()
    assert "in 15m" in shown()
    store.advance(timedelta(hours=1))
    assert "next its lock expired, and the next run takes it over" in shown()
    Order.ship.start("o-1").__enter__()
    store.advance(timedelta(hours=1))
    assert "next its lock expired, and the next run ignores it: no attempts left" in shown()
    Order.ship.ignore("o-1", reason="cancelled\nby phone")
    assert "next waits for someone to reopen it" in shown()
    assert "ignored: cancelled by phone" in shown()
    assert "Order o-1: ship gave up" in shown()
    assert read("show", "o-1")["state"] == "ship.ignored", "programs read the stored word"
    Order.create("o-2", state=Order.ship.succeeded)
    assert "next nothing: it is done" in shown("o-2")


@pytest.mark.parametrize("task_id", ["o-1", "o 'x' \\", "-o", "o\x1b[2J\n'é"])
def test_the_commands_that_it_prints_can_be_pasted(task_id: str) -> None:
    Order.create(task_id, state=Order.ship.pending)
    Order.ship.start(task_id).__enter__()
    for label, state in (("if it died", Order.ship.pending), ("to reopen it", Order.ship.pending)):
        (line,) = [each for each in run("show", "--", task_id).lines if each.startswith(f"  {label}")]
        command = line.partition(f"{label}  ")[2].strip()
        pasted = subprocess.run(  # noqa: S603 - the words of a command, as a shell reads them
            ["/bin/bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True
        ).stdout.decode()
        name, *words = pasted.removesuffix("\0").split("\0")
        assert (name, "--app" in words) == ("pynamodb-tracker", True)
        assert run(*words, of="").code == 0
        assert Order.get_task(task_id).state == state
        Order.ship.ignore(task_id, reason="x")


def test_the_use_case_that_was_named_is_in_the_commands() -> None:
    Order.create("o-1", state=Order.ship.ignored)
    text = run("show", "o-1", "--use-case", "order", of="tests.cli.shop:StoreTask").out
    assert "pynamodb-tracker reopen --app tests.cli.shop:StoreTask --use-case order o-1\n" in text


def test_json_has_errors_whole_and_attributes_of_every_kind() -> None:
    Order.create("o-1", data={"n": 1})
    with pytest.raises(ConnectionError):
        Order.pay.run("o-1", refuse)
    output = read("show", "o-1")
    assert (output["state"], output["attributes"]) == ("pay.failed", {"data": {"n": 1}})
    assert output["errors"][0]["type"] == "ConnectionError"
    assert "in refuse" in output["errors"][0]["traceback"]

    Sample.create(
        "s-1",
        name="x",
        is_good=False,
        photo=b"\x00\x01",
        labels={"b", "a"},
        weights={2, 1.5},
        taken_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        parts=["a", 1, None],
        place={"city": "Rome"},
        extra=[1],
    )
    assert read("show", "s-1", of="tests.cli.shop:Sample")["attributes"] == {
        "name": "x",
        "is_good": False,
        "photo": "AAE=",
        "labels": ["a", "b"],
        "weights": [1.5, 2],
        "taken_at": "2026-01-31T12:00:00+00:00",
        "parts": ["a", 1, None],
        "place": {"city": "Rome"},
        "extra": [1],
    }


def test_a_task_that_is_not_there_exits_with_1() -> None:
    ended = run("show", "o-1")
    assert (ended.code, ended.out, ended.err) == (1, "", "Order 'o-1' does not exist\n")


def test_a_finished_task_tells_until_when_it_is_kept() -> None:
    Sample.create("s-1", name="x", state=Sample.test.succeeded)
    text = " ".join(run("show", "s-1", of="tests.cli.shop:Sample").out.split())
    assert "kept until" in text
    assert re.search("in (29|30)d", text)


def test_a_state_that_no_step_declares_is_shown() -> None:
    Order.create("o-1")
    change(Order, "o-1", status={"N": "77"})
    assert "unknown.77 next nothing: no step declares its state" in shown()


@pytest.mark.parametrize("task_id", ["", "x" * 3000, "\udcff"])
def test_an_id_that_no_task_can_have_is_reported_on_one_line(task_id: str) -> None:
    ended = run("show", task_id)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "task id" in ended.err
