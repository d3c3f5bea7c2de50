"""Exit codes, and errors in one line: no command prints a traceback for what is not its own fault."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber
from pynamodb.exceptions import QueryError

from pynamodb_tracker.__main__ import main
from pynamodb_tracker.presentation.errors import one_line
from tests.cli.command import APP, Screen, run, run_on
from tests.cli.server import ended, on_server, started
from tests.cli.shop import EmptyTask, Order, StoreTask
from tests.demo.command import ran
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide

CHARGE = "tests.cli.shop:charge"

EVERY = [
    ("status",),
    ("list", "pay.failed"),
    ("show", "o-1"),
    ("errors",),
    ("stuck",),
    ("run", "pay", CHARGE),
    ("retry", "pay", CHARGE),
    ("worker", f"pay={CHARGE}"),
    ("reopen", "pay", "o-1"),
    ("ignore", "pay", "o-1", "--reason", "x"),
    ("delete", "o-1", "--yes"),
    ("load", "-"),
    ("export",),
]

COMMANDS = sorted({each[0] for each in EVERY} | {"create-table", "doctor", "demo", "size"})

every_command = pytest.mark.parametrize("arguments", EVERY, ids=[each[0] for each in EVERY])

NO_TABLE = (
    "the table does not exist: create it with pynamodb-tracker create-table, or check your credentials' "
    "region and account\n"
)
LINE = '{"task_id": "o-1"}\n'


@every_command
def test_a_table_that_is_not_there_is_reported_in_one_line(dynamodb: Engine, arguments: tuple[str, ...]) -> None:
    with Dynoxide.of([StoreTask], dynamodb.endpoint):
        StoreTask.delete_table()
        ended = run(*arguments, text=LINE)
        assert ended.code == 2
        assert ended.err == f"table {StoreTask.Meta.table_name} at {dynamodb.endpoint}: {NO_TABLE}"
        StoreTask.create_table(wait=True)


@every_command
def test_missing_credentials_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    StoreTask.tracker.table.reconnect()
    ended = run(*arguments, text=LINE)
    StoreTask.tracker.table.reconnect()
    assert ended.code == 2
    assert ended.err == (
        "table store at https://dynamodb.us-east-1.amazonaws.com: no credentials: set AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\n"
    )


@pytest.mark.usefixtures("store")
def test_a_missing_permission_is_reported_in_one_line() -> None:
    denied = ClientError(
        {
            "Error": {
                "Code": "AccessDeniedException",
                "Message": "User: x is not authorized to\nperform: dynamodb:Query",
            }
        },
        "Query",
    )
    assert one_line(QueryError("Failed to query", denied)) == (
        "AccessDeniedException: User: x is not authorized to perform: dynamodb:Query"
    )
    client = Order.tracker.connection().connection.client
    with Stubber(client) as stubber:
        stubber.add_client_error("query", "AccessDeniedException", "not authorized")
        ended = run("list", "pay.failed")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(": AccessDeniedException: not authorized\n")


def test_a_region_that_is_missing_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreTask.Meta, "region", None)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    StoreTask.tracker.table.reconnect()
    ended = run("status")
    StoreTask.tracker.table.reconnect()
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION" in ended.err


@every_command
def test_a_class_that_cannot_be_imported_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, of="nowhere:Order", text=LINE)
    assert (ended.code, ended.out) == (2, "")
    assert re.fullmatch(r"No module named 'nowhere': it is neither in .* nor installed\n", ended.err)


@pytest.mark.parametrize("arguments", [*EVERY, ("create-table",), ("doctor",)], ids=lambda each: str(each[0]))
def test_without_a_class_it_says_how_to_name_one(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, of="")
    assert ended.code == 2
    assert "--app" in ended.err


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "pay.failed", "--since", "last-week"),
        ("list", "pay.failed", "--limit", "0"),
        ("list", "pay.failed", "--limit", "99999999999999999999"),
        ("list", "pay.failed", "--limit", "9" * 5000),
        ("run", "pay", CHARGE, "--limit", "99999999999999999999"),
        ("retry", "pay", CHARGE, "--rate", "fast"),
        ("retry", "pay", CHARGE, "--threads", "0"),
        ("retry", "pay"),
        ("reopen", "pay"),
        ("unknown",),
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_wrong_arguments_exit_with_2(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "arguments", [("list", "pay.failed"), ("errors",), ("retry", "pay", CHARGE), ("export", "pay.failed")]
)
def test_an_empty_window_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, "--since", "1d", "--until", "2d")
    assert ended.code == 2
    assert re.fullmatch(r"the window is empty: --since .* is not before --until .*\n", ended.err)


def test_a_table_is_made_and_left_alone_the_second_time(dynamodb: Engine) -> None:
    with Dynoxide.of([EmptyTask], dynamodb.endpoint):
        EmptyTask.delete_table()
        table = f"table {EmptyTask.Meta.table_name} at {dynamodb.endpoint}"
        first = run("create-table", of="tests.cli.shop:EmptyTask")
        assert (first.code, first.out) == (0, f"created {table}\n")
        assert EmptyTask.exists()
        second = run("create-table", of="tests.cli.shop:EmptyTask")
        assert (second.code, second.out.startswith(f"{table} already exists")) == (0, True)


def test_help_names_every_command_and_the_version_is_reported() -> None:
    text = run("--help").out
    assert [each[0] for each in EVERY if each[0] not in text] == []
    assert re.fullmatch(r"pynamodb-tracker \d+\.\d+\.\d+\n", run("--version").out)
    assert run("-h").out == text


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_is_reported_in_one_line(package: str) -> None:
    ended = ran("status", missing=[package])
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"pynamodb-tracker needs {package}, which is not installed: pip install ")


def test_help_loads_nothing_that_it_does_not_need() -> None:
    script = "import sys, pynamodb_tracker.cli; pynamodb_tracker.cli.build_app(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    needless = {"moto", "boto3", "rich.progress", "rich.live", "pynamodb_tracker.demo"}
    assert needless & set(done.stdout.split()) == set()


def test_an_interrupt_before_the_command_has_begun_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "pynamodb_tracker.cli", Interrupted("cli"))
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


@pytest.mark.parametrize(
    ("url", "words"),
    [("notaurl", "Invalid endpoint: notaurl"), ("http://localhost:99999", "Port out of range 0-65535")],
)
@pytest.mark.parametrize(
    "arguments", [("status",), ("list", "pay.failed"), ("create-table",)], ids=lambda each: each[0]
)
def test_an_endpoint_that_is_none_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], url: str, words: str
) -> None:
    monkeypatch.setattr(StoreTask.Meta, "host", url, raising=False)
    StoreTask.tracker.table.reconnect()
    ended = run(*arguments)
    StoreTask.tracker.table.reconnect()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"table store: {words}: check Meta.host and AWS_ENDPOINT_URL_DYNAMODB\n"


def test_an_endpoint_of_the_environment_that_is_none_is_reported_in_one_line() -> None:
    with started({"PYNAMODB_TRACKER_APP": APP, "AWS_ENDPOINT_URL_DYNAMODB": "notaurl"}, "status") as process:
        code, out, err = ended(process)
    assert (code, out) == (2, "")
    assert err.startswith("table store: Invalid endpoint: notaurl: check Meta.host and AWS_ENDPOINT_URL")


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


@pytest.mark.skipif(os.name == "nt", reason="POSIX file descriptors")
@pytest.mark.parametrize(
    ("line", "closed", "words"),
    [
        ("delete - --yes", [0], "stdin is closed"),
        ("export", [1], "cannot write to stdout: it is closed"),
        pytest.param("list pay.pending", [], "cannot write to stdout: No space left on device", marks=needs_full),
    ],
)
def test_streams_that_are_closed_or_full_are_reported_in_one_line(
    dynamodb: Engine, line: str, closed: list[int], words: str
) -> None:
    with on_server(dynamodb) as server, (Path(os.devnull) if closed else FULL).open("w") as stdout:
        Order.create("o-1")
        with started(server, *line.split(), closed=closed, stdout=stdout) as process:
            code, _, err = ended(process)
    assert (code, err.count("\n"), err.startswith(words)) == (2, 1, True), err


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("reopen pay -", "stdin is closed"),
        ("load -", "stdin is closed"),
        ("delete o-1", "delete asks for confirmation"),
    ],
)
def test_a_stdin_that_is_closed_is_reported_in_one_line(line: str, words: str) -> None:
    code, err = run_on(*line.split(), stdin=None, stdout=Screen())
    assert (code, err.count("\n"), err.startswith(words)) == (2, 1, True)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("line", ["list pay.pending --json", "show o-1 --json", "status --json"])
def test_json_for_a_stdout_that_is_closed_is_reported_in_one_line(line: str) -> None:
    Order.create("o-1")
    assert run_on(*line.split(), stdout=None) == (2, "cannot write to stdout: it is closed\n")


@needs_full
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("line", ["export", "status --json", "doctor"])
def test_a_stdout_that_is_full_is_reported_in_one_line(line: str) -> None:
    Order.create("o-1")
    with suppress(OSError), FULL.open("w") as full:
        assert run_on(*line.split(), stdout=full) == (2, "cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize("arguments", [("status",), ("list", "pay.failed"), ("export",)], ids=lambda each: each[0])
def test_a_file_of_the_credentials_that_is_missing_is_not_reported_as_a_stdout_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/worker")
    StoreTask.tracker.table.reconnect()
    ended = run(*arguments)
    StoreTask.tracker.table.reconnect()
    where = "table store at https://dynamodb.us-east-1.amazonaws.com"
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"{where}: FileNotFoundError: [Errno 2] No such file or directory: '/nonexistent'\n"


def test_an_error_names_the_endpoint_of_the_account_that_was_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: AWSPreparedRequest, **_: object) -> NoReturn:
        raise EndpointConnectionError(endpoint_url=request.url)

    monkeypatch.setenv("AWS_ACCOUNT_ID", "123456789012")
    StoreTask.tracker.table.reconnect()
    Order.tracker.connection().connection.client.meta.events.register("before-send.dynamodb", refuse)
    ended = run("list", "pay.failed")
    StoreTask.tracker.table.reconnect()
    assert (ended.code, ended.out, ended.err.count("https://")) == (2, "", 1)
    assert ended.err.startswith("table store at https://123456789012.ddb.us-east-1.amazonaws.com: cannot connect")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_lines_where_the_terminal_does_and_names_arguments_as_they_are(command: str) -> None:
    output = run(command, "--help", COLUMNS="300").out
    assert "[[" not in output
    assert "...}" not in output
    assert [each for each in ("<bool>", "<str>", "{", "default: (") if each in output.replace('{"a": 1}', "")] == []
    paragraphs = [line for line in output.partition("╭")[0].splitlines()[2:] if line.strip()]
    assert paragraphs
    assert [line for line in paragraphs if not line.rstrip().endswith((".", "…"))] == []
