"""`doctor`: looks at a table, and prints what there is to say about it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest

import typer
from rich.console import Console
from rich.text import Text

from pynamodb_tracker.cli.exits import FOUND, CannotRunError, check_connection, told
from pynamodb_tracker.cli.importer import load
from pynamodb_tracker.cli.options import AppOption, JsonOption
from pynamodb_tracker.doctor import Finding, NotExaminedError, Severity, examine, use_cases
from pynamodb_tracker.task.task import Task

__all__ = ["doctor"]

_STYLES = {Severity.WRONG: "bold red", Severity.DANGER: "bold magenta", Severity.ADVICE: "cyan"}

_READABLE, _NARROWEST, _INDENT = 100, 40, 10
"""Characters of a line of text where the terminal has more, or less, and of its margin."""


def doctor(
    *,
    name: AppOption,
    as_json: JsonOption = False,
) -> None:
    """Look at a table, and say what differs from the model, what that means, and what to do.

    It reads settings by three requests, no tasks, and changes nothing. It asks the server that your program would ask.

    Exits with 0 for nothing or advice only, with 1 if something is wrong or dangerous, with 2 if it cannot look.
    """
    with told():
        try:
            model = load(name)
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
    told = ", ".join(f"{number} {severity}" for number, severity in counted if number)
    console.print(Text(f"{title}\n{told or 'as the model declares it'}"), soft_wrap=True)
    for finding in findings:
        console.print(
            Text.assemble("\n", (finding.severity, _STYLES[finding.severity]), ": ", (finding.subject, "bold"))
        )
        parts = {"is": finding.found, "should": finding.expected, "means": finding.meaning, "do": finding.to_do}
        for label, said in parts.items():
            console.print(Text(_hanging(f"  {label}:", said, console.width)), soft_wrap=True)


def _hanging(label: str, said: str, width: int) -> str:
    """Return text in lines that can be read, behind its label; what has no spaces, such as an ARN, stays whole."""
    lines = textwrap.wrap(
        said, max(min(width, _READABLE), _NARROWEST) - _INDENT, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(f"{lead:{_INDENT}}{line}" for lead, line in zip_longest([label], lines, fillvalue=""))
