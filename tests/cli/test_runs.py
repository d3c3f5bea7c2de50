"""`run` and `retry`: which tasks they run, what they report, and what they exit with."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import QueryError

from pynamodb_tracker import State
from pynamodb_tracker.cli.batch import Batch, Selection
from pynamodb_tracker.cli.stop import Stop
from pynamodb_tracker.testing import StoppedClock, stopped_clock
from tests.cli.command import read, run
from tests.cli.shop import Order, refuse, waver

CHARGE, WAVER, REFUSE = (f"tests.cli.shop:{name}" for name in ("charge", "waver", "refuse"))


def states() -> dict[str, str]:
    """Return where the tasks are."""
    counts: dict[State[Order], int] = Order.counts()
    return {task.task_id: str(state) for state, number in counts.items() if number for task in state.query()}


@pytest.mark.usefixtures("store")
def test_run_runs_what_there_is_to_do_and_reports_it() -> None:
    Order.create_many(["good", "bad", "lost", "worse-bad"])
    ended = run("run", "pay", WAVER)
    assert ended.code == 1
    assert [" ".join(line.split()) for line in ended.lines] == [
        "pay: 1 succeeded, 2 failed, 1 ignored in 0s",
        "tasks example error",
        "2 worse-bad ConnectionError: the bank did not answer about …, request #",
        "1 lost GiveUp: no such address",
    ]
    assert states() == {"good": "ship pending", "bad": "pay failed", "lost": "pay ignored", "worse-bad": "pay failed"}


@pytest.mark.usefixtures("store")
def test_what_the_function_prints_goes_to_stderr() -> None:
    Order.create("o-1")
    ended = run("run", "pay", CHARGE)
    assert (ended.code, ended.out, ended.err) == (0, "pay: 1 succeeded in 0s\n", "charging o-1\n")
    assert Order.get_task("o-1").data == {"receipt": "r-o-1"}


def test_retry_takes_failed_tasks_alone(store: StoppedClock) -> None:
    for state in (Order.pay.pending, Order.pay.failed, Order.pay.ignored, Order.ship.failed):
        Order.create(str(state), state=state)
    Order.create("abandoned")
    Order.pay.start("abandoned").__enter__()
    store.advance(timedelta(hours=1))
    assert run("retry", "pay", CHARGE).out == "pay: 1 succeeded in 0s\n"
    assert states() == {
        "pay pending": "pay pending",
        "pay failed": "ship pending",
        "pay ignored": "pay ignored",
        "ship failed": "ship failed",
        "abandoned": "pay in_progress",
    }


def test_ignored_ones_are_taken_with_a_fresh_set_of_attempts_when_asked_for(store: StoppedClock) -> None:
    Order.create("spent", state=Order.ship.pending)
    for _ in range(2):
        Order.ship.run_all(refuse)
    Order.create("lost", state=Order.ship.ignored)
    Order.create("pending", state=Order.ship.pending)
    store.advance(timedelta(seconds=1))
    ended = run("retry", "ship", REFUSE, "--reopen-ignored")
    assert (ended.code, ended.lines[0]) == (1, "ship: 2 failed in 0s")
    assert states() == {"spent": "ship failed", "lost": "ship failed", "pending": "ship pending"}
    assert Order.get_task("spent").attempt == 1


@pytest.mark.usefixtures("store")
def test_what_this_retry_itself_ignores_is_not_run_again() -> None:
    Order.create("spent", state=Order.ship.pending)
    Order.ship.run_all(refuse)
    assert run("retry", "ship", REFUSE, "--reopen-ignored").lines[0] == "ship: 1 ignored in 0s"
    assert Order.get_task("spent").fence == 2


def test_window_error_and_limit_choose_for_both(store: StoppedClock) -> None:
    Order.create_many(["bad-old", "lost-old"])
    Order.pay.run_all(waver)
    store.advance(timedelta(days=2))
    Order.create_many(["bad-1", "bad-2", "lost-1", "lost-2"])
    Order.pay.run_all(waver, only=(Order.pay.pending,))
    store.advance(timedelta(seconds=1))

    def due(*options: str) -> list[str]:
        found: list[str] = read("retry", "pay", CHARGE, "--dry-run", *options)["due"]
        return found

    assert sorted(due("--reopen-ignored")) == ["bad-1", "bad-2", "bad-old", "lost-1", "lost-2", "lost-old"]
    assert sorted(due("--since", "1d")) == ["bad-1", "bad-2"]
    assert sorted(due("--since", "1d", "--reopen-ignored")) == ["bad-1", "bad-2", "lost-1", "lost-2"]
    assert due("--until", "1d", "--reopen-ignored") == ["bad-old", "lost-old"]
    assert due("--error-like", "BANK", "--limit", "1") == ["bad-old"]
    assert sorted(due("--error-like", "address", "--reopen-ignored")) == ["lost-1", "lost-2", "lost-old"]
    assert len(due("--reopen-ignored", "--limit", "5")) == 5
    assert run("retry", "pay", CHARGE, "--reopen-ignored", "--limit", "4").lines == ["pay: 4 succeeded in 0s"]
    assert run("retry", "pay", CHARGE, "--reopen-ignored", "--error-like", "no such").lines[0].startswith("pay: 2 succ")


@pytest.mark.usefixtures("store")
def test_a_dry_run_prints_ids_and_runs_nothing() -> None:
    Order.create_many(["o-1", "o-2"])
    ended = run("run", "pay", REFUSE, "--dry-run")
    assert (ended.code, sorted(ended.lines), ended.err) == (0, ["o-1", "o-2"], "2 tasks would be run; nothing was\n")
    assert set(states().values()) == {"pay pending"}


def test_nothing_to_run_is_told_with_the_reason(store: StoppedClock) -> None:
    assert run("retry", "pay", CHARGE).out == "nothing to run at pay: no such task is due\n"
    Order.create("o-1", state=Order.pay.failed, due_time=store.now() + timedelta(hours=2))
    ended = run("retry", "pay", CHARGE)
    assert (ended.code, ended.out) == (
        0,
        "nothing to run at pay: 1 task not due yet (the first one in 2h); reopen makes failed ones due at once\n",
    )


@pytest.mark.usefixtures("store")
def test_json_has_the_report() -> None:
    Order.create_many(["good", "bad"])
    told = read("run", "pay", WAVER, "--threads", "1")
    assert (told["succeeded"], told["failed"], told["ignored"], told["refused"]) == (1, 1, 0, {})
    assert told["stopped"] is False


@pytest.mark.usefixtures("store")
def test_refused_tasks_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("taken")
    start = Order.pay.start

    def late(task_id: str, **options: bool) -> object:
        Order.pay.ignore(task_id, reason="first")
        Order.pay.reopen(task_id)
        start(task_id).__enter__()
        return start(task_id, **options)  # type: ignore[call-overload]  # as it was called

    monkeypatch.setattr(Order.pay, "start", late)
    ended = run("run", "pay", CHARGE)
    assert ended.code == 1
    assert ended.lines[:2] == ["pay: 1 refused in 0s", "1 refused: TaskLockedError"]
    assert re.match("  taken: cannot start pay of Order 'taken': .* held by", ended.lines[2])


def test_a_rate_is_kept_to(store: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(7))
    began = store.now()
    assert run("run", "pay", CHARGE, "--rate", "30/m", "--threads", "1").code == 0
    assert store.now() - began >= timedelta(seconds=12)


def test_a_rate_holds_for_ignored_ones_too(store: StoppedClock) -> None:
    for number in range(4):
        Order.create(f"o-{number}", state=Order.pay.ignored)
    store.advance(timedelta(seconds=1))
    began = store.now()
    assert run("retry", "pay", CHARGE, "--reopen-ignored", "--rate", "1/s", "--threads", "1").code == 0
    assert store.now() - began >= timedelta(seconds=3)


@pytest.mark.usefixtures("store")
def test_a_task_can_be_kept_by_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    start = Order.pay.start

    def noted(task_id: str, *, heartbeat: bool) -> object:
        seen.append(heartbeat)
        return start(task_id, heartbeat=heartbeat)

    monkeypatch.setattr(Order.pay, "start", noted)
    Order.create("o-1")
    assert run("run", "pay", CHARGE, "--heartbeat").code == 0
    assert seen == [True]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tests.cli.shop:chrage", "the module 'tests.cli.shop' has no 'chrage'; did you mean 'charge'?"),
        ("tests.cli.shop", "'tests.cli.shop' names no function: write module:function"),
        ("tests.cli.shop:NUMBER", "tests.cli.shop:NUMBER: this takes a function of the context, not 5"),
    ],
)
def test_a_function_that_is_none_is_told_on_one_line(function: str, words: str) -> None:
    ended = run("run", "pay", function)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


@pytest.mark.usefixtures("store")
def test_an_async_function_is_refused() -> None:
    assert "not the async" in run("run", "pay", "tests.cli.shop:later").err


def test_an_ignored_task_that_somebody_else_took_is_refused(
    store: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("taken", state=Order.pay.ignored)
    store.advance(timedelta(seconds=1))
    start = Order.pay.start

    def late(task_id: str, **options: object) -> object:
        Order.pay.reopen(task_id)
        start(task_id).__enter__()
        return start(task_id, **options)  # type: ignore[call-overload]  # as it was called

    monkeypatch.setattr(Order.pay, "start", late)
    ended = run("retry", "pay", CHARGE, "--reopen-ignored")
    assert ended.code == 1
    assert ended.lines[:2] == ["pay: 1 refused in 0s", "1 refused: TaskLockedError"]


@pytest.mark.usefixtures("store")
def test_a_refused_request_of_the_run_itself_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create("o-1", state=Order.pay.ignored)

    def broken(_task_id: str, **_options: object) -> object:
        raise LookupError("a mistake of the library")

    monkeypatch.setattr(Order.pay, "start", broken)
    with stopped_clock() as clock:
        clock.advance(timedelta(seconds=1))
        with pytest.raises(LookupError):
            run("retry", "pay", CHARGE, "--reopen-ignored")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_task_that_begins_after_the_order_to_stop_is_given_back_with_its_attempt(threads: int) -> None:
    Order.create("o-1")
    stop = Stop()
    stop.event.set()
    batch = Batch(Selection(Order.pay), refuse, threads, None, heartbeat=False, show=bool)
    with pytest.raises(KeyboardInterrupt):
        batch.run(stop)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.fence) == (Order.pay.pending, 0, 1)


@pytest.mark.usefixtures("store")
def test_nothing_is_started_after_the_order_to_stop() -> None:
    Order.create_many(["o-1", "o-2"])
    stop = Stop()
    batch = Batch(Selection(Order.pay), lambda _ctx: stop.event.set(), 1, None, heartbeat=False, show=bool)
    with pytest.raises(KeyboardInterrupt):
        batch.run(stop)
    assert sorted(Order.get_task(f"o-{number}").fence for number in (1, 2)) == [0, 1]
    assert batch.number("succeeded") == 1


@pytest.mark.usefixtures("store")
def test_a_function_that_ends_the_program_fails_its_task_alone() -> None:
    Order.create_many(["o-1", "o-2"])
    ended = run("run", "pay", "tests.cli.shop:leave")
    assert (ended.code, ended.lines[0]) == (1, "pay: 2 failed in 0s")
    assert Order.get_task("o-1").last_error == "RuntimeError: the function called sys.exit(no such file)"


@pytest.mark.usefixtures("store")
def test_a_batch_that_breaks_off_tells_what_was_done_before(monkeypatch: pytest.MonkeyPatch) -> None:
    Order.create_many(["o-1", "o-2"])
    todo = Selection.run

    def broken(selection: Selection, *arguments: Any, **settings: Any) -> None:
        todo(replace(selection, limit=1), *arguments, **settings)
        raise QueryError("throttled", None)

    monkeypatch.setattr(Selection, "run", broken)
    ended = run("run", "pay", CHARGE, "--threads", "1")
    assert (ended.code, ended.lines) == (2, ["stopped; pay: 1 succeeded in 0s"])
    assert ended.err.endswith(": throttled\n")
