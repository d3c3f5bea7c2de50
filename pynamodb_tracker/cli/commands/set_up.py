"""`create-table`, `doctor` and `demo`: create a table, compare one with its class, and see the library at work."""

from __future__ import annotations

import textwrap
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pynamodb_tracker import strict_json
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CANNOT_RUN, FOUND, exit_on_error, location, refusing, table_class
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, run_stoppable
from pynamodb_tracker.cli.page_server import LOCAL, PageServer
from pynamodb_tracker.cli.terminal import console, say, warn, write
from pynamodb_tracker.doctor import (
    Finding,
    NotExaminedError,
    Severity,
    examine,
    examine_before_index,
    examine_rows,
    use_cases,
)
from pynamodb_tracker.dynamodb.connection import endpoint_of
from pynamodb_tracker.task.task import Task

if TYPE_CHECKING:
    from pynamodb_tracker.demo.session import Options

_STYLES = {Severity.WRONG: "bold red", Severity.DANGER: "bold magenta", Severity.ADVICE: "cyan"}

_WIDEST, _NARROWEST, _INDENT = 100, 40, 10
"""Limits of a line of text, however wide the terminal is, and its left margin, in characters."""

_COUNT = 100


def create_table(*, name: opt.App) -> None:
    """Create the table as its class declares it, and wait until it is active. An existing table is not changed."""
    with table_class(name) as model:
        if model.exists():
            say(f"{location(model)} already exists; pynamodb-tracker doctor compares it with its class")
            return
        model.create_table(wait=True)
        say(f"created {location(model)}")


def doctor(
    *,
    rows: Annotated[bool, opt.flag("--rows", "Scan the table, too, for tasks that need help.")] = False,
    before_index: Annotated[
        bool, opt.flag("--before-index", "Scan the table, too, for values that the index of a FindBy cannot have.")
    ] = False,
    name: opt.App,
    as_json: opt.Json = False,
) -> None:
    """Report where a table differs from its class, what that means, and what to do.

    It reads the table's settings with three requests, and changes nothing. It uses the endpoint and the credentials
    that your program would use.

    With --rows, it also scans the whole table, strongly consistent, at one read unit per 4 KB. It finds damaged
    tasks, tasks that wait for others that are gone, await signals that no class declares, or have ended without a
    run for requests that came meanwhile, and groups that stand still.

    With --before-index, it scans the table in the same way for rows that DynamoDB would refuse to update once the index
    of a FindBy is there. Run it before you add that index to a table that has tasks.

    Exits with 0 if there is nothing or only advice to report, with 1 if something is wrong or dangerous, with 2 if it
    cannot read the settings.
    """
    with table_class(name) as model:
        with refusing(NotExaminedError):
            findings = examine(model) + (examine_rows(model) if rows else [])
            findings += examine_before_index(model) if before_index else []
        _print(model, findings, as_json=as_json)
    if any(finding.severity is not Severity.ADVICE for finding in findings):
        raise typer.Exit(FOUND)


def _print(model: type[Task], findings: Sequence[Finding], *, as_json: bool) -> None:
    table, known = model.tracker.connection(), use_cases(model)
    endpoint = endpoint_of(table.connection.client)
    if as_json:
        found = {"table": table.table_name, "endpoint": endpoint, "use_cases": known, "findings": findings}
        write(strict_json.dumps(found, indent=2, default=asdict) + "\n")
    else:
        say(f"table {table.table_name} at {endpoint}\nuse cases known here: {', '.join(known) or 'none'}")
        counted = [(sum(finding.severity is each for finding in findings), each) for each in Severity]
        say(", ".join(f"{number} {severity}" for number, severity in counted if number) or "as the model declares it")
        _print_findings(findings)


def _print_findings(findings: Sequence[Finding]) -> None:
    """Print a block of lines for each finding: columns would be too narrow for sentences."""
    on = console()
    for finding in findings:
        say(Text.assemble("\n", (finding.severity, _STYLES[finding.severity]), ": ", (finding.subject, "bold")), on)
        parts = {"is": finding.found, "should": finding.expected, "means": finding.meaning, "do": finding.to_do}
        for label, text in parts.items():
            say(_hanging(f"  {label}:", text, on.width), on)


