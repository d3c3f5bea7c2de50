"""The command: what it exits with, and what it says when it cannot run."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from pynamodb_tracker.__main__ import main
from pynamodb_tracker.cli import app
from pynamodb_tracker.cli.commands.set_up import _Demo
from pynamodb_tracker.demo import kill, session
from tests.demo.command import ran


def test_python_m_runs_the_demo_without_credentials_and_exits_with_0() -> None:
    result = ran("demo", "--count", "1")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("1 generated orders, in memory, 4 threads\n")
    assert result.stdout.endswith("\n1 of 1 orders ended where they should.\n")


def test_a_missing_package_is_reported_in_one_line_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pynamodb-tracker", "demo"])
    monkeypatch.setitem(sys.modules, "moto", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr() == (
        "",
        "pynamodb-tracker needs moto, which is not installed: pip install 'PATH-OF-THE-CLONE[cli,local]'\n",
    )


def test_a_bad_file_is_reported_by_line_and_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("order_id,order_status\na1,no\na2,created\na2,created\n")
    result = CliRunner().invoke(app, ["demo", "--orders", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == [f"{path}:2", f"{path}:4"]


@pytest.mark.parametrize(("scene", "module"), [("orders", session), ("kill", kill)])
@pytest.mark.parametrize("is_as_expected", [True, False])
def test_the_exit_code_says_whether_all_is_as_it_should_be(
    monkeypatch: pytest.MonkeyPatch,
    scene: str,
    module: ModuleType,
    is_as_expected: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    monkeypatch.setattr(module, "run", lambda *_, **__: is_as_expected)
    assert CliRunner().invoke(app, ["demo", "--scene", scene]).exit_code == (0 if is_as_expected else 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--orders", "some.csv", "--count", "5"], "--count"),
        (["--count", "0"], "--count"),
        (["--scene", "kill", "--count", "5"], "--scene kill"),
        (["--scene", "kill", "--orders", "some.csv"], "--scene kill"),
        (["--scene", "kill", "--server"], "--scene kill"),
        (["--scene", "kill", "--web"], "--scene kill"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_2(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_missing_dynoxide_is_one_line_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DYNOXIDE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "--server"])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("dynoxide is not on the PATH. Run `npm install --global dynoxide`, download it from ")


def test_the_command_alone_lists_the_demo() -> None:
    assert "demo" in CliRunner().invoke(app, []).output


@pytest.mark.parametrize(
    ("server", "is_over", "text"),
    [
        (True, False, "Stopping: the workers finish their tasks. Ctrl-C again stops at once.\n"),
        (True, True, ""),
        (False, False, ""),
    ],
    ids=["on a server", "after its end", "in memory"],
)
def test_a_demo_that_is_stopped_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str],
    server: bool,  # noqa: FBT001 - a column of a table
    is_over: bool,  # noqa: FBT001 - the same
    text: str,
) -> None:
    demo = _Demo(server=server)
    demo.is_over = is_over
    demo.report_waiting()
    assert capsys.readouterr().out == text
    demo.report_left()
    assert capsys.readouterr().err == "Stopped at once.\n"
