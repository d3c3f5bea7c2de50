"""`create`, `reopen`, `ignore`, `unlock` and `delete`: what a person decides about single tasks."""

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import typer

from pynamodb_tracker import Repeat, TaskNotFoundError
from pynamodb_tracker.control import records
from pynamodb_tracker.dynamodb.connection import get_items
from pynamodb_tracker.step.definition import StepDefinition
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import read, run
from tests.cli.shop import Invoice, Order, Sample
from tests.support.rows import park
from tests.support.workers import raising

pytestmark = pytest.mark.usefixtures("store")


def test_tasks_are_reopened_and_one_that_is_refused_does_not_stop_the_others() -> None:
    Order.create("o-1", state=Order.pay.ignored)
    Order.create("o-2", state=Order.ship.succeeded)
    Order.create("o-3", state=Order.pay.failed)
    ended = run("reopen", "pay", "o-1", "o-2", "o-3", "o-4")
    assert (ended.code, ended.out) == (1, "o-1: pay.pending\no-3: pay.pending\n")
    assert [line.partition(": ")[0] for line in ended.err.splitlines()] == [
        "cannot reopen pay of Order 'o-2'",
        "cannot reopen pay of Order 'o-4'",
    ]
    assert ended.err.splitlines()[0].endswith(", so pay is done")


def test_a_task_that_waits_for_others_goes_on_waiting_when_it_is_reopened() -> None:
    Order.create("o-1")
    park(Order, "o-1", 3)
    run("ignore", "o-1", "--reason", "not now")
    assert run("reopen", "o-1").out == "o-1: pay.pending, waits for 3 tasks\n"


@pytest.mark.parametrize("interrupted", [False, True])
def test_tasks_are_changed_together_and_printed_in_order(monkeypatch: pytest.MonkeyPatch, *, interrupted: bool) -> None:
    ids = ["o-0", "o-1", "o-2"]
    Order.create_many({"task_id": task_id, "state": Order.pay.failed} for task_id in ids)
    reopen, last = StepDefinition.reopen, threading.Event()

    def first_waits_for_last(step: StepDefinition[Order], task_id: str, *given: Any, **options: Any) -> Any:
        if task_id == "o-0":
            assert last.wait(60)
            if interrupted:
                raise KeyboardInterrupt
        try:
            return reopen(step, task_id, *given, **options)
        finally:
            if task_id == "o-2":
                last.set()

    monkeypatch.setattr(StepDefinition, "reopen", first_waits_for_last)
    ended = run("reopen", "pay", *ids)
    assert ended.lines == [f"{task_id}: pay.pending" for task_id in (ids[1:] if interrupted else ids)]
    assert ended.code == (130 if interrupted else 0)


def test_ids_come_from_stdin_too() -> None:
    Order.create_many([{"task_id": f"o {number}", "state": Order.pay.failed} for number in range(3)])
    ended = run("reopen", "pay", "-", text="o 0\no 1\n\no 2\r\n")
    assert (ended.code, len(ended.lines)) == (0, 3)
    assert Order.pay.pending.count() == 3


def test_tasks_are_ignored_for_a_reason() -> None:
    Order.create("o-1")
    assert run("ignore", "pay", "o-1").code == 2
    ended = run("ignore", "pay", "o-1", "--reason", "cancelled by phone")
    assert (ended.code, ended.out) == (0, "o-1: pay.ignored\n")
    assert Order.get_task("o-1").errors[-1].message == "cancelled by phone"


def test_a_task_is_created_for_later(store: StoppedClock) -> None:
    assert run("create", "o-1", "--due", "30m").code == 0
    assert Order.get_task("o-1").due_time == store.now() + timedelta(minutes=30)
    assert run("create", "o-2", "--due", "30m", "due_time=2026-01-31").err.startswith("due_time is given twice")


