"""The demo against a real server: real processes die, others take over, and nothing is left behind."""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pynamodb_tracker.demo.accidents import Accidents
from pynamodb_tracker.demo.pipeline import DemoTask, Order
from pynamodb_tracker.demo.processes import Processes
from pynamodb_tracker.demo.server import ServerError, Setup, demo_table
from tests.demo.command import ran, started
from tests.engine.dynamodb_local import Engine

pytestmark = pytest.mark.race

MANY = 400
"""Orders that keep the workers busy until the test has seen them."""


@pytest.fixture
def setup(dynamodb_local: Engine) -> Iterator[Setup]:
    """Yield a table's name that nobody has; the table is gone afterwards, whatever the test left.

    DynamoDB Local keeps tables apart by access key: these are the ones that the demo takes without any.
    """
    setup = Setup(dynamodb_local.endpoint, f"demo-{secrets.token_hex(4)}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "demo")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "demo")
        yield setup
        with setup.connected():
            if DemoTask.exists():
                DemoTask.delete_table()


def arguments(setup: Setup, *more: str) -> tuple[str, ...]:
    return ("demo", "--endpoint-url", setup.endpoint_url, "--table-name", setup.table_name, *more)


def test_worker_processes_die_and_others_finish_their_orders(setup: Setup) -> None:
    result = ran(*arguments(setup, "--count", "20", "--workers", "3"))
    assert (result.returncode, result.stderr) == (0, "")
    assert "as the orders say: yes" in result.stdout
    died = re.search(r"(\d+) worker processes died in the middle", result.stdout)
    taken_over = re.search(r"Taken over: (\d+) runs", result.stdout)
    assert died is not None
    assert taken_over is not None
    assert int(taken_over[1]) >= int(died[1]) >= 5  # the order that crashes all its workers, and one accident
    with setup.connected():
        assert not DemoTask.exists()


def test_the_table_is_left_only_when_asked_for(setup: Setup) -> None:
    result = ran(*arguments(setup, "--count", "2", "--workers", "1", "--keep"))
    assert f"the table {setup.table_name} is left there" in result.stdout
    with setup.connected():
        assert sum(Order.counts().values()) == 2


def test_a_table_that_is_there_already_is_refused_and_left_alone(setup: Setup) -> None:
    with setup.connected():
        DemoTask.create_table(wait=True)
        Order.create("mine", order_status="created")
    result = ran(*arguments(setup, "--count", "2"))
    assert result.returncode == 2
    assert f"the table {setup.table_name!r} is there already" in result.stderr
    with setup.connected():
        assert Order.get_task("mine").state == Order.confirm_payment.pending


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_ends_the_workers_and_deletes_the_table(setup: Setup) -> None:
    with started(*arguments(setup, "--count", str(MANY))) as process:
        workers = pids_of_workers(setup)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert all(has_ended(pid) for pid in workers)
    with setup.connected():
        assert not DemoTask.exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_workers_end_when_the_demo_itself_is_killed(setup: Setup) -> None:
    with started(*arguments(setup, "--count", str(MANY))) as process:
        workers = pids_of_workers(setup)
        process.kill()
        process.communicate(timeout=60)
    assert all(has_ended(pid) for pid in workers)


def test_a_worker_that_breaks_ends_the_demo_and_says_why(setup: Setup, capfd: pytest.CaptureFixture[str]) -> None:
    elsewhere = Setup("http://127.0.0.1:9", setup.table_name)
    with setup.connected():
        DemoTask.create_table(wait=True)
        Order.create("a1", order_status="delivered")
        told = pytest.raises(ServerError, match="a worker process ended by itself, with exit code 1")
        with Processes(1, Accidents({}), elsewhere).at_work() as crew, told:
            crew.work_off(lambda _counts: None)
    assert "127.0.0.1:9" in capfd.readouterr().err


def test_access_keys_that_are_set_up_are_used(setup: Setup) -> None:
    with setup.connected():
        assert DemoTask.Meta.aws_access_key_id is None
        assert DemoTask.Meta.host == setup.endpoint_url
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
        with Setup(url, "some").connected():
            assert DemoTask.Meta.aws_access_key_id == key


def test_a_table_that_cannot_be_deleted_is_told_beside_the_error_itself(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = demo_table(setup, keep=False)
    with pytest.raises(ServerError) as caught, table:  # noqa: PT012 - the block is what goes wrong
        monkeypatch.setattr(DemoTask.Meta, "host", "http://127.0.0.1:9")
        DemoTask.tracker.table.reconnect()
        Order.counts()
    assert "127.0.0.1:9" in str(caught.value)
    assert any(f"the table {setup.table_name} could not be deleted" in note for note in caught.value.__notes__)
    monkeypatch.undo()


def pids_of_workers(setup: Setup) -> set[int]:
    """Return the processes that have claimed orders, as soon as there are some: a row says who claimed it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with setup.connected():
            if DemoTask.exists() and sum(Order.counts().values()) == MANY:
                rows = [row for state, number in Order.counts().items() if number for row in state.query(limit=100)]
                if pids := {int(row.worker.rpartition(":")[2]) for row in rows if row.worker}:
                    return pids
        time.sleep(0.2)
    raise AssertionError("no worker claimed an order")


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone, within the time that it has for the order in its hands."""
    for _ in range(100):
        if not is_running(pid):
            return True
        time.sleep(0.1)
    return False


def is_running(pid: int) -> bool:
    """Tell whether a process is there; a dead one that nobody has waited for, in a container without init, is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
