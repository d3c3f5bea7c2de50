"""The options that several commands have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pynamodb_tracker.cli.times import moment, rate

__all__ = [
    "AppOption",
    "ErrorOption",
    "FunctionArgument",
    "HeartbeatOption",
    "JsonOption",
    "RateOption",
    "SinceOption",
    "StepArgument",
    "TasksArgument",
    "ThreadsOption",
    "UntilOption",
    "UseCaseOption",
]

AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        envvar="PYNAMODB_TRACKER_APP",
        metavar="MODULE:CLASS",
        help="The class of the table, or of a use case on it, as Python imports it from here.",
    ),
]
"""For every command about a user's own table."""

UseCaseOption = Annotated[
    str | None,
    typer.Option("--use-case", metavar="NAME", help="Which one, where --app names a table that has several."),
]

JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]

SinceOption = Annotated[
    datetime | None,
    typer.Option(
        "--since", parser=moment, metavar="TIME", help="Only what came into its state since then: 30d, 12h, 2026-01-31."
    ),
]

UntilOption = Annotated[
    datetime | None,
    typer.Option("--until", parser=moment, metavar="TIME", help="Only what came into its state before then."),
]

ErrorOption = Annotated[
    str | None,
    typer.Option("--error-like", metavar="TEXT", help="Only tasks whose last error has this text in it."),
]

RateOption = Annotated[
    float | None,
    typer.Option("--rate", parser=rate, metavar="N/UNIT", help="Start no more than that: 50/s, 10/m."),
]

ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=256, metavar="N", help="How many work at the same time.")
]

HeartbeatOption = Annotated[
    bool, typer.Option("--heartbeat", metavar="", help="Extend the lock while a task runs, however long that takes.")
]

StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The step, as it is called in the class.")]

FunctionArgument = Annotated[
    str,
    typer.Argument(metavar="MODULE:FUNCTION", help="What does the step: it is called with the context, for each task."),
]

TasksArgument = Annotated[
    list[str], typer.Argument(metavar="TASK", help="Ids of tasks; - reads them from stdin, one a line.")
]