def test_a_task_that_repeats_is_created_and_shown_with_its_rule() -> None:
    assert run("create", "o-1", "repeat=cron 0 2 * * * in Europe/Berlin").code == 0
    occurrence: Any = Order.get_task("o-1").occurrence
    text = " ".join(run("show", "o-1").out.split())
    assert f"repeats 0 2 * * * in Europe/Berlin occurrence {occurrence}" in text
    assert read("show", "o-1")["repeat"]["cron"] == "0 2 * * *"
    assert read("show", "o-1")["occurrence"] == occurrence.isoformat()
    assert run("create", "o-1", "--merge", "repeat=every 1h").code == 0
    assert Order.get_task("o-1").repeat == Repeat.every(timedelta(hours=1))


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda: None, "o-1: pay.pending"),
        (lambda: Order.create("o-1"), "o-1: pay.pending (already pending, attributes unchanged)"),
        (lambda: Order.create("o-1", state=Order.ship.pending), "o-1: ship.pending (runs again after its success)"),
        (lambda: Order.create("o-1", state=Order.ship.succeeded), "o-1: pay.pending (had succeeded, starts over)"),
        (
            lambda: Order.create("o-1", state=Order.ship.ignored),
            "o-1: ship.ignored (keeps the request until it is reopened)",
        ),
    ],
    ids=["created", "merged", "queued", "restarted", "ignored"],
)
def test_a_task_that_exists_is_asked_for_again(prepare: Callable[[], object], told: str) -> None:
    prepare()
    ended = run("create", "o-1", "amount=5", "--merge")
    assert (ended.code, ended.out, ended.err) == (0, f"{told}\n", "")


def test_a_task_that_is_only_due_later_is_made_due_now_and_that_is_recorded() -> None:
    Order.create("o-1", due_time=timedelta(hours=1))
    outs = [run("create", "o-1", "--merge").out for _ in range(2)]
    assert outs == ["o-1: pay.pending (due now)\n", "o-1: pay.pending (already pending, attributes unchanged)\n"]
    [item] = get_items(Order.tracker.connection(), [records.commands_key(Order)])
    assert [(each.did, each.about, each.tasks) for each in records.commands_in(item)] == [("made due", "o-1", 1)]


def test_a_task_with_a_required_attribute_is_made_due_now_as_now_advises(store: StoppedClock) -> None:
    Sample.create("s-1", name="iron", due_time=timedelta(hours=1))
    ended = run("create", "s-1", "--merge", of="tests.cli.shop:Sample")
    assert (ended.code, ended.out, ended.err) == (0, "s-1: test.pending (due now)\n", "")
    assert (Sample.get_task("s-1").due_time, Sample.get_task("s-1").name) == (store.now(), "iron")


def test_a_running_task_is_ignored_only_if_asked_for() -> None:
    Order.create("o-1")
    Order.pay.start("o-1").__enter__()
    refused = run("ignore", "o-1", "--reason", "cancelled by phone")
    assert refused.code == 1
    assert refused.err.endswith("Try again after that, or add --even-running to cancel its run\n")
    ended = run("ignore", "o-1", "--even-running", "--reason", "cancelled by phone")
    assert (ended.code, ended.out) == (0, "o-1: pay.ignored\n")


def test_a_running_task_of_a_group_is_ignored_only_if_that_is_asked_for() -> None:
    Order.create("o-1", group="customer-7")
    Order.pay.start("o-1").__enter__()
    words = ["ignore", "o-1", "--even-running", "--reason", "cancelled by phone"]
    refused = run(*words)
    assert (refused.code, refused.err.endswith("or add --even-running --even-in-group to cancel its run\n")) == (
        1,
        True,
    )
    ended = run(*words, "--even-in-group")
    assert (ended.code, ended.out) == (0, "o-1: pay.ignored\n")


def test_a_reopened_task_forgets_its_parts_only_if_asked_for() -> None:
    Order.create("o-1")

    def charge(ctx: Any) -> None:
        ctx.checkpoint("charge", lambda: 1)
        raise ValueError("later")

    for options, kept in (((), True), (("--clear-checkpoints",), False)):
        with pytest.raises(ValueError, match="later"):
            Order.pay.run("o-1", charge)
        assert run("reopen", "o-1", *options).code == 0
        assert (Order.get_task("o-1").checkpoints is not None) == kept


def test_tasks_are_created_reopened_shown_and_transferred_as_urgent() -> None:
    of = ("--use-case", "invoice")
    assert run("create", "i-1", "--urgent", *of).code == 0
    assert run("create", "i-2", "state=send.failed", *of).out == "i-2: send.failed\n"
    assert run("create", "i-3", "urgent=no", *of).code == 0
    assert run("reopen", "i-2", "--urgent", *of).out == "i-2: send.pending\n"
    assert "urgent workers take it before other tasks" in " ".join(run("show", "i-2", *of).out.split())
    exported = run("export", *of).out
    Invoice.delete_use_case()
    assert run("load", "-", *of, text=exported).code == 0
    assert {task.task_id: task.urgent for task in Invoice.send.pending.query()} == {
        "i-1": True,
        "i-2": True,
        "i-3": None,
    }


