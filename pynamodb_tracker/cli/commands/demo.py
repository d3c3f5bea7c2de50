"""`demo`: orders go through three steps while runs fail and workers die."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pynamodb_tracker.cli.exits import CANNOT_RUN, FOUND
from pynamodb_tracker.cli.interrupts import StoppedError, StopRequest, run_stoppable
from pynamodb_tracker.cli.terminal import console, say, warn

if TYPE_CHECKING:
    from pynamodb_tracker.demo.session import Options

_COUNT, _WORKERS = 200, 4

_STOPPING = "stopping: the workers finish what they run, then the table is deleted; Ctrl-C again leaves at once"


def demo(
    *,
    orders: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run on the real orders of this CSV file.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Generate this many orders.", show_default=str(_COUNT))
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the generated orders and the accidents.")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="How many work at the same time, on a server at least 2.")
    ] = _WORKERS,
    endpoint_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run on this server, with worker processes, instead of in memory."),
    ] = None,
    table_name: Annotated[
        str | None, typer.Option(help="The table to create on the server.", show_default="a new name")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", metavar="", help="Keep the table on the server.")] = False,
) -> None:
    """Send orders through payment, shipping and delivery, while runs fail and workers die.

    By default, everything is in memory. On a server, the demo creates a table of its own and deletes it at the end.
    Ctrl-C stops the workers and deletes the table.

    Exits with 0 if every order ends where it should, with 1 if one does not, with 2 if it cannot run.
    """
    from pynamodb_tracker.demo.server import is_url  # noqa: PLC0415 - the other commands need nothing of the demo
    from pynamodb_tracker.demo.session import Options  # noqa: PLC0415 - the same

    if orders and count:
        raise typer.BadParameter("only for generated orders: omit it with --orders", param_hint="--count")
    if (table_name or keep) and not endpoint_url:
        hint = "--table-name" if table_name else "--keep"
        raise typer.BadParameter("only with --endpoint-url: a table in memory cannot be kept", param_hint=hint)
    if endpoint_url is not None and not is_url(endpoint_url):
        raise typer.BadParameter(f"{endpoint_url!r} is not a URL: write http://HOST:PORT", param_hint="--endpoint-url")
    _run(Options(orders, count or _COUNT, seed, workers, endpoint_url, table_name, keep))


def _run(options: Options) -> None:
    from pynamodb_tracker.demo.orders import BadOrdersFileError  # noqa: PLC0415 - as above
    from pynamodb_tracker.demo.server import ServerError  # noqa: PLC0415 - as above

    work = _Demo(options)
    try:
        run_stoppable(work)
    except StoppedError as stopped:
        raise typer.Exit(stopped.exit_code) from None
    except (BadOrdersFileError, ServerError) as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            typer.echo(line, err=True)
        raise typer.Exit(CANNOT_RUN) from None
    if not work.is_as_expected:
        raise typer.Exit(FOUND)


class _Demo:
    """The demo as work that signals stop."""

    def __init__(self, options: Options) -> None:
        self.stop = StopRequest()
        self.is_as_expected = False
        self._options = options
        self._console = console()

    def run(self) -> None:
        from pynamodb_tracker.demo import session  # noqa: PLC0415 - as above

        outcome = session.run(self._options, self._console, self.stop.event)
        self.is_as_expected = not outcome.differences

    def report_waiting(self) -> None:
        if self._options.endpoint_url:
            say(_STOPPING, self._console)  # not on stderr: the live bars on stdout would overwrite it

    def report_left(self) -> None:
        self._console.show_cursor()
        warn("left at once: the table of the demo may still be on the server")
