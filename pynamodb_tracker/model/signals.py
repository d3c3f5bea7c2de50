"""Signals from outside that a task awaits: their names and their stored form."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pynamodb.constants import MAP, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import check_name, shown
from pynamodb_tracker.model.data import bounded_json

T = TypeVar("T")
MAX_BYTES = 1024  # as JSON; every write of the task is charged for it
MAX_LABEL_BYTES = 256  # of a sender name or an event key


class SignalName(Generic[T]):
    """A signal that the tasks of a use case may await, by its stored name."""

    def __init__(self, model: type[T], name: str) -> None:
        self.model = model
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.model.__name__}.{self.name}>"


class ReceivedSignal(NamedTuple):
    """A signal that a task received in this round."""

    value: Any
    """A JSON value."""
    by: str | None
    """Who sent it."""
    time: datetime
    """When it was stored."""
    token: str
    """The call that sent it recognizes its own write by this."""
    key: str | None
    """The sender's key for the event, such as a payment provider's event id."""

    def stored(self, text: str) -> Item:
        """Return the stored form, with the value as text."""
        texts = {"value": text, "by": self.by, "time": clock.stamp(self.time), "token": self.token, "key": self.key}
        return {name: {STRING: each} for name, each in texts.items() if each is not None}

    @classmethod
    def read(cls, stored: Item) -> Self:
        """Parse the stored form."""
        texts = {name: value[STRING] for name, value in stored.items()}
        value, time = json.loads(texts["value"]), clock.parse(texts["time"])
        return cls(value, texts.get("by"), time, texts["token"], texts.get("key"))


def check_signal(model: type, given: object) -> str:
    if not isinstance(given, SignalName) or not issubclass(model, given.model):
        raise TypeError(
            f"wait_for takes a signal that {model.__name__} declares, such as {model.__name__}.paid for "
            f"paid = Signal(), not {shown(given)}"
        )
    return given.name


def check_label(name: str, given: object) -> str | None:
    label = check_name(name, given)
    if label is not None and len(label.encode()) > MAX_LABEL_BYTES:
        raise ValueError(f"{name} has at most {MAX_LABEL_BYTES} bytes, not {len(label.encode()):,}")
    return label


def value_text(value: object, name: str, task_id: str) -> str:
    described, advice = f"the signal {name} of {task_id!r}", "put it into an object store, and send its key"
    return bounded_json(value, name, described, MAX_BYTES, advice, task_id=task_id, attribute=name)


def too_late(row: Any, name: str) -> TaskError:
    why = "the task was cancelled" if row.cancelled is not None else "it is late, and the task has done without it"
    message = f"{name} of {type(row).__name__} {row.task_id!r} is not stored: {why}"
    return TaskError(message, task_id=row.task_id, task=row)


def encode_signals(signals: Mapping[str, ReceivedSignal]) -> Item:
    return {name: {MAP: each.stored(strict_json.dumps(each.value))} for name, each in signals.items()}


def decode_signals(stored: Item) -> dict[str, ReceivedSignal]:
    if wrong := [name for name, each in stored.items() if MAP not in each]:
        raise ValueError(f"{shown(wrong[0])} is not a map")
    return {name: ReceivedSignal.read(each[MAP]) for name, each in stored.items()}