@pytest.mark.parametrize("words", [("create", "o-1", "--urgent"), ("reopen", "o-1", "--urgent")])
def test_a_use_case_that_has_no_urgent_tasks_says_how_to_declare_them(words: tuple[str, ...]) -> None:
    ended, declared = run(*words), "use_case_id = UseCase('order', urgent=True)"
    told = f"no Order can be urgent: write {declared}, and deploy that to all programs first"
    assert (ended.code, " ".join(ended.err.split())) == (2, told)


def test_tasks_are_cancelled_wherever_they_are() -> None:
    Order.create("o-1", group="customer-7")
    Order.pay.start("o-1").__enter__()
    Order.create("o-2", state=Order.ship.pending)
    words = ["cancel", "o-1", "o-2", "--children", "--reason", "by phone"]
    refused = run(*words)
    assert (refused.code, refused.out) == (1, "o-2: cancelled\n")
    assert "even_running=True takes it away" in refused.err
    ended = run(*words, "--even-running")
    assert ended.code == 0
    assert ended.out == ("o-1: cancelled, its block may still run\no-2: cancelled, as before, with its old reason\n")
    assert run("list", "cancelled", "--json").code == 0
    assert run("list", "cancelled").lines[0].split() == ["task", "attempt", "age", "error"]
    assert "cancelled is a state, too." in " ".join(run("list", "--help").out.split())
    assert [line.split()[:2] for line in run("status").out.splitlines() if "cancelled" in line] == [["cancelled", "2"]]
    assert "nothing: it was cancelled" in run("show", "o-2").out
    assert run("reopen", "-", text="o-2\n").code == 1
    assert run("reopen", "cancelled", "--dry-run").code == 2
    assert run("reopen", "o-2").out == "o-2: ship.pending\n"
    assert run("cancel", "o-1", "--reason", " ").code == 2
    assert run("cancel", "o-9", "--reason", "by phone").err == "cannot cancel Order 'o-9': it does not exist\n"


def test_a_task_that_is_ignored_keeps_its_reason_and_says_so() -> None:
    Order.create("o-1")
    run("ignore", "pay", "o-1", "--reason", "first")
    ended = run("ignore", "pay", "o-1", "--reason", "second")
    assert (ended.code, ended.out) == (0, "o-1: pay.ignored, as before, with its old reason\n")
    assert Order.get_task("o-1").last_error == "ignored: first"


def test_commands_that_change_nothing_are_none_of_the_commands_of_people(stopped_clock: StoppedClock) -> None:
    Order.create_many(["o-1", "o-2", "o-3", "o-4"])
    Order.create("o-5", wait_for=Order.paid)
    commands = [
        ("ignore", "o-1", "o-2", "--reason", "{}"),
        ("reopen", "o-1"),
        ("cancel", "o-3", "--reason", "{}"),
        ("delete", "o-4", "--yes"),
        ("signal", "o-5", "paid", "--value", "1"),
        ("pause", "pay", "--until", "{}", "--reason", "{}"),
        ("resume", "pay"),
    ]
    for words in commands:
        for given in ("3h", "1h"):
            stopped_clock.advance(timedelta(seconds=1))
            assert run(*(word.format(given) for word in words)).code == 0
    stopped_clock.advance(timedelta(seconds=1))
    assert run("ignore", "o-1", "o-2", "--reason", "third").code == 0
    kept = [command for _, command in read("now")["commands"]]
    assert [(each["did"], each["about"], each["tasks"], each["reason"]) for each in reversed(kept)] == [
        ("ignored", "o-1 o-2", 2, "3h"),
        ("reopened", "o-1", 1, ""),
        ("cancelled", "o-3", 1, "3h"),
        ("deleted", "o-4", 1, ""),
        ("sent paid to", "o-5", 1, ""),
        ("paused", "pay", 0, "3h"),
        ("resumed", "pay", 0, ""),
        ("ignored", "o-1 o-2", 1, "third"),
    ]


