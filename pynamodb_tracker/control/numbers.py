"""The numbers of steps, compared with those that tasks are stored with: names are added to a number, never replaced.

A name at another number than before is a step that was renumbered, so tasks stored at the old number would be at
another step. A new name at a known number is a rename; together with new numbers, it is a renumbering, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from pynamodb.constants import STRING

from pynamodb_tracker.control.item import STEPS, Control, Names, key, read
from pynamodb_tracker.dynamodb.connection import Refused, send
from pynamodb_tracker.exceptions import DefinitionError, TrackerError
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.overflow import GROUP_OF
from pynamodb_tracker.model.row import TaskRow

log = logging.getLogger("pynamodb_tracker")

_TRIES = 6


def compare(model: type[TaskRow], control: Control) -> None:
    """Compare the steps of a class with the recorded ones, and add its new names and numbers.

    DefinitionError if a step was renumbered. One request if there is something to add, and none otherwise.
    """

    def added(known: Names) -> Names:
        refuse_moved(model, known)
        return known | {n: list(dict.fromkeys([*known.get(n, ()), name])) for n, name in _declared(model).items()}

    _write(model, added, control)


def accept(model: type[TaskRow]) -> None:
    """Record the steps as the class declares them; numbers of steps that it lacks keep the other names."""

    def replaced(known: Names) -> Names:
        declared = _declared(model)
        others = {number: [x for x in names if x not in declared.values()] for number, names in known.items()}
        return {n: names for n, names in others.items() if names} | {n: [name] for n, name in declared.items()}

    _write(model, replaced, read(model))


def _declared(model: type[TaskRow]) -> dict[int, str]:
    return {codes.pending: codes.step for codes in model.tracker.steps}


def refuse_moved(model: type[TaskRow], known: Names) -> None:
    """Raise a DefinitionError, with the numbers to give back, if the class has renumbered a step."""
    declared, name = _declared(model), model.__name__
    moved = {
        n: step for n, names in known.items() for step in names if step in {*declared.values()} - {declared.get(n)}
    }
    renamed = {n: step for n, step in declared.items() if n in known and step not in known[n]}
    new = [number for number in declared if number not in known]
    if not (moved or (renamed and new)):
        return
    back = moved or {number: " or ".join(known[number]) for number in renamed}
    given = ", ".join(f"{step} = Step({number})" for number, step in sorted(back.items()))
    what = "other numbers" if moved else f"other names, together with new numbers ({', '.join(map(str, new))}),"
    raise DefinitionError(
        f"{name} declares {what} for steps that tasks are stored with: give back {given}; number a new step between "
        "its neighbours, and rename a step in a deployment of its own. If no task is stored at these steps, "
        f"pynamodb-tracker steps --accept records the numbers of {name} as they are"
    )


def _write(model: type[TaskRow], change: Callable[[Names], Names], control: Control) -> None:
    """Write the names that `change` returns for those that are there, unless another program has changed these."""
    for _ in range(_TRIES):
        wanted = change(control.names)
        if wanted == control.names:
            return
        if _has_written(model, control.steps, json.dumps({str(number): wanted[number] for number in sorted(wanted)})):
            text = "recorded the numbers of the steps of %s: %s"
            log.info(text, model.__name__, wanted, extra=log_fields(model.tracker.use_case.name))
            return
        control = read(model)
    raise TrackerError(f"the recorded steps of {model.__name__} changed {_TRIES} times meanwhile; try again")


def _has_written(model: type[TaskRow], seen: str | None, wanted: str) -> bool:
    values = {"wanted": wanted, "mark": model.tracker.use_case.name} | ({} if seen is None else {"seen": seen})
    request = {
        "Key": key(model),
        "UpdateExpression": "SET #steps = :wanted, #mark = :mark",
        "ConditionExpression": "attribute_not_exists(#steps)" if seen is None else "#steps = :seen",
        "ExpressionAttributeNames": {"#steps": STEPS, "#mark": GROUP_OF},
        "ExpressionAttributeValues": {f":{name}": {STRING: value} for name, value in values.items()},
    }
    try:
        send(model.tracker.connection(), "UpdateItem", request)
    except Refused:  # or an earlier copy of the request was applied, which reading shows
        return False
    return True
