"""A use case's control item: paused and required steps, and the numbers under which steps are stored.

paused#200    {token, until, reason, by, time} -- a resumed step has no `until`
required#150  the same, for a step that no success may pass over
steps         JSON: {"200": ["ship"]}, the names that each number has had

Each command has a token, so late copies of earlier commands cannot undo it. The later `until` wins:

    pause    IF  no pause yet, or its token < :token and (it has no `until`, or an earlier one)
    keep     IF  token = :seen          the existing pause lasts longer: only raise its token
    resume   IF  no pause yet, or its token < :token

A known name under another number means that the step was renumbered, which would move stored tasks to another step. A
new name under a known number is a rename, unless there are also new numbers.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pynamodb.constants import MAP, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.control.records import commands_key, schedules_key
from pynamodb_tracker.dynamodb.connection import Item, Refused, send
from pynamodb_tracker.exceptions import DefinitionError, TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.failure import clean
from pynamodb_tracker.model.overflow import GROUP_OF, item_key
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.serialization import TOKEN
from pynamodb_tracker.model.status import HIGHEST, LOWEST, SPACING
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes.lock import new_token

Names = dict[int, list[str]]

_STEPS = "steps"
_PAUSED, _REQUIRED = "paused#", "required#"
_RANGE_KEY = "#control"

_TRIES = 6
_LONGEST_REASON = 1_000

_EARLIER = "attribute_not_exists(#pause) OR #pause.#token < :token"
_KEEP = "SET #pause.#token = :token"
_SHORTER = (
    "attribute_not_exists(#pause) OR "
    "(#pause.#token < :token AND (attribute_not_exists(#pause.#until) OR #pause.#until < :until))"
)


@dataclass(frozen=True, slots=True)
class Pause:
    """A paused step. Workers, batches and handlers do not start its tasks."""

    step: str
    """The step's name, or its number if this program does not declare it."""
    number: int
    until: datetime | None
    """None if the pause lasts until somebody resumes the step."""
    reason: str
    by: str
    """A person's name, or `host:pid:` and four letters."""
    time: datetime
    """When the step was paused."""

    @property
    def is_in_force(self) -> bool:
        return self.until is None or clock.now() < self.until

    def __str__(self) -> str:
        until = "until it is resumed" if self.until is None else f"until {clock.in_words(self.until)}"
        text = f"{self.step} is paused {until}, by {self.by}: {self.reason}"
        return " ".join(text.split())  # logs and terminals need one line


class Control(NamedTuple):
    pauses: dict[int, Pause]  # the last pause per step number, unless the step was resumed. It may have ended
    required: dict[int, Pause]
    steps: str | None

    @property
    def names(self) -> Names:
        return {int(number): names for number, names in json.loads(self.steps or "{}").items()}

    @property
    def in_force(self) -> list[Pause]:
        return [pause for _, pause in sorted(self.pauses.items()) if pause.is_in_force]

    def undeclared(self, model: type[TaskRow]) -> list[str]:
        """Return a line per required step that no program has run or this program does not declare."""
        lines, declared = [], _declared_names(model)
        for number, since in sorted(self.required.items()):
            if number not in declared or number not in self.names:
                known = " or ".join(self.names.get(number, ()))
                why = f"this program does not declare {known}" if known else "no program that declares it has run yet"
                lines.append(f"Step({number}) is required by {since.by}, but {why}: tasks wait there")
        return [" ".join(line.split()) for line in lines]


def key_of_control(model: type[TaskRow]) -> Item:
    return item_key(model.tracker.use_case.name, _RANGE_KEY)


def _check_pausable(model: type[TaskRow]) -> None:
    if not model.tracker.obeys_control():
        raise TrackerError(
            f"steps of {model.__name__} cannot be paused or required: remove pausable=False from its UseCase, and "
            "deploy all programs that run its tasks"
        )


def read(model: type[TaskRow], *, within: timedelta | None = None) -> Control:
    """Read the control item for one read unit, or raise TrackerError.

    With `within`, the read is eventually consistent, for half a unit, and ends in that time.
    """
    _check_pausable(model)
    until = None if within is None else clock.now() + within
    request = {"Key": key_of_control(model), "ConsistentRead": within is None}
    return parse(model, send(model.tracker.connection(), "GetItem", request, until=until).get("Item") or {})


