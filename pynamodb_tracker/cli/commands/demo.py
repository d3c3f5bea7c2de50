"""`demo`: orders go through three steps while runs fail and workers die."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pynamodb_tracker.cli.exits import CANNOT_RUN, FOUND

_COUNT, _WORKERS = 200, 4


def demo(
    *,
    orders: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run on the real orders of this CSV file.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Generate this many orders.", show_default=str(_COUNT))
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the generated orders and the accidents.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many work at the same time.")] = _WORKERS,
    endpoint_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run on this server, with worker processes, instead of in memory."),
    ] = None,
    table_name: Annotated[
        str | None, typer.Option(help="The table to make on the server.", show_default="a new name")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", metavar="", help="Leave the table on the server.")] = False,
) -> None:
    """Send orders through payment, shipping and delivery, while runs fail and workers die.

    By default all of it is in memory. On a server, it makes a table of its own, and deletes it in the end.

    Exits with 0 if every order ends where it should, with 1 if one does not, with 2 if it cannot run.
    """
    from pynamodb_tracker.demo.server import is_url  # noqa: PLC0415 - the other commands need nothing of the demo

    if orders and count:
        raise typer.BadParameter("generated orders only: leave it out with --orders", param_hint="--count")
    if (table_name or keep) and not endpoint_url:
        hint = "--table-name" if table_name else "--keep"
        raise typer.BadParameter("only with --endpoint-url: nothing is left of a table in memory", param_hint=hint)
    if endpoint_url is not None and not is_url(endpoint_url):
        raise typer.BadParameter(f"{endpoint_url!r} is none: write http://HOST:PORT", param_hint="--endpoint-url")
    _run((orders, count or _COUNT, seed, workers, endpoint_url, table_name, keep))


def _run(options: tuple[Path | None, int, int, int, str | None, str | None, bool]) -> None:
    from rich.console import Console  # noqa: PLC0415 - with the rest of the demo

    from pynamodb_tracker.demo import session  # noqa: PLC0415 - the other commands need nothing of the demo
    from pynamodb_tracker.demo.interrupt import never_lost  # noqa: PLC0415 - the same
    from pynamodb_tracker.demo.orders_file import BadOrdersFileError  # noqa: PLC0415 - the same
    from pynamodb_tracker.demo.server import ServerError  # noqa: PLC0415 - the same

    try:
        with never_lost():
            outcome = session.run(session.Options(*options), Console())
    except (BadOrdersFileError, ServerError) as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            typer.echo(line, err=True)
        raise typer.Exit(CANNOT_RUN) from None
    if outcome.differences:
        raise typer.Exit(FOUND)
