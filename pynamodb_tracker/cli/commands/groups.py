"""`group`: the tasks of one group, which run one at a time, and what they share."""

from typing import Annotated, Any

import typer

from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.task_facts import name_of
from pynamodb_tracker.presentation.text import escaped
from pynamodb_tracker.task.task import Task


def group(
    group_name: Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")],
    *,
    repair: Annotated[
        bool, opt.flag("--repair", "Hand on the turn if the task that has it has ended, or is gone.")
    ] = False,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    as_json: opt.Json = False,
) -> None:
    """Show which task of a group has the turn, what its tasks share, and which wait for their turn, in order.

    A group needs a repair only if a task that had the turn was deleted or changed by other means than this library.

    Exits with 1 if the group needs a repair.
    """
    with command.use_case(name, use_case_name) as model:
        of = _named(model, group_name)
        if repair:
            of.repair()
        turn, waiting = of.turn, of.waiting()
        has_it = None if turn is None else next(iter(model.get_many([turn])), None)
        is_over = has_it is None or has_it.tracker.ends_at(has_it.state.code)
        is_stuck = is_over if turn is not None else bool(waiting)
        state = "idle" if turn is None else "gone" if has_it is None else name_of(has_it.state)
        if as_json:
            found = {"group": group_name, "turn": turn, "state": state, "data": of.data, "waiting": waiting}
            terminal.say_json(found | {"needs_repair": is_stuck})
        else:
            who = "nobody has the turn" if turn is None else f"{escaped(turn)} has the turn, {state}"
            terminal.say(f"{escaped(group_name)} of {model.__name__}: {who}")
            if data := of.data:
                terminal.say(f"  data   {escaped(exact_json.dumps(data, ensure_ascii=False))}")
            for task_id in waiting:
                terminal.say(f"  waits  {escaped(task_id)}")
            if is_stuck:
                terminal.warn("the task that should have the turn has ended or is gone: add --repair to hand it on")
    if is_stuck:
        raise typer.Exit(command.FOUND)


def _named(model: type[Task], name: str) -> Any:
    with command.refusing(ValueError):
        return model.group(name)
