"""The pages about the pipeline say what its template says, and their commands and queries work on it."""

import importlib
import json
import logging
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.cli.command import run
from tests.infra.order_pipeline.account import Account
from tests.infra.order_pipeline.template import STEPS, of_type, written
from tests.support.pages import ROOT, Page
from tests.support.workers import raising

PAGE = Page(ROOT / "docs" / "how-to" / "deploy-a-pipeline.md")

APP = "pipeline.orders:Order"


def rows(page: Page, heading: str) -> Iterator[list[str]]:
    lines = iter(page.prose())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return
                yield [cell.strip() for cell in row.strip("|").split("|")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_parameters_are_those_of_the_template() -> None:
    told = {name: cells[1].strip("`") for cells in rows(PAGE, "parameter") for name in quoted(cells[0])}
    parameters = written()["Parameters"]
    assert told == {name: str(parameter.get("Default", "")) for name, parameter in parameters.items()}


def test_the_settings_are_those_of_the_template_and_of_the_steps(account: Account) -> None:
    text, template = " ".join(" ".join(PAGE.prose()).split()), written()
    parameters = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()}
    queues = dict(of_type(template, "AWS::SQS::Queue"))
    functions = dict(of_type(template, "AWS::Serverless::Function"))
    [visible] = {queues[f"{name}Queue"]["VisibilityTimeout"] for name in STEPS}
    [timeout] = {functions[name]["Timeout"] for name in STEPS}
    [retries_for] = {functions[f"Retry{name}"]["Timeout"] for name in STEPS}
    [most] = {queues[f"{name}Queue"]["RedrivePolicy"]["maxReceiveCount"] for name in STEPS if name != "ConfirmPayment"}
    attempts = account.order.ship.max_attempts
    pause = importlib.import_module("pipeline.orders").later_each_time
    pauses = [pause(attempt) for attempt in range(1, attempts)]
    assert (attempts, pauses[0], pauses[-1]) == (8, timedelta(minutes=1), timedelta(hours=1))
    assert sum(pauses, timedelta()) >= timedelta(hours=2)
    first, threads = parameters["MaxReceives"], parameters["RetryThreads"]
    for told in (
        f"**The visibility timeout is {visible} s**, six times the function's timeout of {timeout} s.",
        "**There are eight attempts**, with pauses from 1 minute to 1 hour, to survive an outage of two hours.",
        f"**`maxReceiveCount` is {most}**, more than the attempts. The first queue has {first},",
        f"is received, every {visible // 60} minutes, before it is a dead letter",
        f"in a batch from waiting {visible // 60} minutes",
        f"**A schedule with {threads} threads** runs {threads} orders at the same time,",
        f"for up to {retries_for} seconds of each minute",
        f"A message failed {most} times, or {first} times in the first queue.",
        f"The queue keeps them for {queues['ConfirmPaymentQueue']['MessageRetentionPeriod'] // 86_400} days.",
    ):
        assert told in text, told
    assert visible == 6 * timeout


