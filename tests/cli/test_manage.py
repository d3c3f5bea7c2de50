"""`reopen`, `ignore` and `delete`: what a person decides about single tasks."""

from __future__ import annotations

import pytest
import typer

from pynamodb_tracker import TaskNotFoundError
from tests.cli.command import run
from tests.cli.shop import Order

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


def test_a_task_that_is_ignored_keeps_its_reason_and_says_so() -> None:
    Order.create("o-1")
    run("ignore", "pay", "o-1", "--reason", "first")
    ended = run("ignore", "pay", "o-1", "--reason", "second")
    assert (ended.code, ended.out) == (0, "o-1: pay.ignored, as before; its reason was not changed\n")
    assert Order.get_task("o-1").last_error == "ignored: first"


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
    with pytest.raises(TaskNotFoundError):
        Order.get_task("o-1")


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, False), ("n\n", 1, True), ("\n", 1, True)])
def test_delete_does_what_the_answer_says(
    monkeypatch: pytest.MonkeyPatch, answer: str, code: int, *, left: bool
) -> None:
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
