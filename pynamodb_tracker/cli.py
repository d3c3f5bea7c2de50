"""The commands of `pynamodb-tracker`, as a typer application; each is one function, whose arguments are its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pynamodb_tracker.demo import session
from pynamodb_tracker.demo.interrupt import never_lost
from pynamodb_tracker.demo.orders_file import BadOrdersFileError
from pynamodb_tracker.demo.server import ServerError, is_url

__all__ = ["app"]

app = typer.Typer(name="pynamodb-tracker", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

_CANNOT_RUN = 2
_NOT_AS_IT_SHOULD_BE = 1


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