def parse(model: type[TaskRow], item: Item) -> Control:
    try:
        pauses, required = (
            {
                (number := int(name.removeprefix(prefix))): _parse_pause(model, number, value[MAP])
                for name, value in item.items()
                if name.startswith(prefix) and "until" in value[MAP]
            }
            for prefix in (_PAUSED, _REQUIRED)
        )
        control = Control(pauses, required, item[_STEPS][STRING] if _STEPS in item else None)
        _ = control.names
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damage_error(model, repr(error)) from error
    return control


def in_force(model: type[TaskRow]) -> list[Pause]:
    return read(model).in_force


def _damage_error(model: type[TaskRow], why: str) -> TrackerError:
    name = model.tracker.use_case.name
    return TrackerError(f"cannot read the control item of {name!r}: another program has changed it: {why}")


def _parse_pause(model: type[TaskRow], number: int, stored: Mapping[str, Any]) -> Pause:
    text = {name: value[STRING] for name, value in stored.items()}
    until, time = clock.parse(text["until"]), clock.parse(text["time"])
    step = model.tracker.step_named_by(number)
    return Pause(step, number, None if until == clock.NEVER else until, text["reason"], text["by"], time)


def pause(model: type[TaskRow], number: int, until: datetime | None, reason: str, by: str | None) -> Pause:
    """Pause a step. Return the new pause, or the existing one if that lasts longer."""
    if len(reason) > _LONGEST_REASON:
        raise ValueError(f"the reason has {len(reason):,} characters: write at most {_LONGEST_REASON:,}")
    stored = {"until": clock.stamp(until or clock.NEVER), "reason": clean(reason), **_sign(by)}
    return _parse_pause(model, number, _send_command(model, f"{_PAUSED}{number}", stored, _SHORTER))


def resume(model: type[TaskRow], number: int, by: str | None) -> None:
    """Resume a step. Late copies of earlier pauses no longer have any effect."""
    _send_command(model, f"{_PAUSED}{number}", _sign(by), _EARLIER)


def require(model: type[TaskRow], number: int, by: str | None) -> None:
    """Require a step, which other programs may declare. Raise ValueError if it cannot be required.

    Within 5 seconds, successes in programs that do not declare it lead to it.
    """
    _check_pausable(model)
    _check_required(model, number)
    stored = {"until": clock.stamp(clock.NEVER), "reason": "", **_sign(by)}
    _send_command(model, f"{_REQUIRED}{number}", stored, _SHORTER)


def _check_required(model: type[TaskRow], number: int) -> None:
    name, declared = model.__name__, {codes.pending: codes for codes in model.tracker.steps}
    near = [codes for each, codes in declared.items() if 0 < abs(each - number) < SPACING]
    if not LOWEST <= number <= HIGHEST:
        raise ValueError(f"{number} is not a step number: write one from {LOWEST} to {HIGHEST}")
    if near:
        raise ValueError(f"{number} is not a step: {name}.{near[0].step} = Step({near[0].pending}) uses that number")
    if number <= min(declared):
        raise ValueError(f"Step({number}) is the first step, where new tasks begin: only later steps can be required")
    if any(codes.branch and codes.pending <= number for codes in declared.values()):
        raise ValueError(f"Step({number}) is a branch step of {name}, or comes after one: nothing leads to it")


def stop_requiring(model: type[TaskRow], number: int, by: str | None) -> None:
    _send_command(model, f"{_REQUIRED}{number}", _sign(by), _EARLIER)


def _sign(by: str | None) -> dict[str, str]:
    return {"by": clean(by or this_worker()), "time": clock.stamp(clock.now())}


def _send_command(model: type[TaskRow], attribute: str, stored: dict[str, str], condition: str) -> dict[str, Any]:
    """Send a command until it is applied. Return the step's attribute."""
    _check_pausable(model)
    token = new_token()
    for _ in range(_TRIES):
        wanted = {name: {STRING: value} for name, value in {**stored, "token": token}.items()}
        values = {"pause": {MAP: wanted}, "until": wanted.get("until"), "token": wanted["token"]}
        found = _send(model, attribute, "SET #pause = :pause, #mark = :mark", condition, values)
        if found is None:
            return wanted
        seen = found.get("token", {}).get(STRING, "")
        if TOKEN.fullmatch(seen) is None:
            raise _damage_error(model, f"the token of {attribute} is {shown(seen)}: remove that attribute")
        if seen > token:
            token = new_token(above=seen)
            continue
        values = {"token": wanted["token"], "seen": {STRING: seen}}
        if _send(model, attribute, _KEEP, "#pause.#token = :seen", values) is None:
            return found  # the existing pause lasts longer, or is this one and the response was lost
    raise TrackerError(f"another program changed the pause in {model.__name__} {_TRIES} times: try again")


