"""`pause`, `resume` and `steps`: the control item, which all programs obey."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Annotated

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import FOUND, CannotRunError, UseCases, refusing, use_cases
from pynamodb_tracker.cli.tasks import ALL_WAITING, print_tasks
from pynamodb_tracker.cli.terminal import print_table, say, warn
from pynamodb_tracker.control import item
from pynamodb_tracker.control.records import record
from pynamodb_tracker.control.watch import INTERVAL
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.presentation import commands
from pynamodb_tracker.presentation.task_facts import is_branch, steps_of
from pynamodb_tracker.presentation.text import count, escaped
from pynamodb_tracker.task.task import Task


@opt.for_use_cases
def pause(
    among: UseCases,
    step: opt.Step,
    *,
    until: Annotated[
        datetime, opt.value("TIME", "A duration, a time or resumed: 1h, 2026-01-31T12:00.", opt.end_of_pause)
    ],
    reason: Annotated[str, opt.value("TEXT", "The reason to show.", opt.reason)],
    by: opt.By,
) -> None:
    """Pause a step for everybody: within 5 seconds, workers, batches and retry_handler start no more of its tasks.

    With pausable=True, handlers obey it, too. Running tasks continue, and tasks given by id run anyway. If the step is
    paused already, the later end wins.
    """
    of, end = among.step(step), None if until == clock.NEVER else until
    with refusing(ValueError):
        paused, _ = commands.pause(of, end, reason, by)
    say(escaped(str(paused)))
    handlers = (
        "handlers acknowledge events and messages of standard queues: make sure that a worker or a schedule runs "
        f"{of.name}. During the pause, disable the event source mappings of FIFO queues, streams and Kafka"
    )
    if not of.model.tracker.use_case.pausable:
        handlers = (
            f"handlers still start {of.name}, because {of.model.__name__} lacks pausable=True: disable their "
            "event source mappings, or set their reserved concurrency to 0"
        )
    warn(handlers)


@opt.for_use_cases
def resume(among: UseCases, step: opt.Step, *, by: opt.By) -> None:
    """End the pause of a step, if there is one. Its tasks start again within 5 seconds."""
    of = among.step(step)
    with refusing(ValueError):
        ended = commands.resume(of, by)
    why = "".join(f" ({pause.by} paused it: {pause.reason})" for pause in ended)
    say(escaped(f"{of.name} is resumed{why}" if ended else f"{of.name} was not paused"))


def steps(
    words: Annotated[
        list[str] | None,
        opt.argument("[require|passed USE_CASE NUMBER]", "Require a step, or list the tasks that had passed it."),
    ] = None,
    *,
    remove: Annotated[bool, opt.flag("--remove", "Stop requiring the step.")] = False,
    accept: Annotated[
        bool, opt.flag("--accept", "Record the declared numbers. No task may be stored at numbers that change.")
    ] = False,
    by: opt.By,
    name: opt.App,
    use_case_name: opt.UseCaseName = None,
    as_json: Annotated[bool, opt.flag("--json", "Print the tasks as JSON.")] = False,
) -> None:
    """Show the numbers and recorded names of the steps, or require a step before it is deployed.

    "steps require order 150" makes programs that do not declare Step(150) lead tasks to it. This takes effect after 5
    seconds, in workers, batches and retry_handler, and elsewhere with pausable=True. "steps passed order 150" lists the
    unfinished tasks that passed it before.

    Exits with 1 if a step was renumbered. Workers would refuse to start.
    """
    action, of, number = _parse_words(words or [], remove=remove, accept=accept, as_json=as_json)
    with use_cases(name, of or use_case_name) as among:
        model = among.only
        if action == "require":
            _require(model, number, by, remove=remove)
        elif action == "passed":
            _print_passed(model, number, as_json=as_json)
        else:
            _print_numbers(model, accept=accept)


def _parse_words(words: list[str], *, remove: bool, accept: bool, as_json: bool) -> tuple[str, str, int]:
    action, of, number = words if len(words) == 3 else ("", "", "")  # noqa: PLR2004 - the words of the usage
    is_known = action in ("require", "passed") and number.isdecimal()
    if words and not is_known:
        raise typer.BadParameter("write steps require USE_CASE NUMBER, or steps passed USE_CASE NUMBER")
    flags = ((remove, "--remove", "require"), (as_json, "--json", "passed"), (accept, "--accept", ""))
    for given, flag, meant in flags:
        if given and action != meant:
            raise typer.BadParameter(f"{flag} belongs to {f'steps {meant}' if meant else 'steps alone'}")
    return action, of, int(number or 0)


def _require(model: type[Task], number: int, by: str, *, remove: bool) -> None:
    of, name = f"Step({number}) of {model.__name__}", model.tracker.use_case.name
    with refusing(ValueError):
        was_required = number in item.read(model).required
        (item.stop_requiring if remove else item.require)(model, number, by)
    if was_required == remove:
        record(model, by, "stopped requiring" if remove else "required", f"Step({number})")
    if remove:
        say(f"{of} is not required any more")
        return
    say(
        f"{of} is required. Wait 5 seconds, list the tasks that passed it with steps passed {name} {number}, and deploy"
    )
    if not model.tracker.use_case.pausable:
        warn(f"handlers and single runs still pass over it, because {model.__name__} lacks pausable=True")


def _print_passed(model: type[Task], number: int, *, as_json: bool) -> None:
    """Print the tasks at later steps that were created before programs obeyed the requirement."""
    since = item.read(model).required.get(number)
    if since is None:
        raise CannotRunError(
            f"Step({number}) of {model.__name__} is not required: write steps require "
            f"{model.tracker.use_case.name} {number}"
        )
    begins, moved = since.time + INTERVAL + model.tracker.margin, 0
    if clock.now() < begins:
        warn(f"programs may pass over it until {clock.in_words(begins)}: list the tasks again after that")

    def passed() -> Iterator[Task]:
        nonlocal moved
        later = [step for step in steps_of(model) if step.number > number and not is_branch(model, step.name)]
        for state in chain.from_iterable((it.pending, it.in_progress, it.failed, it.ignored) for it in later):
            for task in state.query(with_data=False):
                if readable(task).create_time <= begins:
                    moved += task.update_time > begins
                    yield task

    none = f"no unfinished task has passed Step({number})"
    is_damaged = print_tasks(passed(), ALL_WAITING, None, none, as_json=as_json)
    if moved:
        warn(f"{count(moved)} changed after that and may have run Step({number})")
    if is_damaged:
        raise typer.Exit(FOUND)


def _print_numbers(model: type[Task], *, accept: bool) -> None:
    if accept:
        item.accept(model)
    control, declared = item.read(model), {codes.pending: codes.step for codes in model.tracker.steps}
    known, required = control.names, control.required
    rows = (
        [str(n), declared.get(n, ""), ", ".join(known.get(n, ())), f"by {required[n].by}" if n in required else ""]
        for n in sorted({*known, *declared, *required})
    )
    columns = 4 if required else 3
    print_table(("number", "step", "recorded", "required")[:columns], (row[:columns] for row in rows))
    for line in control.undeclared(model):
        warn(line)
    try:
        item.refuse_moved(model, known)
    except DefinitionError as error:
        warn(str(error))
        raise typer.Exit(FOUND) from None
