"""Runs a command in this process: as typer's tests do, or on streams of a test's own."""

import functools
import io
import json
import os
import re
import sys
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, TextIO
from unittest import mock

import typer.main
import typer.testing
from typer.testing import CliRunner

from pynamodb_tracker.cli import app

APP = "tests.cli.shop:Order"

typer.main.get_command = functools.cache(typer.main.get_command)
vars(typer.testing)["_get_command"] = typer.main.get_command
"""Builds the tree of commands and options once per process, because that takes as long as many a command."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(*arguments: str, of: str = APP, text: str | None = None, **variables: str) -> Ended:
    """Run a command about a class; `text` is what stdin has."""
    environment = {"PYNAMODB_TRACKER_APP": of, "COLUMNS": "100", "NO_COLOR": "1"} | variables
    before_click_8_2 = "mix_stderr" in signature(CliRunner).parameters
    apart: dict[str, Any] = {"mix_stderr": False} if before_click_8_2 else {}
    result = CliRunner(**apart).invoke(app, list(arguments), input=text, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def run_untimed(*arguments: str, of: str = APP, **variables: str) -> Ended:
    """Run a command, and leave out of its report how long it took, which depends on the machine."""
    ended = run(*arguments, of=of, **variables)
    return replace(ended, out=re.sub(r" in \d\w+(, [\d,]+/s)?$", "", ended.out, flags=re.MULTILINE))


class Screen(io.TextIOWrapper):
    """A stream that keeps what is written to it, and says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool = True, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


def run_on(
    *arguments: str, stdin: TextIO | None = None, stdout: TextIO | None, of: str = APP, **variables: str
) -> tuple[int, str]:
    """Run a command on these streams, None for one that is closed; return its exit code, and what stderr has."""
    dropped = {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    errors = Screen(is_terminal=False)
    with (
        mock.patch.dict(os.environ, kept | {"PYNAMODB_TRACKER_APP": of} | variables, clear=True),
        mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=errors),
    ):
        try:
            app(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0), errors.text
    raise AssertionError("typer exits")


def read(*arguments: str, of: str = APP) -> Any:
    return json.loads(run(*arguments, "--json", of=of).out)