def _hanging(label: str, text: str, width: int) -> str:
    """Return text wrapped after its label; words without spaces, such as an ARN, are not broken."""
    lines = textwrap.wrap(
        text, max(min(width, _WIDEST), _NARROWEST) - _INDENT, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(f"{lead:{_INDENT}}{line}" for lead, line in zip_longest([label], lines, fillvalue=""))


class Scene(StrEnum):
    """What the demo shows."""

    ORDERS = "orders"
    KILL = "kill"


def demo(
    *,
    scene: Annotated[
        Scene, typer.Option(help="Orders that pass three steps, or workers that are killed while they charge a card.")
    ] = Scene.ORDERS,
    orders: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run on the real orders of this CSV file.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(parser=opt.number, metavar="N", help=f"Generate this many orders, {_COUNT} by default."),
    ] = None,
    server: Annotated[
        bool, opt.flag("--server", "Run on a local server, dynoxide, with worker processes instead of threads.")
    ] = False,
    web: Annotated[bool, opt.flag("--web", "Also serve the page about the orders, until Ctrl-C.")] = False,
    port: opt.Port = opt.PORT,
) -> None:
    """Send orders through payment, shipping and delivery, while runs fail and workers die.

    With --scene kill, worker processes are killed while they charge a card. Two of their orders are tracked by hand,
    one with this library.

    By default, everything is in memory. With --server, the demo starts dynoxide, an open-source DynamoDB in one
    binary, which has to be on the PATH. Its worker processes really die.

    With --web, it prints the address of a page that shows the orders while they run, and afterwards until Ctrl-C. At a
    terminal, it opens the browser. It needs the extra "web".

    Exits with 0 if every order ends where it should, with 1 if one does not, with 2 if it cannot run.
    """
    from pynamodb_tracker.demo import DemoError  # noqa: PLC0415 - no other command needs the demo
    from pynamodb_tracker.demo.session import Options  # noqa: PLC0415 - the same
    from pynamodb_tracker.testing import LocalServerError  # noqa: PLC0415 - the same

    if scene is Scene.KILL and (orders or count or server or web):
        raise typer.BadParameter("has no other options", param_hint="--scene kill")
    if orders and count:
        raise typer.BadParameter("only for generated orders: omit it with --orders", param_hint="--count")
    work = _Demo(scene, Options(orders, count or _COUNT, server), _page_server(port) if web else None)
    try:
        run_stoppable(work)
    except StoppedError as stopped:
        if not work.is_over:
            raise typer.Exit(stopped.exit_code) from None
    except (DemoError, LocalServerError) as error:
        for line in str(error).split("\n"):
            warn(line)
        raise typer.Exit(CANNOT_RUN) from None
    if not work.is_as_expected:
        raise typer.Exit(FOUND)


def _page_server(port: int) -> PageServer:
    import pynamodb_tracker.web  # noqa: PLC0415, F401 - an extra: the first thing to report if it is missing

    with exit_on_error():
        return PageServer(LOCAL[0], port)


class _Demo:
    """The demo as work that signals stop."""

    def __init__(self, scene: Scene, options: Options, page: PageServer | None) -> None:
        self.stop = StopRequest()
        self.is_as_expected = False
        self.is_over = False
        """Whether all tasks have ended, so that only the page is left to be stopped."""
        self._scene, self._options, self._page = scene, options, page
        self._console = console()

    def run(self) -> None:
        if self._scene is Scene.KILL:
            from pynamodb_tracker.demo import kill  # noqa: PLC0415 - as above

            self.is_as_expected = kill.run(self._console, self.stop.event)
            return
        from pynamodb_tracker.demo import session  # noqa: PLC0415 - as above

        if self._page is not None:
            self._options = replace(self._options, beside=partial(self._beside, self._page))
        self.is_as_expected = session.run(self._options, self._console, self.stop.event)

    @contextmanager
    def _beside(self, page: PageServer) -> Iterator[None]:
        """Serve the page while the tasks run, and then until a signal."""
        from pynamodb_tracker.demo.pipeline import Order  # noqa: PLC0415 - as above

        with page.serving([Order]):
            say(f"The page: {page.address}", self._console)
            if self._console.is_terminal and not webbrowser.open(page.address):
                say("No browser was found. Open that address in yours.", self._console)
            yield
            self.is_over = True
            say("The page is still there. Ctrl-C ends it.", self._console)
            self.stop.event.wait()

    def report_waiting(self) -> None:
        if self._options.server and not self.is_over:
            text = "Stopping: the workers finish what they run. Ctrl-C again leaves at once."
            say(text, self._console)  # not on stderr: the live bars on stdout would overwrite it

    def report_left(self) -> None:
        self._console.show_cursor()
        warn("Left at once.")
