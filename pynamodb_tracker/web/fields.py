"""The fields of forms and addresses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException

from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import times
from pynamodb_tracker.presentation.listing import Filter
from pynamodb_tracker.presentation.task_facts import WAITS, steps_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web.words import visible

FILTER = ("step", "state", "since", "until", "error", "exactly", "newest", "waits")
"""The query of a task list, except its cursor."""


class FieldError(ValueError):
    """A form field has a wrong value. The page shows the form again and marks the field."""

    def __init__(self, field: str, why: object) -> None:
        super().__init__(str(why))
        self.field = field


def step_named(model: type[Task], name: str | None) -> BoundStep[Any]:
    for step in steps_of(model):
        if step.name == name:
            return step
    raise HTTPException(400, f"{model.__name__} has no step {visible(name or '')!r}.")


def state_of(model: type[Task], query: Mapping[str, str]) -> State[Any]:
    if query.get("state") == str(model.cancelled):
        return model.cancelled
    step, status = step_named(model, query.get("step")), query.get("state", "")
    if status not in list(Status):
        raise HTTPException(400, f"{visible(status)!r} is not a status of a step.")
    state: State[Any] = getattr(step, status)
    return state


def filter_of(model: type[Task], query: Mapping[str, str]) -> Filter:
    since, until = time_of(query, "since"), time_of(query, "until")
    if since is not None and until is not None and since >= until:
        raise FieldError("until", "this must be after the other time")
    state, waits = state_of(model, query), query.get("waits", "")
    error, exactly = query.get("error", "").strip(), bool(query.get("exactly"))
    waits = waits if state.status is Status.PENDING and waits in WAITS else ""
    return Filter(state, since, until, error, exactly, waits, bool(query.get("newest")))


def time_of(query: Mapping[str, str], name: str) -> datetime | None:
    """Return the time in a field, or None if it is empty. A duration counts back from now."""
    text = query.get(name, "").strip()
    try:
        return times.moment(text) if text else None
    except ValueError as error:
        raise FieldError(name, error) from None


def whole_number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        raise FieldError(name, f"{name} must be a number up to {most:,}.")
    return min(int(text), most)
