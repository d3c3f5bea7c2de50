"""Time to live: whether DynamoDB deletes the finished tasks that `keep_for` lets go, and no others."""

from __future__ import annotations

from collections.abc import Iterator

from pynamodb.constants import NUMBER

from pynamodb_tracker.doctor.description import Description, NotLookedAt
from pynamodb_tracker.doctor.finding import Finding, Severity
from pynamodb_tracker.model.row import TaskRow

__all__ = ["in_time_to_live"]

_SUBJECT = "time to live"
_ATTRIBUTE = TaskRow.expire_time.attr_name
_EXPECTED = f"on, by {_ATTRIBUTE}"
_CALL = "update_ttl(ignore_update_ttl_errors=False)"


def in_time_to_live(description: Description) -> Iterator[Finding]:
    """Yield a time to live that is off, that goes by another attribute, or that nobody can look at.

    A strongly consistent global table cannot have one:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/globaltables-CoreConcepts.html
    """
    kept = ", ".join(model.__name__ for model in description.models[1:] if model.tracker.use_case.keep_for)
    told, call = description.time_to_live, f"{description.declared.owner.__name__}.{_CALL}"
    if description.is_strong_elsewhere:
        if kept:
            impossible = "impossible in a strongly consistent global table"
            to_do = "Leave keep_for out, and delete tasks by delete_task."
            yield Finding(Severity.WRONG, _SUBJECT, impossible, "no keep_for", _effect(kept), to_do)
    elif isinstance(told, NotLookedAt):
        yield Finding(Severity.ADVICE, _SUBJECT, str(told), _EXPECTED, _effect(kept), told.to_do)
    elif told.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        severity = Severity.WRONG if kept else Severity.ADVICE
        to_do = f"Call {call}." if kept else f"Before a use case has keep_for, call {call}."
        yield Finding(severity, _SUBJECT, "off", _EXPECTED, _effect(kept), to_do)
    elif (other := told.get("AttributeName")) not in {None, _ATTRIBUTE}:
        yield _by_another(description, str(other), kept, call)


def _by_another(description: Description, other: str, kept: str, call: str) -> Finding:
    """Return what it means that the time to live goes by another attribute, which may be somebody's on purpose.

    DynamoDB deletes by numbers alone: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-before-you-start.html
    """
    deletes = any(
        (attribute.attr_name, attribute.attr_type) == (other, NUMBER)
        for model in description.models
        for attribute in model.get_attributes().values()
    )
    meaning = [_effect(kept)] if kept else []
    if deletes:
        meaning.append(f"DynamoDB deletes tasks by {other}, also while they are in progress.")
    else:
        meaning.append(f"No model that is known here stores {other} as a number: tasks are not deleted by it.")
    return Finding(
        Severity.WRONG if kept else Severity.DANGER if deletes else Severity.ADVICE,
        _SUBJECT,
        f"on, by {other}",
        _EXPECTED,
        " ".join(meaning),
        f"Turn it off, wait for an hour, and call {call}.",
    )


def _effect(kept: str) -> str:
    if kept:
        return (
            f"Without it, tasks of {kept} are not deleted when keep_for is over: queries and counts hide them, and "
            "they stay."
        )
    return "No use case that is known here has keep_for: it makes no difference yet."
