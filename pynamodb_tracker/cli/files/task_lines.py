"""What `create` takes for a line of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.cli.exits import CannotRunError
from pynamodb_tracker.cli.files.json_values import from_json, from_text, time_of
from pynamodb_tracker.cli.files.task_files import File, Form
from pynamodb_tracker.cli.lookup import state_named
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

__all__ = ["Creation", "to_begin_in"]


@dataclass(frozen=True, slots=True)
class Creation:
    """How tasks of a class are made of the lines of a file."""

    model: type[Task]
    form: Form
    begin: State[Any] | None
    """Where a task begins whose line does not say it; None for the first step."""

    def check_columns(self, source: File) -> None:
        """Refuse a header that cannot be meant, before anything is created."""
        if source.form is not Form.CSV or source.is_empty:
            return
        known = _known(self.model)
        for column in source.columns:
            if column not in known:
                raise CannotRunError(f"{source.name}:1: {_unknown(self.model, column)}")
            if source.columns.count(column) > 1:
                raise CannotRunError(f"{source.name}:1: the column {column!r} is there twice")
        if "task_id" not in source.columns:
            raise CannotRunError(f"{source.name}:1: there is no column 'task_id'")

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `create` takes; an error says what is wrong with a value."""
        own = dict(self.model.tracker.own_attributes())
        read = from_text if self.form is Form.CSV else from_json
        found: dict[str, Any] = {} if self.begin is None else {"state": self.begin}
        for key, value in values.items():
            if key == "task_id":
                found[key] = value
            elif value is None or value == "":
                found |= {} if value is None or self.form is Form.CSV else {key: value}
            elif key == "state":
                found[key] = to_begin_in(self.model, str(value))
            elif key == "due_time":
                found[key] = _read(lambda _attribute, text: time_of(text), None, key, value)
            elif key not in own:
                raise CannotRunError(_unknown(self.model, key))
            else:
                found[key] = _read(read, own[key], key, value)
        if not found.get("task_id"):
            raise CannotRunError("it has no task_id")
        return found


def _read(read: Any, attribute: Any, key: str, value: Any) -> Any:
    try:
        return read(attribute, value)
    except (TypeError, ValueError) as error:
        raise CannotRunError(f"{key}: {error}") from None


def to_begin_in(model: type[Task], name: str) -> State[Any]:
    """Return the state in which a task begins that comes from there: nobody holds its lock."""
    state = state_named(model, name)
    if state.status is None:
        raise CannotRunError(f"no step of {model.__name__} declares {name}: declare its step, or write another state")
    return getattr(model, state.step).pending if state.status is Status.IN_PROGRESS else state


def _known(model: type[Task]) -> list[str]:
    return ["task_id", "state", "due_time", *dict(model.tracker.own_attributes())]


def _unknown(model: type[Task], key: str) -> str:
    hint = did_you_mean(key, _known(model)) or f"; there is {', '.join(_known(model))}"
    return f"{model.__name__} has no attribute {key!r}{hint}"
