"""Nothing that is stored, or that a user has named, steers the terminal."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rich.text import Text

from pynamodb_tracker.cli.terminal import print_table, progress, say
from pynamodb_tracker.presentation.text import escaped
from pynamodb_tracker.testing import StoppedClock
from tests.cli.command import Screen, run, run_on
from tests.cli.shop import Order
from tests.support.rows import change, put

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r\x08\x85\u2028"
STATES = {"idle": "10", "busy": "11", "bad": "12", "out": "13", "gone": "77", "done": "1000"}


def put_hostile(task_id: str, status: str, time: str) -> None:
    """Store a row with hostile text wherever another program could have put it."""
    failure = {name: {"S": EVIL + name} for name in ("step", "worker", "type", "message", "traceback")}
    item: dict[str, Any] = {
        "task_id": {"S": EVIL + task_id},
        "use_case_id": {"S": "order"},
        "status": {"N": status},
        "status_key": {"S": f"order#{status}#0"},
        "due_time": {"S": time},
        "create_time": {"S": time},
        "update_time": {"S": time},
        "attempt": {"N": "1"},
        "fence": {"N": "1"},
        "lock": {"S": "0" * 24},
        "lock_expire_time": {"S": time},
        "worker": {"S": EVIL},
        "last_error": {"S": EVIL + "\nlast"},
        "errors": {"L": [{"M": failure | {"attempt": {"N": "1"}, "time": {"S": time}}}]},
        "note": {"S": EVIL + "\nnote"},
        "data": {"S": '{"\\u001b[31m\u2028key\x9b": ["\\u001b[2J", "\x9b31m"]}'},
    }
    put(Order, item)


def test_no_command_lets_stored_text_reach_the_terminal(store: StoppedClock, tmp_path: Path) -> None:
    time = store.now().strftime("%Y-%m-%dT%H:%M:%S.%f+0000")
    for task_id, status in STATES.items():
        put_hostile(task_id, status, time)
    store.advance(timedelta(hours=1))
    path = tmp_path / "orders.jsonl"
    path.write_text('{"task_id": "\\u001b[2J\u2028", "note": "\\u009b31m", "amount": "\\u001b[2J"}\n')
    states = ("pay.pending", "pay.in_progress", "pay.failed", "pay.ignored", "unknown.77", "ship.succeeded")
    for arguments in (
        ("status",),
        *(("list", state) for state in states),
        *(("list", state, "--json") for state in states),
        *(("show", EVIL + task_id) for task_id in STATES),
        ("show", EVIL + "bad", "--json"),
        ("errors",),
        ("errors", "--json"),
        ("stuck",),
        ("export",),
        ("load", str(path)),
        ("run", "pay", "tests.cli.shop:refuse", "--dry-run"),
        ("run", "pay", "tests.cli.shop:refuse"),
        ("retry", "pay", "tests.cli.shop:refuse", "--dry-run", "--reopen-ignored"),
        ("reopen", "pay", EVIL + "out"),
        ("ignore", "pay", EVIL + "out", "--reason", EVIL),
        ("ignore", "pay", EVIL + "nobody", "--reason", EVIL),
        ("create", EVIL + "new", f"note={EVIL}"),
        ("create", EVIL + "new"),
        ("unlock", EVIL + "busy", "--reason", EVIL, "--by", EVIL, "--worker", EVIL),
        ("stuck", "--all"),
        ("run", "pay", "tests.cli.shop:refuse", EVIL + "bad", EVIL + "nobody", "--threads", "1"),
        ("delete", EVIL + "done", "--yes"),
        ("worker", "pay=tests.cli.shop:refuse", "--until-idle"),
    ):
        ended = run(*arguments, TERM="xterm-256color")
        found = {each for each in ended.out + ended.err if not each.isprintable()} - {"\n"}
        assert not found, (arguments, found)


@pytest.mark.usefixtures("store")
def test_the_name_of_a_group_adds_no_line_to_what_is_shown() -> None:
    name = "vip\n  next  nothing: it is done\x1b[2J"
    Order.create_many({"task_id": task_id, "group": name} for task_id in ("o-1", "o-2"))
    Order.pay.ignore("o-1", reason="x")
    for arguments in (("show", "o-2"), ("show", "o-1"), ("group", name), ("reopen", "o-1"), ("list", "--waiting")):
        out = run(*arguments).out
        assert "vip" in out
        assert not [line for line in out.splitlines() if line.startswith("  next  nothing")]


@pytest.mark.usefixtures("store")
def test_the_name_of_an_answer_adds_no_line_to_what_is_shown() -> None:
    Order.create("o-1")
    signal = {"value": {"S": "1"}, "time": {"S": "2026-01-01T00:00:00.000000+0000"}, "token": {"S": "0"}}
    lines = len(run("show", "o-1").lines)
    change(Order, "o-1", signals={"M": {"paid\nERROR forged": {"M": signal}}})
    shown = run("show", "o-1").lines
    assert len(shown) == lines + 1
    assert [line for line in shown if line.startswith("  paid\\nERROR forged ")]


def test_text_that_no_command_has_escaped_is_escaped_by_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    say(Text.assemble((EVIL, "red"), "\n", EVIL))
    assert not {each for each in capsys.readouterr().out if not each.isprintable()} - {"\n"}


def test_the_title_and_the_note_of_a_bar_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr", screen)
    with progress("[red]x[/red]", 2) as shown:
        shown.show(1, f"[bold]1{EVIL}[/bold]")
    assert "[red]x[/red]" in screen.text
    assert r"[bold]1\x1b[2J" in screen.text
    assert not {"\x07", "\x9b", "\u202e"} & set(screen.text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\U0001f469\u200d\U0001f680", "\U0001f469\u200d\U0001f680"),
        ("o\u200d1", "o\\u200d1"),
        ("\U0001f469\u200d1\x1b", "\U0001f469\\u200d1\\x1b"),
    ],
)
def test_a_joiner_is_kept_between_two_emoji_only(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_long_id_leaves_a_third_of_the_terminal_to_the_error() -> None:
    screen = Screen()
    with mock.patch.dict(os.environ, {"COLUMNS": "80", "TERM": "xterm"}), mock.patch.object(sys, "stdout", screen):
        print_table(("task", "attempt", "age", "due", "error"), [["x" * 120, "1", "2h", "in 30m", "E" * 200]])
    assert screen.text.splitlines()[1].count("E") >= 80 // 3 - 2


def test_ids_for_other_commands_are_as_they_are_but_cannot_steer_a_terminal(store: StoppedClock) -> None:
    Order.create_many({"task_id": task_id, "state": Order.pay.failed} for task_id in ("o-1\x1b[2J", "two\nlines"))
    store.advance(timedelta(seconds=1))
    screen = Screen()
    run_on("reopen", "pay.failed", "--dry-run", stdout=screen)
    assert sorted(screen.text.splitlines()) == [r"o-1\x1b[2J", r"two\nlines"]
    assert sorted(run("reopen", "pay.failed", "--dry-run").lines) == ["o-1\x1b[2J", r"two\nlines"]
