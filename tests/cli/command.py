"""Runs a command in this process, as typer would, about the shop."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from pynamodb_tracker.cli import app

__all__ = ["APP", "Ended", "read", "run"]

APP = "tests.cli.shop:Order"


@dataclass(frozen=True)
class Ended:
    """What a command exited with, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(*arguments: str, of: str = APP, text: str | None = None, **variables: str) -> Ended:
    """Run a command about a class; `text` is what stdin has."""
    environment = {"PYNAMODB_TRACKER_APP": of, "COLUMNS": "100", "NO_COLOR": "1"} | variables
    result = CliRunner().invoke(app, list(arguments), input=text, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def read(*arguments: str, of: str = APP) -> Any:
    """Run a command with --json, and return what it says."""
    return json.loads(run(*arguments, "--json", of=of).out)
