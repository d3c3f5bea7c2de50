"""Commands in a real terminal, at 80 and at 140 columns, with and without colour, and in a pipe."""

import os
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
from rich.cells import cell_len

from tests.cli.command import APP, Screen, run_on
from tests.cli.server import Environment, on_server
from tests.cli.shop import Order, stalling, waver
from tests.demo.command import environment
from tests.engine.engine import Engine
from tests.support.forked import Forked
from tests.support.pages import ROOT
from tests.support.processes import until

pytestmark = pytest.mark.usefixtures("server")

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

WAVER = "tests.cli.shop:waver"
LONG = "bad-" + "x" * 100

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OF_A_TERMINAL = {"COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"}
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def server(dynamodb: Engine) -> Iterator[Environment]:
    with on_server(dynamodb) as environment:
        Order.create_many([*(f"bad-{n}" for n in range(8)), LONG, "lost-\x1b[31m", "bad-日本語日本語"])
        Order.pay.run_all(waver)
        Order.create_many(f"good-{n}" for n in range(5))
        yield environment


def variables(server: Environment, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in environment().items() if name not in _OF_A_TERMINAL}
    return {**kept, **server, "TERM": "xterm-256color", **more}


def begun(
    server: Environment, columns: int, *arguments: str, lines: int = 40, **more: str
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command in a terminal of that size, and return what reads what the terminal is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = Forked(
        ["pynamodb_tracker", *arguments],
        cwd=ROOT,
        env=variables(server, **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def sent(ours: int) -> str:
    """Return what the terminal is sent until the other end is closed."""
    parts = bytearray()
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            parts += part
    os.close(ours)
    return parts.decode().replace("\r\n", "\n")


def shown(server: Environment, columns: int, *arguments: str, **more: str) -> str:
    process, ours = begun(server, columns, *arguments, lines=40, **more)
    text = sent(ours)
    process.wait(timeout=60)
    return text


def drawn(columns: int, *arguments: str, **more: str) -> str:
    """Return what a terminal of that width is sent by a command in this process, which needs no signals."""
    screen = Screen()
    run_on(*arguments, stdin=None, stdout=screen, of=APP, TERM="xterm-256color", COLUMNS=str(columns), **more)
    return screen.text


def piped(*arguments: str, encoding: str = "utf-8") -> str:
    pipe = Screen(is_terminal=False, encoding=encoding)
    run_on(*arguments, stdout=pipe)
    return pipe.text


TABLES = [("status",), ("list", "pay.failed"), ("list", "pay.pending"), ("errors",)]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
def test_tables_fit_and_cut_no_id(columns: int, arguments: tuple[str, ...]) -> None:
    text = _COLOUR.sub("", drawn(columns, *arguments))
    assert [line for line in text.splitlines() if cell_len(line) > columns] == []
    assert "\x1b" not in text
    if arguments[-1] == "pay.failed":
        assert LONG in "".join(line.split()[0] for line in text.splitlines())
        assert "bad-日本語日本語" in text
        assert "bad-7 " in text


def test_a_table_is_as_wide_as_its_terminal(server: Environment) -> None:
    narrow, wide = (shown(server, columns, "list", "pay.failed") for columns in (80, 140))
    assert "about bad-7, request" not in narrow
    assert "about bad-7, request" in wide


@pytest.mark.parametrize("arguments", [*TABLES, ("show", "bad-1")], ids=" ".join)
def test_colours_are_for_terminals_that_want_them(arguments: tuple[str, ...]) -> None:
    assert _COLOUR.search(drawn(80, *arguments))
    assert not re.search(r"\x1b\[[0-9;]*3\d", drawn(80, *arguments, NO_COLOR="1"))
    assert "\x1b" not in piped(*arguments)


def test_a_pipe_gets_whole_lines() -> None:
    lines = piped("list", "pay.failed").splitlines()
    (line,) = [line for line in lines if line.startswith(LONG)]
    assert re.search(r" now  ConnectionError: the bank did not answer about bad-x{100}, request \d+$", line)
    assert "…" not in "".join(lines)


def test_what_has_no_such_character_is_sent_its_number() -> None:
    assert r"bad-\u65e5\u672c" in piped("list", "pay.failed", encoding="ascii")
    assert "  ####" in piped("status", encoding="ascii")


def test_help_is_laid_out_for_the_terminal(server: Environment) -> None:
    text = _COLOUR.sub("", shown(server, 80, "--help"))
    assert max(map(cell_len, text.splitlines())) == 80
    assert [group for group in ("Inspect", "Run", "Manage", "Transfer", "Set up") if f"─ {group} ─" not in text] == []


def test_a_bar_shows_how_far_a_batch_is(server: Environment) -> None:
    Order.create_many(f"new-{n}" for n in range(10))
    assert "nothing to run at pay: no matching task is due" in drawn(
        100, "run", "pay", WAVER, "--error-contains", "none"
    )
    assert "nothing to run" in drawn(100, "run", "ship", WAVER)
    text = _STEERING.sub("", shown(server, 100, "run", "pay", WAVER, "--limit", "12"))
    assert re.search(r"run pay ━+ 100% 0:00:\d\d [1-9][\w, ]*(succeeded|failed)", text)
    assert re.search(r"^pay: .* in \d+s", text, re.MULTILINE)


def test_a_reader_that_has_seen_enough_ends_a_list_quietly(server: Environment) -> None:
    process = Forked(
        ["pynamodb_tracker", "export"],
        cwd=ROOT,
        env=variables(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_the_second_interrupt_leaves_a_terminal_with_its_cursor(server: Environment) -> None:
    Order.create("slow", state=Order.ship.failed)
    process, ours = begun(server, 100, "retry", "ship", "tests.cli.shop:stall", "--threads", "1")
    with process:
        until(stalling)
        process.send_signal(signal.SIGINT)
        output = b""
        while b"stopping: waiting for 1 task" not in output:
            output += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        text = output.decode() + sent(ours)
    assert process.returncode == 130
    assert "stopped at once: these tasks stay in progress" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.mark.parametrize(("hangs_up", "code"), [(True, 129), (False, 141)])
def test_a_terminal_that_is_gone_fails_no_task(server: Environment, *, hangs_up: bool, code: int) -> None:
    Order.create_many({"task_id": f"more-{n}-{code}", "state": Order.ship.pending} for n in range(40))
    done = Order.ship.succeeded.count()
    process, ours = begun(server, 100, "run", "ship", "tests.cli.shop:chatter", "--threads", "2")
    with process:
        sent_so_far = 0
        while sent_so_far < 200_000:  # as much as a task prints
            sent_so_far += len(os.read(ours, 65536))
        until(lambda: os.read(ours, 65536) and Order.ship.succeeded.count() > done)
        if hangs_up:
            process.send_signal(signal.SIGHUP)
        os.close(ours)
        process.wait(timeout=60)
    assert process.returncode == code
    assert Order.ship.failed.count() == 0
    assert Order.ship.pending.count() > 0


def test_top_redraws_until_an_interrupt_and_leaves_the_screen_as_it_was(server: Environment) -> None:
    process, ours = begun(server, 100, "top", "--every", "0.1s", lines=6)
    with process:
        output = b""
        while output.count(b"What needs you") < 3:
            output += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        text = output.decode() + sent(ours)
    assert process.returncode == 130
    assert text.rindex("\x1b[?1049l") > text.rindex("\x1b[?1049h")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
