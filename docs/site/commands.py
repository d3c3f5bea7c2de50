"""List the options of each command, from the command line itself: mkdocs calls `on_page_markdown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from pynamodb_tracker.cli import app
from pynamodb_tracker.cli.options import usage_of

MARK = "<!-- the commands -->"
"""Marks the place in a page."""

_COMMON = ("--app", "--use-case", "--help")
"""The page explains these once for all commands."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its hook
    """Insert the commands at the mark."""
    return markdown.replace(MARK, "\n\n".join(_sections())) if MARK in markdown else markdown


def _sections() -> Iterator[str]:
    group: Any = typer.main.get_command(app)  # of typer or of click, depending on the version of typer
    for name, command in group.commands.items():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        usage = " ".join([name, *(_argument(each) for each in arguments), "[OPTIONS]"])
        yield f"## `{name}`\n\n```text\npynamodb-tracker {usage}\n```\n\n{command.help}"
        rows = [f"| `{_argument(each)}` | {_help(each)} |" for each in arguments]
        rows += [
            f"| `{f'{each.opts[0]} {each.metavar or _metavar(each)}'.strip()}` | {_help(each)} |"
            for each in options
            if each.opts[0] not in _COMMON
        ]
        if rows:
            yield "\n".join(["| argument or option | |" if arguments else "| option | |", "| --- | --- |", *rows])


def _argument(argument: Any) -> str:
    return usage_of(argument)


def _metavar(option: Any) -> str:
    """Return the placeholder for an option's value if it has no metavar of its own; nothing for a flag."""
    return "" if option.metavar == "" else "VALUE"


def _help(parameter: Any) -> str:
    """Return the help text of a parameter, whether an option is required, and its default, unless the text says it."""
    text, default = parameter.help.replace("|", r"\|"), parameter.default
    if parameter.required and parameter.param_type_name == "option":
        return f"{text} Required."
    has_none = default is None or default is False or callable(default) or parameter.required
    return text if has_none else f"{text} Default: {default}."
