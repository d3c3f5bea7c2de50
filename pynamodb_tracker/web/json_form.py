"""The JSON form of the views for scripts: the context of their templates under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request

from pynamodb_tracker.presentation.task_facts import name_of, summary_as_json
from pynamodb_tracker.presentation.text import stamp
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

TYPE = "application/json"
SUFFIX = ".json"
_BY_SUFFIX = "pynamodb_tracker.json"

_OF_CHARTS = frozenset({"shares", "part", "titles", "minutes", "at_least"})
"""Only charts need these."""

OF_FORMS = frozenset({"given", "selected", "pages", "most_shown", "sendable", "sends"})
"""Only forms and links need these."""


def without_suffix(scope: dict[str, Any], use_cases: Mapping[str, object]) -> dict[str, Any]:
    """Return the scope of a request without `.json` at the end of its path, and with a mark that it was there."""
    if not scope["path"].endswith(SUFFIX):
        return scope
    path = scope["path"].removesuffix(SUFFIX)
    return scope | {"path": path + "/" * (path.rpartition("/")[2] in use_cases), _BY_SUFFIX: True}


def is_wanted(request: Request) -> bool:
    """Return whether a request asks for JSON by its path or its Accept header."""
    accepted = request.headers.get("accept", "")
    return is_by_suffix(request) or (TYPE in accepted and "text/html" not in accepted)


def is_by_suffix(request: Request) -> bool:
    """Return whether the path of a request asks for JSON."""
    return bool(request.scope.get(_BY_SUFFIX))


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """Return a view's value as JSON: states by their names, times in UTC, durations in seconds."""
    match value:
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
