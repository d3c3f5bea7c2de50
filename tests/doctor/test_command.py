"""The command: as a person runs it next to their own module, what it prints, and what it exits with."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pynamodb_tracker import Task
from pynamodb_tracker.cli import app
from pynamodb_tracker.doctor import Finding, Severity
from tests.cli.command import run
from tests.demo.command import WITHOUT, environment
from tests.doctor.shops import ShopTask
from tests.doctor.tables import answering, make, projecting
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.forked import Forked
from tests.support.pages import ROOT, Page

CLASSES = """
from datetime import timedelta

from pynamodb_tracker import Step, Task, UseCase

print("the module says this")


class AppTask(Task):
    class Meta:
        table_name = "tasks"
        region = "us-east-1"


class Order(AppTask):
    use_case_id = UseCase("order", keep_for=timedelta(days=30))

    ship = Step(10)
"""

IN_MEMORY = """
import atexit
from contextlib import ExitStack

from pynamodb_tracker.testing import local_table

stack = ExitStack()
stack.enter_context(local_table(AppTask))
atexit.register(stack.close)
client = AppTask.tracker.connection().connection.client
"""

WRONG = """
client.update_time_to_live(
    TableName="tasks", TimeToLiveSpecification={"Enabled": False, "AttributeName": "expire_time"}
)
"""

SHOP = "tests.doctor.shops:ShopTask"

IN_MEMORY_SHOP = "table shop at https://dynamodb.us-east-1.amazonaws.com"

HERE = "table tasks at https://dynamodb.us-east-1.amazonaws.com"

NO_CREDENTIALS = "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def looked(
    folder: Path, *arguments: str, missing: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, without the region and the access keys of the tests."""
    program = [sys.executable, "-c", WITHOUT.format(missing=list(missing))] if missing else ["pynamodb_tracker"]
    command = [*program, "doctor", *arguments]
    process: subprocess.Popen[str] = (subprocess.Popen if missing else Forked)(
        command,
        cwd=folder,
        env=environment() | {"AWS_EC2_METADATA_DISABLED": "true"} | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_a_table_with_nothing_to_say_about_and_one_with_advice_exit_with_0(described: type[Task]) -> None:
    advised = run("doctor", of=SHOP)
    assert (advised.code, advised.lines[:3]) == (0, [IN_MEMORY_SHOP, "use cases known here: Parcel", "2 advice"])
    enabled = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}
    with answering(described, table={"DeletionProtectionEnabled": True}, backups=enabled):
        right = run("doctor", of=SHOP)
    assert (right.code, right.lines[2:]) == (0, ["as the model declares it"])


def test_what_is_wrong_or_dangerous_exits_with_1(described: type[Task]) -> None:
    with answering(described, table={"Replicas": [{"RegionName": "eu-west-1"}]}):
        dangerous = run("doctor", of=SHOP)
    make(described, projecting("status"))
    wrong = run("doctor", of=SHOP)
    assert (dangerous.code, dangerous.lines[2]) == (1, "1 danger, 2 advice")
    assert (wrong.code, wrong.lines[2]) == (1, "1 wrong, 2 advice")


def test_the_page_about_it_shows_what_it_prints(tmp_path: Path) -> None:
    page = Page(ROOT / "docs" / "reference" / "doctor.md")
    (classes,) = [block.text for block in page.blocks() if block.language == "python"]
    (shown,) = [block.text for block in page.blocks() if block.language == "console"]
    protected = 'client.update_table(TableName="tasks", DeletionProtectionEnabled=True)'
    (tmp_path / "shop.py").write_text(f"{classes}\n{IN_MEMORY}\n{WRONG}\n{protected}\n")
    command, *lines = shown.splitlines()
    assert command == "$ pynamodb-tracker doctor --app shop:AppTask"
    assert looked(tmp_path, "--app", "shop:AppTask").stdout.splitlines() == lines


def test_json_is_all_that_it_prints_for_programs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CLASSES + IN_MEMORY + WRONG)
    result = looked(tmp_path, "--json", PYNAMODB_TRACKER_APP="shop:Order")
    assert (result.returncode, result.stderr) == (1, "the module says this\n")
    told = json.loads(result.stdout)
    assert (told["table"], told["endpoint"]) == ("tasks", "https://dynamodb.us-east-1.amazonaws.com")
    assert told["use_cases"] == ["Order"]
    assert [finding["severity"] for finding in told["findings"]] == ["wrong", "advice", "advice"]
    assert told["findings"][0] == {
        "severity": "wrong",
        "subject": "time to live",
        "found": "off",
        "expected": "on, by expire_time",
        "meaning": "Without it, ended tasks of Order are not deleted in time. Queries and counts hide them, but "
        "they stay in the table.",
        "to_do": "Call AppTask.update_ttl(ignore_update_ttl_errors=False).",
    }