def _send(
    model: type[TaskRow], attribute: str, update: str, condition: str, values: dict[str, Any]
) -> dict[str, Any] | None:
    names = {"#pause": attribute, "#token": "token", "#until": "until", "#mark": GROUP_OF}
    known = values | {"mark": {STRING: model.tracker.use_case.name}}
    request = {
        "Key": key_of_control(model),
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {name: each for name, each in names.items() if name in update + condition},
        "ExpressionAttributeValues": {f":{n}": v for n, v in known.items() if f":{n}" in update + condition},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    try:
        send(model.tracker.connection(), "UpdateItem", request)
    except Refused as refused:
        found: dict[str, Any] = (refused.item or {}).get(attribute, {}).get(MAP, {})
        return found
    return None


def forget(model: type[TaskRow]) -> None:
    for key in (key_of_control(model), schedules_key(model), commands_key(model)):
        send(model.tracker.connection(), "DeleteItem", {"Key": key})


def compare(model: type[TaskRow], control: Control) -> None:
    """Record new step names and numbers of a class. A renumbered step raises DefinitionError."""

    def added(known: Names) -> Names:
        refuse_moved(model, known)
        return known | {n: list(dict.fromkeys([*known.get(n, ()), name])) for n, name in _declared_names(model).items()}

    _write_names(model, added, control)


def accept(model: type[TaskRow]) -> None:
    """Record the class's steps as they are. Undeclared numbers keep their other names."""

    def replaced(known: Names) -> Names:
        declared = _declared_names(model)
        others = {number: [x for x in names if x not in declared.values()] for number, names in known.items()}
        return {n: names for n, names in others.items() if names} | {n: [name] for n, name in declared.items()}

    _write_names(model, replaced, read(model))


def _declared_names(model: type[TaskRow]) -> dict[int, str]:
    return {codes.pending: codes.step for codes in model.tracker.steps}


def refuse_moved(model: type[TaskRow], known: Names) -> None:
    """Raise a DefinitionError with the right numbers if a step was renumbered."""
    declared, name = _declared_names(model), model.__name__
    steps = set(declared.values())
    moved = {n: step for n, names in known.items() for step in names if step in steps - {declared.get(n)}}
    renamed = {n: step for n, step in declared.items() if n in known and step not in known[n]}
    new = [number for number in declared if number not in known]
    if not (moved or (renamed and new)):
        return
    back = moved or {number: " or ".join(known[number]) for number in renamed}
    given = ", ".join(f"{step} = Step({number})" for number, step in sorted(back.items()))
    what = "other numbers" if moved else f"other names, together with new numbers ({', '.join(map(str, new))}),"
    raise DefinitionError(
        f"{name} declares {what} for steps that have stored tasks: restore {given}. Number a new step between its "
        "neighbours, and rename a step in a separate deployment. If no task is stored at these steps, record the new "
        "numbers with pynamodb-tracker steps --accept"
    )


def _write_names(model: type[TaskRow], change: Callable[[Names], Names], control: Control) -> None:
    """Change the recorded names. If another program changes them too, try again."""
    for _ in range(_TRIES):
        wanted = change(control.names)
        if wanted == control.names:
            return
        text = strict_json.dumps({str(number): wanted[number] for number in sorted(wanted)})
        if _has_written(model, control.steps, text):
            text = "recorded the step numbers of %s: %s"
            log.info(text, model.__name__, wanted, extra=log_fields(model.tracker.use_case.name))
            return
        control = read(model)
    raise TrackerError(f"another program changed the recorded steps of {model.__name__} {_TRIES} times: try again")


def _has_written(model: type[TaskRow], seen: str | None, wanted: str) -> bool:
    values = {"wanted": wanted, "mark": model.tracker.use_case.name} | ({} if seen is None else {"seen": seen})
    request = {
        "Key": key_of_control(model),
        "UpdateExpression": "SET #steps = :wanted, #mark = :mark",
        "ConditionExpression": "attribute_not_exists(#steps)" if seen is None else "#steps = :seen",
        "ExpressionAttributeNames": {"#steps": _STEPS, "#mark": GROUP_OF},
        "ExpressionAttributeValues": {f":{name}": {STRING: value} for name, value in values.items()},
    }
    try:
        send(model.tracker.connection(), "UpdateItem", request)
    except Refused:  # an earlier copy of this request may have been applied, which the next read shows
        return False
    return True