@pytest.mark.parametrize("reason", ["", " \t"])
def test_a_reason_that_says_nothing_is_refused(reason: str) -> None:
    Order.create("o-1")
    ended = run("ignore", "pay", "o-1", "--reason", reason)
    assert (ended.code, ended.out, "--reason" in ended.err) == (2, "", True)
    assert Order.pay.pending.count() == 1


def test_a_task_in_progress_is_neither_ignored_nor_deleted() -> None:
    Order.create("o-1")
    Order.pay.start("o-1").__enter__()
    for arguments in (("ignore", "pay", "o-1", "--reason", "x"), ("delete", "o-1", "--yes")):
        ended = run(*arguments)
        assert (ended.code, ended.out) == (1, "")
        assert "held by" in ended.err


def test_a_wrong_id_is_refused_as_a_task() -> None:
    ended = run("delete", "x" * 2000, "--yes")
    assert ended.code == 1
    assert ended.err.startswith("a task id has 1 to 1024 bytes, not 2000")


def test_delete_asks_nobody_where_there_is_nobody_to_ask() -> None:
    Order.create("o-1")
    for arguments in (("delete", "o-1"), ("delete", "-")):
        ended = run(*arguments, text="y\n")
        assert (ended.code, ended.err) == (2, "delete asks for confirmation, but stdin is not a terminal: add --yes\n")
    assert Order.pay.pending.count() == 1


def test_delete_does_not_ask_on_a_stdin_that_has_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.cli.commands.manage._is_terminal", lambda: True)
    assert run("delete", "-", text="y\n").code == 2


def test_delete_with_yes_deletes() -> None:
    Order.create("o-1")
    assert run("delete", "o-1", "--yes").out == "o-1: deleted\n"
    again = run("delete", "o-1", "--yes")
    assert (again.code, again.out) == (0, "o-1: not found\n")
    with pytest.raises(TaskNotFoundError):
        Order.get_task("o-1")


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, False), ("n\n", 1, True), ("\n", 1, True)])
def test_delete_obeys_the_answer(monkeypatch: pytest.MonkeyPatch, answer: str, code: int, *, left: bool) -> None:
    monkeypatch.setattr("pynamodb_tracker.cli.commands.manage._is_terminal", lambda: True)
    Order.create("o-1")
    ended = run("delete", "o-1", text=answer)
    assert ended.code == code
    assert "Delete 1 task of Order permanently (o-1)? [y/N]" in ended.err
    assert ("nothing was deleted" in ended.err) == left
    assert bool(Order.pay.pending.count()) == left


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (EOFError, 1)])
def test_a_question_that_is_not_answered_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], code: int
) -> None:
    def answer() -> None:
        raise error

    def ask(*_arguments: object, **_options: object) -> None:
        try:
            answer()
        except error:
            raise typer.Abort from None

    monkeypatch.setattr("pynamodb_tracker.cli.commands.manage._is_terminal", lambda: True)
    monkeypatch.setattr(typer, "confirm", ask)
    Order.create("o-1")
    ended = run("delete", "o-1")
    assert (ended.code, ended.out, ended.err) == (code, "", "\nnothing was deleted\n")
    assert Order.pay.pending.count() == 1


def test_the_row_says_at_which_step_a_task_is() -> None:
    Order.create("o-1", state=Order.pay.ignored)
    Order.create("o-2", state=Order.ship.failed)
    Order.create("o-3", state=Order.ship.succeeded)
    ended = run("reopen", "o-1", "-", "o-4", text="o-2\no-3\n")
    assert (ended.code, ended.lines) == (1, ["o-1: pay.pending", "o-2: ship.pending"])
    assert [line.partition(":")[0] for line in ended.err.splitlines()] == [
        "cannot reopen ship of Order 'o-3'",
        "Order 'o-4' does not exist",
    ]
    assert run("ignore", "o-1", "o-2", "--reason", "x").lines == ["o-1: pay.ignored", "o-2: ship.ignored"]


def test_a_step_that_is_misspelt_changes_nothing() -> None:
    Order.create("o-1", state=Order.pay.ignored)
    ended = run("reopen", "shpi", "o-1")
    assert (ended.code, ended.err) == (2, "Order does not have a step or a task 'shpi'; did you mean 'ship'?\n")
    assert Order.get_task("o-1").state == Order.pay.ignored


