"""The views of the page and the terminal as JSON for programs."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker.presentation.sentence import Sentence
from pynamodb_tracker.presentation.task_facts import name_of, summary_as_json
from pynamodb_tracker.presentation.text import stamp
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

_OF_CHARTS = frozenset({"minutes", "at_least"})  # only charts need these


def plain(value: Any) -> Any:  # noqa: C901, PLR0911 - one for each kind
    """Return a value as JSON: states by their names, times in UTC, durations in seconds."""
    match value:
        case Sentence():
            return str(value)
        case State():
            return name_of(value)
        case BoundStep():
            return value.name
        case Task():
            return summary_as_json(value)  # a view adds the attributes that are not hidden
        case type():
            return value.__name__
        case datetime():
            return stamp(value)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(plain(key)): plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
        case _ if is_dataclass(value):
            properties = [name for name, each in vars(type(value)).items() if isinstance(each, property)]
            names = [*(field.name for field in fields(value)), *properties]
            return {name: plain(getattr(value, name)) for name in names if name not in _OF_CHARTS}
        case _:
            return None if callable(value) else value
