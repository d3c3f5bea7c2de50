"""What a shell can complete: the use cases, steps and states of the class that `--app` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import typer

from pynamodb_tracker.cli.command import CannotRunError, known_use_cases, steps_of
from pynamodb_tracker.status import Status
from pynamodb_tracker.task.task import Task


def use_cases(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the use cases of a table."""
    return [name for name in (model.tracker.use_case.name for model in _models(ctx)) if name.startswith(incomplete)]


def steps(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of steps."""
    found = dict.fromkeys(step.name for model in _models(ctx) for step in steps_of(model))
    return [name for name in found if name.startswith(incomplete)]


def states(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of states, `ship.failed`."""
    found = (f"{step.name}.{status}" for model in _models(ctx) for step in steps_of(model) for status in Status)
    return [name for name in dict.fromkeys(found) if name.startswith(incomplete)]


def _models(ctx: typer.Context) -> Iterator[type[Task]]:
    """Yield the use cases that the options before the cursor select; none if the class cannot be imported."""
    given: dict[str, Any] = ctx.params
    app = given.get("name") or os.environ.get("PYNAMODB_TRACKER_APP")
    if not app:
        return
    try:
        with redirect_stderr(StringIO()):  # a shell would print it into the line
            yield from known_use_cases(app, given.get("use_case_name"))
    except CannotRunError:
        return