def test_a_task_that_is_called_like_a_step_is_named_after_its_step() -> None:
    Order.create("pay", state=Order.pay.ignored)
    assert run("reopen", "pay").code == 2
    assert run("reopen", "pay", "pay").lines == ["pay: pay.pending"]
    Order.create("payy", state=Order.pay.ignored)
    assert run("reopen", "payy", "pay").lines == ["payy: pay.pending", "pay: pay.pending, as before"]


def test_the_task_of_a_dead_worker_is_released() -> None:
    Order.create_many([{"task_id": task_id, "state": Order.ship.pending} for task_id in ("o-1", "o-2")])
    for task_id in ("o-1", "o-2"):
        Order.ship.start(task_id).__enter__()
    worker: Any = Order.get_task("o-1").worker
    assert run("unlock", "o-1").code == 2
    assert run("unlock", "o-1", "--reason", " ").code == 2
    other = run("unlock", "o-1", "--reason", "host is gone", "--worker", "another:1")
    assert (other.code, other.out, worker in other.err) == (1, "", True)
    ended = run("unlock", "o-1", "ship", "--reason", "host is gone", "--worker", worker)
    assert (ended.code, ended.lines) == (1, ["o-1: ship.pending"])
    again = run("unlock", "ship", "o-1", "--reason", "host is gone")
    assert again.lines == ["o-1: ship.pending, as before: no worker had it"]
    token = Order.ship.start("o-1").__enter__().fencing_token
    valid = run("unlock", "o-1", "--reason", "host is gone", "--by", "Ada")
    assert (valid.code, f"pass fencing_token='{token}' or worker='{worker}'" in valid.err) == (1, True)
    last = run("unlock", "o-1", "--reason", "host is gone", "--by", "Ada", "--fencing-token", token)
    assert last.lines == [
        "o-1: ship.pending, but that was its last attempt: the next run ignores it, unless it is reopened"
    ]
    entry = Order.get_task("o-1").errors[-1]
    assert (entry.type, entry.message, entry.worker) == ("unlocked", "host is gone", "Ada")
    assert Order.ship.in_progress.count() == 1


def test_who_decides_is_kept_by_default_the_user_and_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    monkeypatch.setattr("socket.gethostname", lambda: "desk")
    Order.create("o-1")
    run("ignore", "o-1", "--reason", "x")
    run("reopen", "o-1")
    run("ignore", "o-1", "--reason", "x", "--by", "Grace")
    assert [each.worker for each in Order.get_task("o-1").errors] == ["ada@desk", "ada@desk", "Grace"]
    assert "ada@desk" in run("show", "o-1").out


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", raising(KeyError("getpwuid(): uid not found: 1000")))
    Order.create("o-1")
    assert run("ignore", "o-1", "--reason", "x").code == 0
    assert re.match(r"uid \d+@|somebody@", Order.get_task("o-1").errors[-1].worker)


def test_a_task_is_created_with_values_as_its_class_declares_them() -> None:
    ended = run("create", "o-1", "amount=12345678901234567890.5", "note=a=b", 'data={"a": [1]}')
    assert (ended.code, ended.out, ended.err) == (0, "o-1: pay.pending\n", "")
    order = Order.get_task("o-1")
    assert (order.note, order.data) == ("a=b", {"a": [1]})
    assert "12345678901234567890.5" in run("show", "o-1").out
    assert run("create", "o-2", "state=ship.failed").out == "o-2: ship.failed\n"


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        (("o-1",), 1, "cannot create Order 'o-1': it already exists"),
        (("o-2", "amount=many"), 2, "amount: 'many' is not a number"),
        (("o-2", "amout=5"), 2, "Order has no attribute 'amout'; did you mean 'amount'?"),
        (("o-2", "amount"), 2, "'amount' has no value: write each as NAME=VALUE"),
        (("o-2", "amount=1", "amount=2"), 2, "amount is given twice"),
        (("o-2", "task_id=o-3"), 2, "task_id is given twice"),
        (("o-2", "state=ship.fialed"), 2, "ship does not have a status 'fialed'; did you mean 'failed'?"),
        (("",), 2, "task_id is missing"),
    ],
)
def test_what_cannot_be_created_is_reported_on_one_line(values: tuple[str, ...], code: int, words: str) -> None:
    Order.create("o-1")
    ended = run("create", *values)
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert words in ended.err
    assert sum(Order.counts().values()) == 1
