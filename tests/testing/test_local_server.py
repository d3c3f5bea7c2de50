"""`local_server`: a table that several processes share, in memory or in a file, and why it cannot start."""

import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.testing import LocalServer, LocalServerError, local_server, local_table
from pynamodb_tracker.testing.server import Server
from tests.support.processes import until
from tests.support.shop import AppTask, Order

TASKS = 40
HOW_TO_GET_IT = (
    "Run `npm install --global dynoxide`, download it from https://github.com/nubo-db/dynoxide/releases, or build it: "
    "cargo install dynoxide-rs --version 3.2.0 --no-default-features --features native-sqlite,http-server,cli"
)


@pytest.fixture
def file(dynoxide: str, tmp_path: Path) -> Path:
    """Return the path of a new file. The dynoxide fixture sees to it that there is a server."""
    assert dynoxide
    return tmp_path / "orders.sqlite"


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def set_host(host: str | None) -> None:
    """Connect to a host. None is the one of the environment, as in a program that does not know the address."""
    meta: Any = AppTask.Meta
    meta.host = host
    AppTask.tracker.table.reconnect()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    set_host(None)


def run_in_fork(done: Path, *others: Path) -> int:
    """Confirm payments in a forked process until none is left, and write each id to a file. Return its process id.

    Each process waits until the others have begun, too.
    """

    def confirm(ctx: ExecutionContext[Order]) -> None:
        with done.open("a") as lines:
            lines.write(f"{ctx.task.task_id}\n")
        until(lambda: all(path.exists() for path in others))

    if (child := os.fork()) == 0:
        code = 1
        try:
            set_host(None)
            while Order.confirm_payment.run_all(confirm, threads=2).succeeded:
                pass
            code = 0
        finally:
            os._exit(code)
    return child


def test_processes_share_the_tasks_and_a_restart_has_them_all(file: Path, tmp_path: Path) -> None:
    done = [tmp_path / "0", tmp_path / "1"]
    with local_server(Order, path=file):
        Order.create_many({"task_id": f"o-{number}"} for number in range(TASKS))
        children = [run_in_fork(path, *done) for path in done]
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]

    assert sorted("".join(path.read_text() for path in done).split()) == sorted(f"o-{n}" for n in range(TASKS))
    with local_server(Order, path=file):
        assert Order.counts()[Order.ship.pending] == TASKS
    assert [path.name for path in tmp_path.iterdir() if path not in done] == ["orders.sqlite"]  # it was closed


def test_tables_without_a_file_are_empty_each_time(dynoxide: str, local_server: LocalServer) -> None:
    assert dynoxide
    first = local_server(AppTask)
    Order.create("o-1")
    assert first != local_server(AppTask)
    Order.create("o-1")


def test_classes_and_environment_are_as_before_at_the_end(dynoxide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dynoxide
    set_host("http://127.0.0.1:9")
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        monkeypatch.setenv(name, "nowhere")
    before = dict(os.environ)

    with local_server(AppTask) as endpoint:
        Order.create("o-1")
        set_host(None)
        assert Order.get_task("o-1").state == Order.confirm_payment.pending
        assert AppTask.tracker.connection().connection.client.meta.endpoint_url == endpoint

    assert dict(os.environ) == before
    monkeypatch.delenv("AWS_PROFILE")  # which is not there
    monkeypatch.delenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
    assert AppTask.tracker.connection().connection.client.meta.endpoint_url == "http://127.0.0.1:9"


@pytest.fixture
def killed(dynoxide: str) -> Iterator[int]:
    """Start a server in a process that is then killed while a process that it has forked lives. Yield its port."""
    assert dynoxide
    from_child, to_test = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with local_server(AppTask) as endpoint:
                grandchild = os.fork()
                signal.alarm(60)  # whatever happens to the test
                if grandchild:
                    os.write(to_test, f"{urlsplit(endpoint).port} {grandchild}\n".encode())
                signal.pause()
        finally:
            os._exit(1)
    os.close(to_test)
    with os.fdopen(from_child) as lines:
        port, grandchild = map(int, lines.readline().split())
        assert is_listening(port)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        yield port
        os.kill(grandchild, signal.SIGKILL)
        assert not lines.read()  # once the grandchild is gone


def test_the_server_ends_when_its_parent_is_killed_although_a_forked_worker_lives(killed: int) -> None:
    assert until(lambda: not is_listening(killed), timeout=30)


def test_the_given_port_is_used_and_another_program_there_is_reported(dynoxide: str) -> None:
    assert dynoxide
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LocalServerError) as error, local_server(AppTask, port=port):
            pass
    assert str(error.value) == f"port {port} is already in use. Stop its program, or choose another port."

    with local_server(AppTask, port=port) as endpoint:
        assert endpoint == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("port", [99_999, -1, "8000"])
def test_a_number_that_is_no_port_is_refused(port: Any) -> None:
    with pytest.raises(ValueError, match=f"^port must be a whole number from 0 to 65,535, not {port!r}$"):
        Server("dynoxide", port=port)


def test_a_file_that_another_server_has_open_is_reported(file: Path) -> None:
    with (
        local_server(AppTask, path=file),
        pytest.raises(LocalServerError, match=f"^another process has {file} open") as error,
        local_server(AppTask, path=file),
    ):
        pass
    assert str(error.value).endswith("Stop it, or connect to it by AWS_ENDPOINT_URL_DYNAMODB instead.")


def test_a_file_that_is_not_a_database_is_reported_and_left_as_it_is(file: Path) -> None:
    file.write_text("order_id,order_status\n" * 100)
    with pytest.raises(LocalServerError) as error, local_server(AppTask, path=file):
        pass
    assert str(error.value) == f"{file} is not a dynoxide database. Give the path of a new file."
    assert file.read_text() == "order_id,order_status\n" * 100


def test_the_database_of_another_program_is_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE invoices (id)")
    before = file.read_bytes()
    with pytest.raises(LocalServerError, match="is not a dynoxide database"), local_server(AppTask, path=file):
        pass
    assert file.read_bytes() == before


def test_any_other_complaint_of_the_server_is_passed_on(file: Path) -> None:
    path = file / "tables.sqlite"
    with (
        pytest.raises(LocalServerError, match=f"^dynoxide did not start: .*unable to open database file: {path}$"),
        local_server(AppTask, path=path),
    ):
        pass


@pytest.mark.parametrize(
    ("variable", "complaint"),
    [(None, "dynoxide is not on the PATH. "), ("/no/dynoxide", "DYNOXIDE=/no/dynoxide is not a program. ")],
)
def test_a_missing_server_is_reported_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None, complaint: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DYNOXIDE", raising=False)
    if variable:
        monkeypatch.setenv("DYNOXIDE", variable)

    with pytest.raises(LocalServerError) as error, local_server(AppTask):
        pass

    assert str(error.value) == f"{complaint}{HOW_TO_GET_IT}"


def test_a_table_in_memory_stays_there_when_it_connects_anew() -> None:
    with local_table(AppTask):
        AppTask.tracker.table.reconnect()
        assert AppTask.tracker.table.is_in_memory


def test_a_class_that_is_not_of_tasks_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^local_server takes a class of tasks, not .*write local_server\(AppTask\)"):
        local_server(Path).__enter__()  # type: ignore[arg-type]
