"""The demo on dynoxide: real processes die, others take over, and nothing is left behind."""

import io
import re
import socket
import threading
from pathlib import Path

import pytest
from rich.console import Console

from pynamodb_tracker.demo import session
from pynamodb_tracker.demo.session import run

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("dynoxide")]


def test_a_worker_process_dies_and_another_finishes_its_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "WORKERS", 2)
    path, out = tmp_path / "orders.csv", io.StringIO()
    path.write_text("order_id,order_status\na1,delivered\nc1,canceled\nn1,created\n")
    assert run(Console(file=out), file=path, server=True)
    assert ", and in 1 the worker died.\nAnother worker took over each time.\n" in out.getvalue()
    assert_server_has_ended(out)


def test_a_demo_that_is_stopped_ends_its_worker_and_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WORKERS", 1)  # a thread of this process
    stopped, out = threading.Event(), io.StringIO()
    monkeypatch.setattr(session.Screen, "show", lambda *_: stopped.set())
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run(Console(file=out), stopped, count=4, server=True)
    assert threading.active_count() == before
    assert_server_has_ended(out)


def assert_server_has_ended(out: io.StringIO) -> None:
    [port] = re.findall(r"at http://127\.0\.0\.1:(\d+), \d worker processes\n", out.getvalue())
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", int(port))) != 0
