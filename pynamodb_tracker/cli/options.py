"""Options and arguments that several commands share."""

from datetime import datetime
from typing import Annotated

import typer

from pynamodb_tracker.cli.times import moment, rate

AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        envvar="PYNAMODB_TRACKER_APP",
        metavar="MODULE:CLASS",
        help="The table's class, or one of its use cases, as Python imports it from the current directory.",
    ),
]

UseCaseOption = Annotated[
    str | None,
    typer.Option("--use-case", metavar="NAME", help="The use case, if --app names a table that has several."),
]

JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON instead of text.")]

SinceOption = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        parser=moment,
        metavar="TIME",
        help="Only tasks that entered their state since then: 30d, 12h, 2026-01-31.",
    ),
]

UntilOption = Annotated[
    datetime | None,
    typer.Option("--until", parser=moment, metavar="TIME", help="Only tasks that entered their state before then."),
]

ErrorOption = Annotated[
    str | None,
    typer.Option("--error-like", metavar="TEXT", help="Only tasks whose last error contains this text."),
]

RateOption = Annotated[
    float | None,
    typer.Option("--rate", parser=rate, metavar="N/UNIT", help="Start at most this many tasks: 50/s, 10/m."),
]

ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=256, metavar="N", help="How many tasks to work on at the same time.")
]

HeartbeatOption = Annotated[
    bool, typer.Option("--heartbeat", metavar="", help="Keep extending a task's lock while its function runs.")
]

StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The step, by its name in the class.")]

FunctionArgument = Annotated[
    str,
    typer.Argument(metavar="MODULE:FUNCTION", help="The function to call for each task, with its context."),
]

TasksArgument = Annotated[
    list[str], typer.Argument(metavar="TASK", help="Task ids; - reads ids from stdin, one per line.")
]
