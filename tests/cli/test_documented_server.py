"""The page about developing locally: its programs share one table in a file, which survives a restart."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pynamodb_tracker.cli import app
from tests.cli.command import run
from tests.support.pages import ROOT, Page
from tests.support.processes import until

PAGE = Page(ROOT / "docs" / "how-to" / "develop-locally.md")
CLASSES, *_ = (block.text for block in PAGE.blocks() if block.language == "python")


@pytest.fixture
def page(dynoxide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the page with free ports, and be in a folder with its module and in its environment."""
    text = PAGE.path.read_text(encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as database, socket.create_server(("127.0.0.1", 0)) as web:
        text = text.replace("8000", str(database.getsockname()[1])).replace("8642", str(web.getsockname()[1]))
    (tmp_path / "shop.py").write_text(CLASSES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", str(Path(dynoxide).parent), prepend=os.pathsep)
    monkeypatch.delenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", raising=False)
    for name, value in re.findall(r"(\w+)=(\S+)", "\n".join(re.findall(r"^export (.+)", text, re.MULTILINE))):
        monkeypatch.setenv(name, value)
    yield text
    del sys.modules["shop"]


def test_every_command_of_the_page_prints_what_the_page_shows(page: str) -> None:
    shown = [block.splitlines() for block in re.findall(r"^```console\n\$ (.+?)\n```", page, re.MULTILINE | re.DOTALL)]
    assert [shlex.split(command)[:2] for command, *_ in shown] == [
        ["dynoxide", "--db-path"],
        ["pynamodb-tracker", "create-table"],
        ["pynamodb-tracker", "worker"],
        ["pynamodb-tracker", "web"],
        ["python", "-c"],
        ["pynamodb-tracker", "status"],
        ["pynamodb-tracker", "list"],
    ]
    start, create_table, worker, web, create, status, list_succeeded = shown
    with ExitStack() as stack:
        database = stack.enter_context(running_database(*start))
        assert printed_by(create_table) == create_table[1:]
        stack.enter_context(running_in_fork(*worker))
        stack.enter_context(running_in_fork(f"{web[0]} --port {urlsplit(web[1]).port}", web[1].partition("=")[0]))
        exec(shlex.split(create[0])[2])  # noqa: S102 - our own page
        until(lambda: printed_by(status) == status[1:])

        database.send_signal(signal.SIGINT)
        database.wait()
        stack.enter_context(running_database(*start))
        assert [line.split()[0] for line in printed_by(list_succeeded)] == ["task", "o-1"]


def printed_by(shown: Sequence[str]) -> list[str]:
    return run(*shlex.split(shown[0])[1:], of="shop:AppTask").lines


@contextmanager
def running_database(command: str, says: str) -> Iterator[subprocess.Popen[str]]:
    """Run the database until the block ends, and wait for its first line."""
    with subprocess.Popen(shlex.split(command), stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            assert process.stderr is not None
            assert process.stderr.readline().rstrip() == says
            yield process
        finally:
            process.terminate()


@contextmanager
def running_in_fork(command: str, says: str) -> Iterator[None]:
    """Run a command of the package in a process until the block ends, and wait for a line that begins like this."""
    output = Path(f"{shlex.split(command)[1]}.txt")
    process = get_context("fork").Process(target=write_to, args=(output, shlex.split(command)[1:]))
    process.start()
    try:
        until(lambda: output.exists() and re.search(f"^{re.escape(says)}", output.read_text(), re.MULTILINE))
        yield
    finally:
        process.terminate()
        process.join()
    assert process.exitcode in {0, 128 + signal.SIGTERM}, output.read_text()


def write_to(output: Path, arguments: Sequence[str]) -> None:
    with output.open("w", buffering=1) as sys.stdout:
        sys.stderr = sys.stdout
        app(arguments)
