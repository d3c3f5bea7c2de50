"""The typer application: its commands, in the order in which --help shows them, and the options of none of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import metadata
from io import TextIOWrapper
from typing import Annotated

import typer

from pynamodb_tracker.cli.commands.create_table import create_table
from pynamodb_tracker.cli.commands.demo import demo
from pynamodb_tracker.cli.commands.doctor import doctor
from pynamodb_tracker.cli.commands.errors import errors
from pynamodb_tracker.cli.commands.export import export
from pynamodb_tracker.cli.commands.list import list_tasks, stuck
from pynamodb_tracker.cli.commands.load import load
from pynamodb_tracker.cli.commands.reopen import delete, ignore, reopen
from pynamodb_tracker.cli.commands.run import retry, run
from pynamodb_tracker.cli.commands.show import show
from pynamodb_tracker.cli.commands.status import status
from pynamodb_tracker.cli.commands.worker import worker
from pynamodb_tracker.cli.terminal.output import keep_numbers

__all__ = ["app"]

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Look": {"status": status, "list": list_tasks, "show": show, "errors": errors, "stuck": stuck},
    "Run": {"run": run, "retry": retry, "worker": worker},
    "Put right": {"reopen": reopen, "ignore": ignore, "delete": delete},
    "Move": {"load": load, "export": export},
    "Set up": {"create-table": create_table, "doctor": doctor, "demo": demo},
}


def _joined(text: str) -> str:
    """Return a docstring whose paragraphs are a line each: the terminal knows better where to break them."""
    return "\n\n".join(" ".join(each.split()) for each in inspect.cleandoc(text).split("\n\n"))


app = typer.Typer(
    name="pynamodb-tracker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 if all is well; 1 if something failed, was refused or was found; 2 if the command cannot "
    "run, for wrong arguments, no class, no table or no credentials; 130 after Ctrl-C.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - how typer calls it
    if wanted:
        typer.echo(f"pynamodb-tracker {metadata.version('pynamodb-tracker')}")
        raise typer.Exit


@app.callback()
def tracker(
    *,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", metavar="", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Track business-critical tasks in one DynamoDB table."""
    keep_numbers()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what has no such character is given its number
            stream.reconfigure(errors="backslashreplace")


for _group, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_group, help=_joined(_command.__doc__ or ""))(_command)
