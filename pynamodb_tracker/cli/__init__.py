"""The command line, `pynamodb-tracker`. Its commands are in the order of --help."""

import sys
from collections.abc import Callable
from importlib import metadata
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pynamodb_tracker.cli.commands import control, inspect, live, manage, run, set_up, status, transfer, web, worker
from pynamodb_tracker.cli.interrupts import reserve_standard_descriptors
from pynamodb_tracker.cli.options import usage_of
from pynamodb_tracker.cli.terminal import warn

__all__ = ["app"]

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Inspect": {
        "now": live.now,
        "status": status.status,
        "list": inspect.list_tasks,
        "find": inspect.find,
        "show": inspect.show,
        "errors": inspect.errors,
        "stuck": inspect.stuck,
        "workers": live.workers,
        "schedules": live.schedules,
        "top": live.top,
        "group": live.group,
        "web": web.web,
    },
    "Run": {"run": run.run, "retry": run.retry, "worker": worker.worker},
    "Manage": {
        "create": manage.create,
        "signal": manage.signal,
        "reopen": manage.reopen,
        "ignore": manage.ignore,
        "cancel": manage.cancel,
        "unlock": manage.unlock,
        "delete": manage.delete,
        "pause": control.pause,
        "resume": control.resume,
        "steps": control.steps,
    },
    "Transfer": {"load": transfer.load, "export": transfer.export},
    "Set up": {
        "size": set_up.size,
        "template": set_up.template,
        "create-table": set_up.create_table,
        "doctor": set_up.doctor,
        "demo": set_up.demo,
    },
}


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


def _format_help(docstring: str) -> str:
    """Return a docstring with one line per paragraph, which the terminal can wrap."""
    return "\n\n".join(" ".join(each.split()) for each in cleandoc(docstring).split("\n\n"))


app = typer.Typer(
    name="pynamodb-tracker",
    no_args_is_help=True,
    cls=_Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 means success. 1 means that something failed, was refused or was found. 2 means that the "
    "command cannot run, for example because a table or credentials are missing. 130 means Ctrl-C.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if wanted:
        typer.echo(f"pynamodb-tracker {metadata.version('pynamodb-tracker')}")
        raise typer.Exit


@app.callback()
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


for _group, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_group, cls=_Command, help=_format_help(_command.__doc__ or ""))(_command)
