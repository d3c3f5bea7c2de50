"""`create-table` and `doctor`: create a table, and compare one with what its class declares."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest

import typer
from rich.console import Console
from rich.text import Text

from pynamodb_tracker.cli.exits import FOUND, CannotRunError, check_connection, exit_on_error, location
from pynamodb_tracker.cli.lookup import load_class
from pynamodb_tracker.cli.options import AppOption, JsonOption
from pynamodb_tracker.cli.terminal import say
from pynamodb_tracker.doctor import Finding, NotExaminedError, Severity, examine, use_cases
from pynamodb_tracker.task.task import Task

_STYLES = {Severity.WRONG: "bold red", Severity.DANGER: "bold magenta", Severity.ADVICE: "cyan"}

_WIDEST, _NARROWEST, _INDENT = 100, 40, 10
"""Limits of a line of text, however wide the terminal is, and its left margin, in characters."""


def create_table(*, name: AppOption) -> None:
    """Create the table as its class declares it, and wait until it is active. An existing table is not changed."""
    with exit_on_error():
        model = load_class(name)
    with exit_on_error(model):
        check_connection(model)
        if model.exists():
            say(f"{location(model)} already exists; pynamodb-tracker doctor compares it with its class")
            return
        model.create_table(wait=True)
        say(f"created {location(model)}")


def doctor(*, name: AppOption, as_json: JsonOption = False) -> None:
    """Report where a table differs from its class, what that means, and what to do.

    It reads the table's settings with three requests, reads no tasks and changes nothing. It uses the endpoint and the
    credentials that your program would use.

    Exits with 0 if there is nothing or only advice to report, with 1 if something is wrong or dangerous, with 2 if it
    cannot read the settings.
    """
    with exit_on_error():
        try:
            model = load_class(name)
            check_connection(model)
            findings = examine(model)
        except NotExaminedError as error:
            raise CannotRunError(str(error)) from None
        _print(model, findings, as_json=as_json)
    if any(finding.severity is not Severity.ADVICE for finding in findings):
        raise typer.Exit(FOUND)


def _print(model: type[Task], findings: Sequence[Finding], *, as_json: bool) -> None:
    table, known = model.tracker.connection(), use_cases(model)
    endpoint = table.connection.client.meta.endpoint_url
    if as_json:
        found = {"table": table.table_name, "endpoint": endpoint, "use_cases": known, "findings": findings}
        typer.echo(json.dumps(found, indent=2, default=asdict))
    else:
        title = f"table {table.table_name} at {endpoint}\nuse cases known here: {', '.join(known) or 'none'}"
        _print_findings(Console(highlight=False), title, findings)


def _print_findings(console: Console, title: str, findings: Sequence[Finding]) -> None:
    """Print a block of lines for each finding: columns would be too narrow for sentences."""
    counted = [(sum(finding.severity is each for finding in findings), each) for each in Severity]
    summary = ", ".join(f"{number} {severity}" for number, severity in counted if number)
    console.print(Text(f"{title}\n{summary or 'as the model declares it'}"), soft_wrap=True)
    for finding in findings:
        console.print(
            Text.assemble("\n", (finding.severity, _STYLES[finding.severity]), ": ", (finding.subject, "bold"))
        )
        parts = {"is": finding.found, "should": finding.expected, "means": finding.meaning, "do": finding.to_do}
        for label, text in parts.items():
            console.print(Text(_hanging(f"  {label}:", text, console.width)), soft_wrap=True)


def _hanging(label: str, text: str, width: int) -> str:
    """Return text wrapped after its label; words without spaces, such as an ARN, are not broken."""
    lines = textwrap.wrap(
        text, max(min(width, _WIDEST), _NARROWEST) - _INDENT, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(f"{lead:{_INDENT}}{line}" for lead, line in zip_longest([label], lines, fillvalue=""))
