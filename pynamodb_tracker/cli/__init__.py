"""The command line, `pynamodb-tracker`. Its commands are in the order of --help."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pynamodb_tracker.cli.interrupts import reserve_standard_descriptors
from pynamodb_tracker.cli.options import usage_of
from pynamodb_tracker.cli.terminal import warn

__all__ = ["app", "build_app", "run_command_line"]

app: typer.Typer
"""The command line with all commands. It is built at its first use."""

_COMMANDS = {
    "Inspect": "live.now status.status inspect.list_ inspect.find inspect.show inspect.errors inspect.stuck "
    "live.workers live.schedules live.top live.group live.web",
    "Run": "run.run run.retry worker.worker",
    "Manage": "manage.create manage.signal manage.reopen manage.ignore manage.cancel manage.unlock manage.delete "
    "control.pause control.resume control.steps",
    "Transfer": "transfer.load transfer.export",
    "Set up": "set_up.size set_up.template set_up.create_table set_up.doctor set_up.demo",
}
"""The commands' functions by panel of --help, each in its module of `commands`."""

_USAGE_ERROR: Any = typer.BadParameter.__base__  # typer does not export it
_SHOWN_LAST = ("name", "use_case_name")


class _Command(TyperCommand):
    """A command whose help shows no Python types."""

    def get_params(self, ctx: Any) -> Any:
        found = _hide_types(super().get_params(ctx))
        return sorted(found, key=lambda each: (each.name in _SHOWN_LAST) + 2 * (each.name == "help"))

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(usage_of(each) for each in self.params if each.param_type_name == "argument")]


class _Group(TyperGroup):
    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            code = super().main(*arguments, **(options | {"standalone_mode": False}))
        except _USAGE_ERROR as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
                sys.exit(error.exit_code)
            at = "" if error.ctx is None else f". See {error.ctx.command_path} --help"
            warn(f"{error.format_message().rstrip('.')}{at}")
            sys.exit(error.exit_code)
        except typer.Abort:
            warn("aborted")
            sys.exit(1)
        sys.exit(code)

    def get_params(self, ctx: Any) -> Any:
        return _hide_types(super().get_params(ctx))


def _hide_types(parameters: list[Any]) -> list[Any]:
    """Make help print no types for flags and arguments."""
    for each in parameters:
        if each.param_type_name == "argument":
            vars(each)["display_type_rich"] = lambda **_: None
        elif each.is_flag:
            each.metavar = ""
    return parameters


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if wanted:
        typer.echo(f"pynamodb-tracker {metadata.version('pynamodb-tracker')}")
        raise typer.Exit


def tracker(
    *,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, typer.Option("--version", metavar="", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Track business-critical tasks in one DynamoDB table."""
    reserve_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # print characters that the encoding lacks as \\u escapes
            stream.reconfigure(errors="backslashreplace")


def build_app(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line with all commands, or only with the one that is the first word, to start faster."""
    known = {_name_command(place) for places in _COMMANDS.values() for place in places.split()}
    wanted = known.intersection(words[:1]) or known
    app = typer.Typer(
        name="pynamodb-tracker",
        no_args_is_help=True,
        cls=_Group,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 means success. 1 means that something failed, was refused or was found. 2 means that the "
        "command cannot run, for example because a table or credentials are missing. 130 means Ctrl-C.",
    )
    app.callback()(tracker)
    for panel, places in _COMMANDS.items():
        for place in places.split():
            if (name := _name_command(place)) in wanted:
                module, _, function = place.partition(".")
                command = getattr(import_module(f"{__name__}.commands.{module}"), function)
                paragraphs = cleandoc(command.__doc__ or "").split("\n\n")  # the terminal wraps each
                text = "\n\n".join(" ".join(each.split()) for each in paragraphs)
                app.command(name, rich_help_panel=panel, cls=_Command, help=text)(command)
    return app


def _name_command(place: str) -> str:
    """Return the name of a function's command, such as `create-table`."""
    return place.partition(".")[2].rstrip("_").replace("_", "-")


def run_command_line() -> None:
    """Run the command of this process, or complete it for a shell."""
    words = sys.argv
    if "_PYNAMODB_TRACKER_COMPLETE" in os.environ:  # the last word of the line is to be completed
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = line.rpartition(" ")[0].split()
    build_app(words[1:])()


def __getattr__(name: str) -> object:
    if name == "app":
        return globals().setdefault("app", build_app())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
