"""`size`, `template`, `create-table`, `doctor` and `demo`: plan, create and check a table."""

import textwrap
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pynamodb_tracker.cli import command
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, run_stoppable
from pynamodb_tracker.cli.page_server import LOCAL, PageServer
from pynamodb_tracker.cli.templates import cloudformation, policies, terraform
from pynamodb_tracker.cli.terminal import console, say, say_json, warn, write
from pynamodb_tracker.doctor import Finding, NotExaminedError, Severity, examine, examine_before_index, examine_rows
from pynamodb_tracker.dynamodb.connection import endpoint_of
from pynamodb_tracker.model.cost import QUOTA_UNITS, Load, Size, size_for
from pynamodb_tracker.presentation.text import count as number_of

_STYLES = {Severity.WRONG: "bold red", Severity.DANGER: "bold magenta", Severity.ADVICE: "cyan"}

_WIDEST, _NARROWEST, _INDENT = 100, 40, 10

_COUNT = 100


def size(
    *,
    rate: Annotated[float, opt.value("N/UNIT", "New tasks at the peak: 2000, 2000/s, 50000/h.", opt.rate)],
    steps: Annotated[int, opt.value("N", "Steps per task.", min=1, max=99)] = 1,
    attempts: Annotated[
        float, opt.value("N", "Average attempts per step, 1.1 if one task in ten needs 2.", min=1, max=1000)
    ] = 1.0,
    row_kb: Annotated[int, typer.Option("--row-kb", min=1, max=400, metavar="N", help="KB per row, rounded up.")] = 1,
    no_index_succeeded: Annotated[
        bool, opt.flag("--no-index-succeeded", "Size a use case with index_succeeded=False.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Calculate shards, write units, warm throughput, quota and dollars for a use case on an on-demand table.

    This works offline, without a table or --app. The formulas follow AWS's documented limits, but we have not tried
    them on AWS. The prices are from us-east-1, November 2024.
    """
    load = Load(rate=rate, steps=steps, attempts=attempts, row_kb=row_kb, index_succeeded=not no_index_succeeded)
    found = size_for(load)
    with command.exit_on_error():
        if as_json:
            say_json(asdict(load) | asdict(found))
            return
        for label, text in _size_in_words(load, found):
            say(f"{label:13}{text}")


def _size_in_words(load: Load, found: Size) -> Iterator[tuple[str, str]]:
    tried = f"{number_of(load.steps, 'step')}, {load.attempts:g} attempt{'' if load.attempts == 1 else 's'} per step"
    yield "load", f"{load.rate:,.10g} tasks per second, {tried}, rows up to {load.row_kb} KB"
    at_once = found.shards_at_once
    yield "shards", f"{found.shards}" + (f", or {at_once} to start at this rate" if at_once > found.shards else "")
    yield "table", f"{found.table_units:,} write units per second, {_warm(found.warm_table_units)}"
    yield "index", f"{found.index_units:,} write units per second, {_warm(found.warm_index_units)}"
    yield "quota", _quota(found)
    hour, million = found.dollars_per_hour, found.dollars_per_million_tasks
    yield "writes", f"${hour:,.2f} an hour, ${million:,.2f} a million tasks"
    yield "idle worker", f"${found.idle_worker_dollars_per_month:,.2f} a month"


def _warm(units: int | None) -> str:
    return "which a new one has" if units is None else f"warmed to {units:,} to start at this rate"


def _quota(found: Size) -> str:
    if found.quota_units is None:
        return f"{QUOTA_UNITS:,} write units per second, the default, are enough"
    reason = "" if max(found.table_units, found.index_units) > QUOTA_UNITS else ", for the warm throughput"
    return f"raise table-level write throughput from {QUOTA_UNITS:,} to {found.quota_units:,}{reason}"


def template(
    *,
    as_terraform: Annotated[
        bool, opt.flag("--terraform", "Print a Terraform module with the table and its policies.")
    ] = False,
    of_policies: Annotated[
        bool, opt.flag("--policies", "Print a CloudFormation template with policies for the table's users.")
    ] = False,
    name: opt.App,
) -> None:
    """Print a CloudFormation template of the table, with the indexes that its class declares.

    This works offline. The table has deletion protection and point-in-time recovery. Parameters set your own encryption
    key, a stream, warm throughput and limits. Policies are a separate template.
    """
    with command.exit_on_error():
        model = command.load_class(name)
        if as_terraform and of_policies:
            why = "the Terraform module contains the policies: leave --policies out, and set policies = true"
            raise command.CannotRunError(why)
        write((terraform if as_terraform else policies if of_policies else cloudformation)(model))


def create_table(*, name: opt.App) -> None:
    """Create the table as its class declares it, and wait until it is active. An existing table is not changed."""
    with command.table_class(name) as model:
        if model.exists():
            say(f"{command.location(model)} already exists: compare it with its class with pynamodb-tracker doctor")
            return
        model.create_table(wait=True)
        say(f"created {command.location(model)}")


def doctor(
    *,
    rows: Annotated[bool, opt.flag("--rows", "Also scan the table for tasks that need help.")] = False,
    before_index: Annotated[
        bool, opt.flag("--before-index", "Also scan the table for values that the index of a FindBy cannot have.")
    ] = False,
    name: opt.App,
    as_json: opt.Json = False,
) -> None:
    """Report where a table differs from its class, with the consequences and the remedy.

    It uses your program's endpoint and credentials, reads the table's settings with three requests, and changes
    nothing.

    --rows also scans the whole table, strongly consistent, at one read unit per 4 KB. It finds damaged tasks, stuck
    groups, and tasks that wait for missing tasks, await undeclared signals, or ended without a requested run.

    --before-index scans the table for rows that DynamoDB would refuse to update once a FindBy has its index.

    Exits with 0 if there is only advice, with 1 if something is wrong or dangerous, and with 2 if it cannot read the
    settings.
    """
    with command.table_class(name) as model:
        with command.refusing(NotExaminedError):
            findings = examine(model) + (examine_rows(model) if rows else [])
            findings += examine_before_index(model) if before_index else []
        table, of_table = model.tracker.connection(), model.tracker.table.use_cases.values()
        known = sorted(each.__name__ for each in of_table)
        endpoint = endpoint_of(table.connection.client)
        if as_json:
            found = {"table": table.table_name, "endpoint": endpoint, "use_cases": known}
            say_json(found | {"findings": list(map(asdict, findings))})
        else:
            say(f"table {table.table_name} at {endpoint}\nuse cases known here: {', '.join(known) or 'none'}")
            counted = [(sum(finding.severity is each for finding in findings), each) for each in Severity]
            numbers = ", ".join(f"{number} {severity}" for number, severity in counted if number)
            say(numbers or "as the model declares it")
            _print_findings(findings)
    if any(finding.severity is not Severity.ADVICE for finding in findings):
        raise typer.Exit(command.FOUND)


def _print_findings(findings: Sequence[Finding]) -> None:
    on = console()
    width = max(min(on.width, _WIDEST), _NARROWEST) - _INDENT
    for finding in findings:
        say(Text.assemble("\n", (finding.severity, _STYLES[finding.severity]), ": ", (finding.subject, "bold")), on)
        parts = {"is": finding.found, "should": finding.expected, "means": finding.meaning, "do": finding.to_do}
        for label, text in parts.items():
            lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            for lead, line in zip_longest([f"  {label}:"], lines, fillvalue=""):
                say(f"{lead:{_INDENT}}{line}", on)


class Scene(StrEnum):
    ORDERS = "orders"
    KILL = "kill"


def demo(
    *,
    scene: Annotated[
        Scene, typer.Option(help="Orders in three steps, or workers that are killed while they charge a card.")
    ] = Scene.ORDERS,
    orders: Annotated[Path | None, opt.value("FILE", "Run the orders in this CSV file.")] = None,
    count: Annotated[int | None, opt.value("N", f"Generate this many orders. Default: {_COUNT}.", opt.number)] = None,
    server: Annotated[
        bool, opt.flag("--server", "Run on a local server, dynoxide, with processes instead of threads.")
    ] = False,
    web: Annotated[bool, opt.flag("--web", "Also serve the page until Ctrl-C.")] = False,
    port: opt.Port = opt.PORT,
) -> None:
    """Send orders through payment, shipping and delivery, while runs fail and workers die.

    With --scene kill, worker processes are killed while they charge a card. Two orders are tracked by hand, one with
    this library.

    By default, everything is in memory. --server starts dynoxide, an open-source DynamoDB that has to be on the PATH,
    and worker processes that really die. --web, which needs the extra "web", shows the orders in a browser until
    Ctrl-C.

    Exits with 0 if every order ends where it should, with 1 if one does not, and with 2 if it cannot run.
    """
    from pynamodb_tracker.demo import DemoError  # noqa: PLC0415 - no other command needs the demo
    from pynamodb_tracker.testing import LocalServerError  # noqa: PLC0415 - the same

    if scene is Scene.KILL and (orders or count or server or web):
        raise typer.BadParameter("takes no other options", param_hint="--scene kill")
    if orders and count:
        raise typer.BadParameter("only for generated orders: omit it with --orders", param_hint="--count")
    work = _Demo(server=server)
    beside: Callable[[], AbstractContextManager[object]] = nullcontext
    if web:
        import pynamodb_tracker.web  # noqa: PLC0415, F401 - an extra: the first thing to report if it is missing

        with command.exit_on_error():
            beside = partial(work.beside, PageServer(LOCAL[0], port))
    if scene is Scene.KILL:
        from pynamodb_tracker.demo import kill  # noqa: PLC0415 - as above

        work.play = kill.run
    else:
        from pynamodb_tracker.demo import session  # noqa: PLC0415 - as above

        work.play = partial(session.run, file=orders, count=count or _COUNT, server=server, beside=beside)
    try:
        run_stoppable(work)
    except StoppedError as stopped:
        if not work.is_over:
            raise typer.Exit(stopped.exit_code) from None
    except (DemoError, LocalServerError) as error:
        for line in str(error).split("\n"):
            warn(line)
        raise typer.Exit(command.CANNOT_RUN) from None
    if not work.is_as_expected:
        raise typer.Exit(command.FOUND)


class _Demo:
    play: Callable[..., bool]  # takes the console and the event that stops it

    def __init__(self, *, server: bool) -> None:
        self.stop = StopRequest()
        self.is_as_expected = self.is_over = False
        self._server = server
        self._console = console()

    def run(self) -> None:
        self.is_as_expected = self.play(self._console, self.stop)

    @contextmanager
    def beside(self, page: PageServer) -> Iterator[None]:
        """Serve the page while the tasks run, and afterwards until a signal."""
        from pynamodb_tracker.demo.pipeline import Order  # noqa: PLC0415 - as above

        with page.serving([Order]):
            say(f"The page: {page.address}", self._console)
            if self._console.is_terminal and not webbrowser.open(page.address):
                say("No browser was found. Open that address in yours.", self._console)
            yield
            self.is_over = True
            say("The page stays open until Ctrl-C.", self._console)
            self.stop.wait()

    def report_waiting(self) -> None:
        if self._server and not self.is_over:
            text = "Stopping: the workers finish their tasks. Ctrl-C again stops at once."
            say(text, self._console)  # the live bars on stdout would overwrite stderr

    def report_left(self) -> None:
        self._console.show_cursor()
        warn("Stopped at once.")
