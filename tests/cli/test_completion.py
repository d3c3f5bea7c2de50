"""What a shell completes."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from pynamodb_tracker import cli
from pynamodb_tracker.cli import app, build_app

STATUSES = ("pending", "in_progress", "failed", "succeeded", "ignored")


def completed(line: str, of: str = "tests.cli.shop:Order") -> list[str]:
    words = line.split(" ")
    variables = {
        "_PYNAMODB_TRACKER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "PYNAMODB_TRACKER_APP": of,
    }
    return CliRunner().invoke(app, [], prog_name="pynamodb-tracker", env=variables).stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pynamodb-tracker re", ["retry", "reopen", "resume"]),
        ("pynamodb-tracker run ", ["pay", "ship"]),
        ("pynamodb-tracker reopen s", ["ship"]),
        ("pynamodb-tracker worker s", ["ship"]),
        ("pynamodb-tracker list ship.", [f"ship.{status}" for status in STATUSES]),
        ("pynamodb-tracker export pay.f", ["pay.failed"]),
        ("pynamodb-tracker status --use-case ", ["invoice", "order"]),
        ("pynamodb-tracker list --app tests.cli.shop:Letter send.p", ["send.pending"]),
    ],
)
def test_commands_steps_states_and_use_cases_are_completed(line: str, words: list[str]) -> None:
    assert completed(line, of="tests.cli.shop:StoreTask" if "--use-case" in line else "tests.cli.shop:Order") == words


@pytest.mark.parametrize("of", ["", "no.such:Class", "nonsense"])
def test_without_a_class_nothing_is_completed_and_nothing_is_printed(of: str) -> None:
    assert completed("pynamodb-tracker run ", of=of) == []


def names_of(words: list[str]) -> list[str | None]:
    return [command.name for command in build_app(words).registered_commands]


def test_only_the_named_command_is_imported_and_all_if_none_is() -> None:
    assert names_of(["list", "ship.failed"]) == ["list"]
    assert names_of(["--version"]) == names_of(["lst"]) == names_of([])
    assert len(names_of([])) > 20


@pytest.mark.parametrize(
    ("variable", "line", "words"),
    [
        ("COMP_WORDS", "pynamodb-tracker run ", ["run"]),
        ("COMP_WORDS", "pynamodb-tracker run sh", ["run"]),
        ("_TYPER_COMPLETE_ARGS", "pynamodb-tracker create", []),
    ],
)
def test_a_shell_that_completes_a_line_names_the_command_in_a_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, line: str, words: list[str]
) -> None:
    found: list[list[str]] = []

    def build(words: list[str]) -> Callable[[], None]:
        found.append(words)
        return lambda: None

    monkeypatch.setattr(cli, "build_app", build)
    monkeypatch.setattr("sys.argv", ["pynamodb-tracker", "status", "--json"])
    monkeypatch.setenv(variable, line)
    cli.run_command_line()
    monkeypatch.setenv("_PYNAMODB_TRACKER_COMPLETE", "complete_bash")
    cli.run_command_line()
    assert found == [["status", "--json"], words]
