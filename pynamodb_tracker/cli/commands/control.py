"""`pause`, `resume` and `steps`: they read and write the control item of a use case, which all its programs obey."""

from datetime import datetime
from typing import Annotated

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import FOUND, refusing, step_among, use_case, use_cases
from pynamodb_tracker.cli.terminal import print_table, say, warn
from pynamodb_tracker.control import item
from pynamodb_tracker.control.records import record
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.presentation.text import escaped


def pause(
    step: opt.Step,
    *,
    until: Annotated[
        datetime, opt.value("TIME", "For how long or until when: 1h, 2026-01-31T12:00; or resumed.", opt.end_of_pause)
    ],
    reason: Annotated[str, opt.value("TEXT", "Why; the pause is shown with it.", opt.reason)],
    by: opt.By,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Pause a step for everybody: within 5 seconds, workers, batches and handlers start no more of its tasks.

    Its use case needs pausable=True. Running tasks continue, and tasks given by id run anyway. If the step is paused
    already, the later end wins.
    """
    with use_cases(name, use_case_name) as models:
        of, end = step_among(models, step), None if until == clock.NEVER else until
        with refusing(ValueError):
            paused = of.pause(until=end, reason=reason, by=by)
        record(of.model, by, "paused", of.name, reason=reason)
        say(escaped(str(paused)))
        warn(
            "handlers acknowledge messages of standard queues and events: a worker or a schedule has to run "
            f"{of.name} as well; disable the event source mappings of FIFO queues, streams and Kafka during the pause"
        )


def resume(step: opt.Step, *, by: opt.By, name: opt.App, use_case_name: opt.UseCase = None) -> None:
    """End the pause of a step, if there is one. Its tasks start again within 5 seconds."""
    with use_cases(name, use_case_name) as models:
        of = step_among(models, step)
        ended = [pause for pause in item.in_force(of.model) if pause.step == of.name]
        with refusing(ValueError):
            of.resume(by=by)
        record(of.model, by, "resumed", of.name)
        why = "".join(f"; {pause.by} had paused it: {pause.reason}" for pause in ended)
        say(escaped(f"{of.name} is resumed{why}" if ended else f"{of.name} was not paused"))


def steps(
    *,
    accept: Annotated[
        bool, opt.flag("--accept", "Record the numbers as they are declared; no task may be stored at those that move.")
    ] = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Show the numbers of the steps, with the names recorded for them.

    Exits with 1 if a step was renumbered. Workers would refuse to start.
    """
    with use_case(name, use_case_name) as model:
        if accept:
            item.accept(model)
        known, declared = item.read(model).names, {codes.pending: codes.step for codes in model.tracker.steps}
        rows = ([str(n), declared.get(n, ""), ", ".join(known.get(n, ()))] for n in sorted({*known, *declared}))
        print_table(("number", "step", "recorded"), rows)
        try:
            item.refuse_moved(model, known)
        except DefinitionError as error:
            warn(str(error))
            raise typer.Exit(FOUND) from None
