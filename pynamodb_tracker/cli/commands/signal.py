"""`signal`: send what a task awaits from outside."""

from typing import Annotated, Any

import typer

from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError, refusing, use_case
from pynamodb_tracker.cli.task_files import TOO_DEEP
from pynamodb_tracker.cli.terminal import say
from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.task_facts import name_of
from pynamodb_tracker.presentation.text import escaped
from pynamodb_tracker.step.signal import signal_named

_EFFECTS = {
    "resumed": "it is due by this signal",
    "early": "the signal is stored, before the task waits for it",
    "late": "the signal is stored, although the task waits no longer",
    "stored": "the signal is stored",
}


def _value(text: str) -> Any:
    try:
        return exact_json.with_floats(exact_json.loads(text))
    except RecursionError:
        raise typer.BadParameter(TOO_DEEP) from None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not JSON: write text in quotes, as in '\"yes\"'") from None


def signal(
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")],
    signal_name: Annotated[str, typer.Argument(metavar="SIGNAL", help="The name of the awaited signal, as in paid.")],
    *,
    value: Annotated[
        Any, typer.Option(parser=_value, metavar="JSON", help="The signal, at most 1 KB; null by default.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The sender's name of the event: the same one counts once.")
    ] = None,
    of_round: Annotated[
        str | None, typer.Option("--round", metavar="TEXT", help="The round of a task that has started over.")
    ] = None,
    by: opt.By,
    name: opt.App,
    use_case_name: opt.UseCase = None,
) -> None:
    """Send a signal that a task awaits, such as a payment or an approval, and make the task due by it.

    The first signal counts; the same one again changes nothing. Exits with 1 if another one counts, if there is no such
    task, or if it has ended.
    """
    with use_case(name, use_case_name) as model:
        with refusing(TypeError, ValueError):
            awaited = signal_named(model, signal_name)
            if of_round is None and (found := model.get_task(task_id, with_data=False)).round is not None:
                raise CannotRunError(
                    f"{escaped(task_id)} has started over: add --round {round_of(found)} if the signal is meant for "
                    "what it does now"
                )
            sent = awaited.send(task_id, value, by=by, key=key, round=of_round)
        say(f"{escaped(task_id)}: {name_of(sent.task.state)}; {_EFFECTS[sent.effect]}")
