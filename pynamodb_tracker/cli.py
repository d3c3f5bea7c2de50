"""The commands of `pynamodb-tracker`, as a typer application; each is one function, whose arguments are its options."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from pynamodb_tracker.app import AppError, load
from pynamodb_tracker.demo import session
from pynamodb_tracker.demo.interrupt import never_lost
from pynamodb_tracker.demo.orders_file import BadOrdersFileError
from pynamodb_tracker.demo.server import ServerError, is_url
from pynamodb_tracker.doctor import Finding, NotExaminedError, Severity, examine, use_cases

__all__ = ["AppOption", "app"]

app = typer.Typer(name="pynamodb-tracker", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

_CANNOT_RUN = 2
_NOT_AS_IT_SHOULD_BE = 1

_STYLES = {Severity.WRONG: "bold red", Severity.DANGER: "bold magenta", Severity.ADVICE: "cyan"}

_READABLE, _NARROWEST, _INDENT = 100, 40, 10
"""Characters of a line of text where the terminal has more, or less, and of its margin."""

AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        envvar="PYNAMODB_TRACKER_APP",
        metavar="MODULE:CLASS",
        help="The class of the table, or of a use case on it, as Python imports it from here.",
    ),
]
"""For every command about a user's own table."""


@app.callback()
def tracker() -> None:
    """Track business-critical tasks in one DynamoDB table."""


@app.command()
def demo(
    *,
    orders: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run on the real orders of this CSV file.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Generate this many orders.", show_default=str(session.COUNT))
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the generated orders and the accidents.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many work at the same time.")] = session.WORKERS,
    endpoint_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run on this server, with worker processes, instead of in memory."),
    ] = None,
    table_name: Annotated[
        str | None, typer.Option(help="The table to make on the server.", show_default="a new name")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the table on the server.")] = False,
) -> None:
    """Send orders through payment, shipping and delivery, while runs fail and workers die.

    By default all of it is in memory. On a server, it makes a table of its own, and deletes it in the end.

    Exits with 0 if every order ends where it should, with 1 if one does not, with 2 if it cannot run.
    """
    if orders and count:
        raise typer.BadParameter("generated orders only: leave it out with --orders", param_hint="--count")
    if (table_name or keep) and not endpoint_url:
        hint = "--table-name" if table_name else "--keep"
        raise typer.BadParameter("only with --endpoint-url: nothing is left of a table in memory", param_hint=hint)
    if endpoint_url is not None and not is_url(endpoint_url):
        raise typer.BadParameter(f"{endpoint_url!r} is none: write http://HOST:PORT", param_hint="--endpoint-url")
    options = session.Options(orders, count or session.COUNT, seed, workers, endpoint_url, table_name, keep)
    try:
        with never_lost():
            outcome = session.run(options, Console())
    except (BadOrdersFileError, ServerError) as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            typer.echo(line, err=True)
        raise typer.Exit(_CANNOT_RUN) from None
    if outcome.differences:
        raise typer.Exit(_NOT_AS_IT_SHOULD_BE)


@app.command()
def doctor(
    *,
    name: AppOption,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Look at a table, and say what differs from the model, what that means, and what to do.

    It reads settings by three requests, no tasks, and changes nothing. It asks the server that your program would ask.

    Exits with 0 for nothing or advice only, with 1 if something is wrong or dangerous, with 2 if it cannot look.
    """
    try:
        model = load(name)
        findings = examine(model)
    except (AppError, NotExaminedError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_CANNOT_RUN) from None
    table, known = model.tracker.connection(), use_cases(model)
    endpoint = table.connection.client.meta.endpoint_url
    if as_json:
        told = {"table": table.table_name, "endpoint": endpoint, "use_cases": known, "findings": findings}
        typer.echo(json.dumps(told, indent=2, default=asdict))
    else:
        title = f"table {table.table_name} at {endpoint}\nuse cases known here: {', '.join(known) or 'none'}"
        _print_findings(Console(highlight=False), title, findings)
    if any(finding.severity is not Severity.ADVICE for finding in findings):
        raise typer.Exit(_NOT_AS_IT_SHOULD_BE)


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
