"""The demo against a real server: real processes die, others take over, and nothing is left behind."""

from __future__ import annotations

import io
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pynamodb_tracker.cli import app
from pynamodb_tracker.demo.pipeline import DemoTask, Order, ProcessWork, Server, ServerError
from pynamodb_tracker.demo.session import Options, run
from tests.demo.command import started
from tests.engine.engine import Engine
from tests.support.processes import has_ended

pytestmark = pytest.mark.race

MANY = 60
"""Orders that keep the workers busy until the test has seen them."""


@pytest.fixture
def server(dynamodb: Engine) -> Iterator[Server]:
    """Yield a table's name that nobody has; the table is gone afterwards, whatever the test left.

    dynoxide keeps tables apart by access key: these are the ones that the demo takes without any.
    """
    server = Server(dynamodb.endpoint, f"demo-{secrets.token_hex(4)}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "demo")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "demo")
        yield server
        with server.connected():
            if DemoTask.exists():
                DemoTask.delete_table()


def arguments(server: Server, *more: str) -> tuple[str, ...]:
    return ("demo", "--endpoint-url", server.endpoint_url, "--table-name", server.table_name, *more)


def test_a_worker_process_dies_and_another_one_finishes_its_order(server: Server, tmp_path: Path) -> None:
    path, out = tmp_path / "orders.csv", io.StringIO()
    path.write_text("order_id,order_status\na1,delivered\na2,delivered\nc1,canceled\n")
    outcome = run(
        Options(path, workers=1, endpoint_url=server.endpoint_url, table_name=server.table_name), Console(file=out)
    )
    assert not outcome.differences
    assert sum(map(len, outcome.taken_over.values())) == 1
    assert "2 worker processes" in out.getvalue()
    assert "Taken over: 1 runs whose worker died (1 run again)" in out.getvalue()
    assert "as the file says: yes" in out.getvalue()
    with server.connected():
        assert not DemoTask.exists()


def test_the_demo_starts_a_server_of_its_own_and_ends_it(dynoxide: str, tmp_path: Path) -> None:
    assert dynoxide
    path = tmp_path / "orders.csv"
    path.write_text("order_id,order_status\na1,created\n")
    result = CliRunner().invoke(app, ["demo", "--server", "--workers", "2", "--orders", str(path)])
    assert result.exit_code == 0, result.stderr
    [port] = re.findall(r"at http://127\.0\.0\.1:(\d+), table \S+, 2 worker processes", result.stdout)
    assert "as the file says: yes" in result.stdout
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", int(port))) != 0


def test_the_table_is_kept_only_if_that_is_asked_for(server: Server) -> None:
    with server.table(keep=True):
        Order.create("a1", order_status="delivered")
    with server.connected():
        assert sum(Order.counts().values()) == 1


def test_a_table_that_exists_already_is_refused_and_left_alone(server: Server) -> None:
    with server.connected():
        DemoTask.create_table(wait=True)
        Order.create("mine", order_status="created")
    with pytest.raises(ServerError, match=f"the table '{server.table_name}' exists already"), server.table(keep=False):
        pass
    with server.connected():
        assert Order.get_task("mine").state == Order.confirm_payment.pending


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_ends_the_workers_and_deletes_the_table(server: Server) -> None:
    with started(*arguments(server, "--count", str(MANY), "--workers", "2")) as process:
        workers = pids_of_workers(server)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "\nstopping: the workers finish what they run, then the table is deleted; " in out
    assert all(has_ended(pid) for pid in workers)
    with server.connected():
        assert not DemoTask.exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_workers_end_when_the_demo_itself_is_killed(server: Server) -> None:
    with started(*arguments(server, "--count", str(MANY), "--workers", "2")) as process:
        workers = pids_of_workers(server)
        process.kill()
        process.communicate(timeout=60)
    assert all(has_ended(pid) for pid in workers)


def test_a_worker_process_that_cannot_start_ends_the_demo(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ProcessWork, "__reduce__", lambda _work: (int, ("no number",)))
    options = Options(count=1, endpoint_url=server.endpoint_url, table_name=server.table_name)
    with pytest.raises(ServerError, match="before it began to work"):
        run(options, Console(file=io.StringIO()))
    assert "no number" in capfd.readouterr().err


def test_access_keys_that_are_set_up_are_used(server: Server) -> None:
    with server.connected():
        assert DemoTask.Meta.aws_access_key_id is None
        assert DemoTask.Meta.host == server.endpoint_url
    assert DemoTask.Meta.table_name == "pynamodb-tracker-demo"


def test_keys_are_made_up_for_a_server_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for url, key in (
        ("http://localhost:8000", "demo"),
        ("http://127.0.0.2:8000", "demo"),
        ("http://[::1]:8000", "demo"),
        ("https://dynamodb.eu-west-1.amazonaws.com", None),
        ("http://localhost.example.com:8000", None),
    ):
        with Server(url, "some").connected():
            assert DemoTask.Meta.aws_access_key_id == key


def test_a_table_that_cannot_be_deleted_is_reported_with_the_error_itself(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server.table(keep=False)
    with pytest.raises(ServerError) as caught, table:  # noqa: PT012 - the block is what goes wrong
        monkeypatch.setattr(DemoTask.Meta, "host", "http://127.0.0.1:9")
        DemoTask.tracker.table.reconnect()
        Order.counts()
    assert "127.0.0.1:9" in str(caught.value)
    assert any(f"the table {server.table_name} could not be deleted" in note for note in caught.value.__notes__)
    monkeypatch.undo()


def pids_of_workers(server: Server) -> set[int]:
    """Return the processes that have claimed orders, as soon as there are some: a row says who claimed it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with server.connected():
            if DemoTask.exists() and sum(Order.counts().values()) == MANY:
                rows = [row for state, number in Order.counts().items() if number for row in state.query(limit=100)]
                if pids := {int(row.worker.rpartition(":")[2]) for row in rows if row.worker}:
                    return pids
        time.sleep(0.2)
    raise AssertionError("no worker claimed an order")