def periods(alarm: Any) -> int:
    parts = [each["MetricStat"]["Period"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
    [period] = set(parts or [alarm["Period"]])
    return int(period)


def test_the_conditions_of_the_alarms_are_those_of_the_template() -> None:
    template = written()
    alarms = dict(of_type(template, "AWS::CloudWatch::Alarm"))
    told = {quoted(cells[0])[0]: cells[1] for cells in rows(PAGE, "alarm")}
    overdue = template["Parameters"]["OverdueAfterSeconds"]["Default"] // 60
    lasts = {name: alarm["EvaluationPeriods"] * periods(alarm) // 60 for name, alarm in alarms.items()}
    percent, failing = template["Parameters"]["FailedPercent"]["Default"], alarms["AttemptsFailing"]
    assert told["OrdersIgnored"] == f"an order gave up in the last {lasts['OrdersIgnored']} minutes"
    assert told["OrdersOverdue"].startswith(f"an order is due for {overdue} minutes, twice,")
    assert alarms["OrdersOverdue"]["EvaluationPeriods"] == 2
    assert told["OrdersUnregistered"] == f"a message in the first queue is older than {overdue} minutes"
    assert told["TableThrottled"].endswith(f" in the last {lasts['TableThrottled']} minutes")
    assert told["AttemptsFailing"].startswith(
        f"more than {percent}% of a step's attempts failed, at least three, in two"
    )
    assert told["AttemptsFailing"].endswith(f" of {lasts['AttemptsFailing']} minutes")
    assert failing["DatapointsToAlarm"] == 2


def test_each_alarm_of_the_template_has_its_section() -> None:
    told = [name for cells in rows(PAGE, "alarm") for name in quoted(cells[0])]
    assert told == [name for name, _ in of_type(written(), "AWS::CloudWatch::Alarm")]
    assert {name.lower() for name in told} <= PAGE.anchors()


def commands(page: Page) -> Iterator[list[str]]:
    for block in page.blocks():
        if block.language == "sh":
            for line in block.lines:
                if line.startswith("pynamodb-tracker "):
                    yield shlex.split(line)[1:]


@pytest.fixture
def _nothing_imported(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each command import the application itself, as a process of its own does; only the services are replaced."""
    for name in [name for name in sys.modules if name == "pipeline" or name.startswith("pipeline.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.import_module("pipeline.services"), "post", account.services.post)


@pytest.mark.parametrize("command", [*commands(PAGE)], ids=" ".join)
@pytest.mark.usefixtures("_nothing_imported")
def test_every_command_runs_as_its_page_shows_it(command: list[str], account: Account) -> None:
    order = account.order
    order.create("o-1", amount=1, address="?", state=order.ship.ignored)
    order.create("o-2", amount=1, address="?", state=order.ship.pending)

    ended = run(*command, of=APP, GATEWAY_URL="http://gateway.test", CARRIER_URL="http://carrier.test")

    found = {"errors", "stuck"}  # they exit with 1 where they have found something
    assert ended.code == 0 or (command[0] in found and ended.code == 1), ended.err
    if "--reopen-ignored" in command:
        assert account.services.calls["o-1/ship"] == 0, "its error is another one"
    if command[0] == "run":
        assert order.get_task("o-2").state == order.deliver.pending


def fields(query: str) -> set[str]:
    """Return the fields that a query asks for, but for those that CloudWatch or the query itself makes."""
    text = re.sub(r'"[^"]*"', "", query)
    made = set(re.findall(r"\bas (\w+)", text))
    words = set(re.findall(r"(?<![@.\w])[a-z_]+\b(?![.(\w])", text))
    grammar = {"fields", "filter", "sort", "stats", "parse", "by", "as", "and", "in", "desc", "count", "bin", "h"}
    return words - made - grammar


def queries() -> list[str]:
    return [block.text for block in PAGE.blocks() if "@timestamp" in block.text or "| stats" in block.text]


def test_queries_ask_for_fields_that_are_logged(account: Account, caplog: pytest.LogCaptureFixture) -> None:
    def declined(key: str, _call: int) -> None:
        raise account.refused_error(key)

    caplog.set_level(logging.INFO, "pynamodb_tracker")
    account.services.refuses = declined
    account.announce({"order_id": "o-1", "amount": 1, "address": "?"})
    account.send("confirm_payment", "no JSON")
    account.poll("confirm_payment")

    formatter = pytest.importorskip("awslambdaric.lambda_runtime_log_utils").JsonFormatter()  # Lambda's own, on Linux
    logged = {name for record in caplog.records for name in json.loads(formatter.format(record))}
    of_attempts = [query for query in queries() if "platform.report" not in query]
    assert len(of_attempts) == len(queries()) - 1 == 3
    for query in of_attempts:
        assert fields(query), query
        assert fields(query) <= logged, query
    assert set(STEPS.values()) >= {record.__dict__["step"] for record in caplog.records}


def test_failures_are_logged_in_the_words_of_a_query(account: Account, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pynamodb_tracker")
    account.services.refuses = raising(ConnectionError("HTTP Error 503"))
    account.announce({"order_id": "o-1", "amount": 1, "address": "?"})
    account.poll("confirm_payment")

    [failure] = [record.getMessage() for record in caplog.records if record.__dict__["outcome"] == "failed"]
    assert failure.partition("failed: ")[2] == "ConnectionError: HTTP Error 503"
