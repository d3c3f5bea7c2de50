"""Time to live: whether DynamoDB deletes the finished tasks that `keep_for` lets go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pynamodb_tracker.doctor.description import Description, NotLookedAt
from pynamodb_tracker.doctor.finding import Finding, Severity
from pynamodb_tracker.model import TaskRow

__all__ = ["in_time_to_live"]

_SUBJECT = "time to live"
_ATTRIBUTE = TaskRow.expire_time.attr_name


def in_time_to_live(description: Description) -> Iterator[Finding]:
    """Yield a time to live that is off, or goes by another attribute; wrong only where a use case has `keep_for`.

    A strongly consistent global table cannot have one:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html
    """
    kept = ", ".join(model.__name__ for model in description.models[1:] if model.tracker.use_case.keep_for)
    told, expected = description.time_to_live, f"on, by {_ATTRIBUTE}"
    found = _found(told)
    if description.is_strong_elsewhere:
        if kept:
            impossible = "impossible in a strongly consistent global table"
            yield Finding(Severity.WRONG, _SUBJECT, impossible, "no keep_for", f"{_stays(kept)} Leave keep_for out.")
    elif found != expected:
        severity = Severity.WRONG if kept and not isinstance(told, NotLookedAt) else Severity.ADVICE
        meaning = _stays(kept) if kept else "No use case that is known here has keep_for: it makes no difference yet."
        other = " DynamoDB deletes tasks by the other attribute, running ones too." if found.startswith("on") else ""
        yield Finding(severity, _SUBJECT, found, expected, meaning + other)


def _found(told: Mapping[str, Any] | NotLookedAt) -> str:
    if isinstance(told, NotLookedAt):
        return str(told)
    is_on = told.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
    return f"on, by {told.get('AttributeName')}" if is_on else "off"


def _stays(kept: str) -> str:
    return f"Without it, keep_for of {kept} has no effect: queries hide what has expired, and it stays and is counted."
