"""The command: what it exits with, and what it says when it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pynamodb_tracker.cli import app
from pynamodb_tracker.cli.commands.set_up import Scene, _Demo
from pynamodb_tracker.demo import session, summary
from pynamodb_tracker.demo.session import Options
from tests.demo.command import ran


def test_python_m_runs_the_demo_without_credentials_and_exits_with_0() -> None:
    result = ran("demo", "--count", "3")
    assert (result.returncode, result.stderr) == (0, "")
    assert "3 generated orders, in memory, 4 worker threads" in result.stdout
    assert "as the orders say: yes" in result.stdout


@pytest.mark.parametrize("package", ["typer", "moto"])
def test_a_missing_package_is_reported_in_one_line_with_what_to_install(package: str) -> None:
    result = ran("demo", "--count", "2", missing=[package])
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"pynamodb-tracker needs {package}, which is not installed: pip install 'PATH-OF-THE-CLONE[cli,local]'\n"
    )


def test_a_bad_file_is_reported_by_line_and_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("order_id,order_status\na1,no\na2,created\na2,created\n")
    result = CliRunner().invoke(app, ["demo", "--orders", str(path)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == [f"{path}:2", f"{path}:4"]


def test_an_outcome_that_is_not_as_it_should_be_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PIPELINE", ())
    monkeypatch.setattr(summary, "_INDEX_LAG", 0)
    result = CliRunner().invoke(app, ["demo", "--count", "3"])
    assert result.exit_code == 1
    assert "as the orders say: no" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--orders", "some.csv", "--count", "5"], "--count"),
        (["--keep"], "--keep"),
        (["--table-name", "mine"], "--table-name"),
        (["--endpoint-url", "localhost:8000"], "http://HOST:PORT"),
        (["--endpoint-url", "http://"], "http://HOST:PORT"),
        (["--endpoint-url", "http://host:port"], "http://HOST:PORT"),
        (["--count", "0"], "--count"),
        (["--workers", "0"], "--workers"),
        (["--scene", "nights", "--count", "5"], "--count"),
        (["--scene", "kill", "--endpoint-url", "http://localhost:8000"], "--endpoint-url"),
        (["--scene", "kill", "--server"], "--server"),
        (["--server", "--endpoint-url", "http://localhost:8000"], "--server"),
        (["--server", "--keep"], "--keep"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_2(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_server_that_does_not_answer_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    result = CliRunner().invoke(app, ["demo", "--endpoint-url", "http://127.0.0.1:9"])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("http://127.0.0.1:9: ")
    assert "onnect" in line


def test_a_missing_dynoxide_is_reported_in_one_line_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DYNOXIDE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "--server"])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("dynoxide is not on the PATH. Run `npm install --global dynoxide`, download it from ")


def test_the_command_alone_lists_the_demo() -> None:
    assert "demo" in CliRunner().invoke(app, []).output


@pytest.mark.parametrize(
    ("endpoint_url", "is_over", "server", "text"),
    [
        (None, False, False, "left at once\n"),
        ("http://localhost:1", False, False, "left at once: the table of the demo may still be on the server\n"),
        ("http://localhost:1", True, False, "left at once\n"),
        ("http://localhost:1", False, True, "left at once\n"),
    ],
    ids=["in memory", "on a server", "after its end", "on its own server"],
)
def test_a_demo_that_is_left_at_once_names_a_table_only_where_one_may_be(
    capsys: pytest.CaptureFixture[str],
    endpoint_url: str | None,
    is_over: bool,  # noqa: FBT001 - a column of a table
    server: bool,  # noqa: FBT001 - the same
    text: str,
) -> None:
    demo = _Demo(Scene.ORDERS, Options(endpoint_url=endpoint_url), None, server=server)
    demo.is_over = is_over
    demo.report_left()
    assert capsys.readouterr().err == text