def test_it_examines_a_table_on_a_server_and_reports_one_that_is_missing(tmp_path: Path, dynamodb: Engine) -> None:
    keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    server = keys | {"AWS_ENDPOINT_URL_DYNAMODB": dynamodb.endpoint}  # it keeps tables apart by the key
    with Dynoxide.of([ShopTask], dynamodb.endpoint):
        name = ShopTask.Meta.table_name
        (tmp_path / "shop.py").write_text(CLASSES.replace('"tasks"', f'"{name}"'))
        made = looked(tmp_path, "--app", "shop:AppTask", **server)
    missing = looked(tmp_path, "--app", "shop:AppTask", "--json", **server)

    assert made.returncode == 0
    assert made.stdout.startswith(f"table {name} at {dynamodb.endpoint}\nuse cases known here: Order\n2 advice\n")
    assert "unknown: the server does not return it" in made.stdout
    assert (missing.returncode, missing.stdout) == (2, "")
    (told,) = missing.stderr.splitlines()[1:]
    assert told == (
        f"table {name!r} at {dynamodb.endpoint} does not exist: create it with AppTask.create_table(wait=True), "
        "or use the region and the credentials of the account that has it"
    )


def test_missing_credentials_are_reported_in_one_line_and_exit_with_2(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CLASSES.replace("print", "id"))
    result = looked(tmp_path, "--app", "shop:AppTask")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"{HERE.replace('tasks', repr('tasks'))}: {NO_CREDENTIALS}\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            SHOP.replace("Task", "Tsk"),
            "the module 'tests.doctor.shops' does not define 'ShopTsk'; did you mean 'ShopTask'?",
        ),
        ("shop", "'shop' does not name a task class: write module:Class, as in shop:AppTask"),
    ],
)
def test_a_name_that_leads_nowhere_exits_with_2(name: str, words: str) -> None:
    ended = run("doctor", of=name)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{words}\n")


def test_without_a_name_it_says_how_to_give_one() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 2
    assert "--app" in result.stderr
    assert "PYNAMODB_TRACKER_APP" in CliRunner().invoke(app, ["doctor", "--help"]).output


def test_it_does_not_need_moto(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CLASSES)
    result = looked(tmp_path, "--app", "shop:AppTask", missing=["moto"])
    assert result.returncode == 2
    assert NO_CREDENTIALS in result.stderr


FINDINGS = [
    Finding(
        Severity.WRONG, "hash key", "id (S)", "task_id (S)", "DynamoDB refuses the requests. " * 5, "Take another."
    ),
    Finding(
        Severity.DANGER, "replicas", "also in eu-west-1", "none", "Two regions can hold one lock.", "Write in one."
    ),
    Finding(Severity.ADVICE, "time to live", "unknown: [bold] a\\[/] arn:aws:iam", "on", "Unknown.", "Ask."),
]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynamodb_tracker.cli.command.load_class", lambda _name: ShopTask)
    monkeypatch.setattr("pynamodb_tracker.cli.commands.set_up.examine", lambda _model: FINDINGS)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("columns", [80, 140])
def test_all_of_a_finding_can_be_read_in_a_terminal_of_any_width(columns: int) -> None:
    result = CliRunner().invoke(app, ["doctor", "--app", "shop:Task"], env={"COLUMNS": str(columns)})
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[2] == "1 wrong, 1 danger, 1 advice"
    assert max(map(len, lines)) <= columns
    assert [line for line in lines if line != line.rstrip()] == []
    text = " ".join(result.stdout.split())
    for finding in FINDINGS:
        assert all(part.strip() in text for part in astuple(finding))


@pytest.mark.usefixtures("found")
def test_a_narrow_terminal_wraps_what_it_must_and_loses_nothing() -> None:
    result = CliRunner().invoke(app, ["doctor", "--app", "shop:Task"], env={"COLUMNS": "8"})
    assert "do:     Take another." in result.stdout


@pytest.mark.usefixtures("found")
def test_the_severity_has_a_colour_in_a_terminal_and_none_in_a_pipe() -> None:
    assert "\x1b" not in CliRunner().invoke(app, ["doctor", "--app", "shop:Task"]).stdout
    shown = CliRunner().invoke(app, ["doctor", "--app", "shop:Task"], env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[1;31mwrong" in shown.stdout
    assert "\x1b[1;35mdanger" in shown.stdout
    assert "\x1b[36madvice" in shown.stdout
