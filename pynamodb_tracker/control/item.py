"""What the control item holds, and how it is read.

paused#200   {token, until, reason, by, time}; without `until`, the step was resumed
steps        JSON: {"200": ["ship"]}, the names that each number has had
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pynamodb.constants import MAP, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, send
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.row import TaskRow

Names = dict[int, list[str]]
"""The names of each number, the oldest first."""

STEPS = "steps"
PAUSED = "paused#"
_RANGE_KEY = "#control"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a step: until then, workers, batches and handlers do not start its tasks."""

    step: str
    """The name of the step; its number if this program does not declare it."""
    number: int
    until: datetime | None
    """None until somebody resumes the step."""
    reason: str
    by: str
    """Who has paused it: a person's name, or `host:pid`."""
    time: datetime
    """When it was paused."""

    @property
    def is_in_force(self) -> bool:
        """Whether it still keeps tasks from being started."""
        return self.until is None or clock.now() < self.until

    def __str__(self) -> str:
        until = "until it is resumed" if self.until is None else f"until {clock.in_words(self.until)}"
        return f"{self.step} is paused {until}, by {self.by}: {self.reason}"


class Control(NamedTuple):
    """The control item, read once."""

    pauses: dict[int, Pause]
    """The last pause of each number that was not resumed; it may be over."""
    steps: str | None
    """The stored names; None before any were recorded."""

    @property
    def names(self) -> Names:
        """The names of each number."""
        return {int(number): names for number, names in json.loads(self.steps or "{}").items()}


def key(model: type[TaskRow]) -> Item:
    """Return the stored key of the control item; of no task, because no use case has a `#` in its name."""
    return {"task_id": {STRING: model.tracker.use_case.name}, "use_case_id": {STRING: _RANGE_KEY}}


def check(model: type[TaskRow]) -> None:
    """Raise a TrackerError if the use case has no control item."""
    use_case = model.tracker.use_case
    if not use_case.control:
        raise TrackerError(
            f"the steps of {model.__name__} cannot be paused: write use_case_id = UseCase({use_case.name!r}, "
            "control=True), and deploy that to all that run its tasks"
        )


def read(model: type[TaskRow], *, within: timedelta | None = None) -> Control:
    """Read the control item, strongly consistent; TrackerError if it is damaged. One request, of one read unit."""
    check(model)
    until = None if within is None else clock.now() + within
    request = {"Key": key(model), "ConsistentRead": True}
    return parse(model, send(model.tracker.connection(), "GetItem", request, until=until).get("Item") or {})


def in_force(model: type[TaskRow]) -> list[Pause]:
    """Return the pauses that are in force now, in the order of the steps."""
    return [pause for _, pause in sorted(read(model).pauses.items()) if pause.is_in_force]


def parse(model: type[TaskRow], item: Item) -> Control:
    """Return what an item says."""
    try:
        pauses = {pause.number: pause for pause in _pauses(model, item)}
        control = Control(pauses, item[STEPS][STRING] if STEPS in item else None)
        _ = control.names
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(model, repr(error)) from error
    return control


def damaged(model: type[TaskRow], why: str) -> TrackerError:
    """Return the error for a control item that cannot be read."""
    name = model.tracker.use_case.name
    return TrackerError(f"cannot read the control item of {name!r}: another program has changed it: {why}")


def _pauses(model: type[TaskRow], item: Item) -> Iterator[Pause]:
    for attribute, value in item.items():
        if attribute.startswith(PAUSED) and "until" in value[MAP]:
            yield pause_in(model, int(attribute.removeprefix(PAUSED)), value[MAP])


def pause_in(model: type[TaskRow], number: int, stored: Mapping[str, Any]) -> Pause:
    """Return a pause from its stored form."""
    text = {name: value[STRING] for name, value in stored.items()}
    step = next((codes.step for codes in model.tracker.steps if codes.pending == number), str(number))
    until = datetime.fromisoformat(text["until"])
    time = datetime.fromisoformat(text["time"])
    return Pause(step, number, None if until == clock.NEVER else until, text["reason"], text["by"], time)
