"""What a success does to its own row beyond the plain move to the next state.

Most successes have no Ending: the plain write is rendered once per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.row import FORMAT, TaskRow
from pynamodb_tracker.transitions import conditions as when
from pynamodb_tracker.transitions.prepared import fill, slot

Part = tuple[Sequence[Condition], Sequence[Action]]
"""Guards, and what they allow."""


class Ending:
    """Where a success leads a task, and which parts its write has; the parts are in `PARTS`, by their names."""

    __slots__ = (
        "changes",
        "code",
        "due",
        "expires",
        "parts",
        "row",
        "values",
    )  # no dataclass: cold starts pay for building one

    def __init__(self, code: int) -> None:
        self.code = code
        """The state after it."""
        self.due: datetime | None = None
        """When the task is due then; None for now."""
        self.expires = True
        """Whether a task that has ended gets a time to live, where the use case has one."""
        self.parts: list[str] = []
        """The parts of the write; part of what tells one rendered write from another."""
        self.values: dict[str, Any] = {}
        """The values of the slots of these parts, in their stored form."""
        self.row: dict[str, Any] = {}
        """The tracker's attributes of the row after it, beyond those of every success."""
        self.changes: Changes = {}
        """The user's attributes that it sets, in place of what the block has assigned to them."""

    def start_over(self, token: str) -> None:
        """Let another round of the task's life begin."""
        self.add("starts over", {"round": token, "waits": None, "wait_until": None}, round=token)

    def add(self, part: str, row: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Add a part with the values of its slots, and what the row has after it."""
        self.parts.append(part)
        self.values.update(values)
        self.row.update(row or {})


def _nothing_asked() -> Part:
    return [when.nothing_asked()], []


def _asked_as_seen() -> Part:
    return [when.asked_as_seen()], [TaskRow.again.remove()]


def _starts_over() -> Part:
    actions = [fill(TaskRow.round, "round"), TaskRow.waits.remove(), TaskRow.wait_until.remove()]
    return [], actions


def _begins_to_wait() -> Part:
    children: Any = slot(TaskRow.waits, "children")
    waits = TaskRow.waits.set((TaskRow.waits | 0) + children)
    return [], [waits, TaskRow.format_version.set(FORMAT)]


def _goes_on_waiting() -> Part:
    return [when.waits_for_others()], []


def _until() -> Part:
    return [], [fill(TaskRow.wait_until, "wait_until")]


def _without_limit() -> Part:
    return [], [TaskRow.wait_until.remove()]


def _counted() -> Part:
    return [], [TaskRow.parent.remove()]


def _set(attribute: Attribute[Any]) -> Part:
    return [], [fill(attribute, attribute.attr_name)]


def _remove(attribute: Attribute[Any]) -> Part:
    return [], [attribute.remove()]


_OF_RULES: Sequence[Attribute[Any]] = (
    TaskRow.repeat,
    TaskRow.occurrence,
    TaskRow.occurrence_count,
    TaskRow.extra_time,
)

PARTS: Mapping[str, Callable[[], Part]] = {
    "nothing asked": _nothing_asked,
    "asked as seen": _asked_as_seen,
    "starts over": _starts_over,
    "begins to wait": _begins_to_wait,
    "goes on waiting": _goes_on_waiting,
    "until": _until,
    "without limit": _without_limit,
    "counted": _counted,
    **{f"set {attribute.attr_name}": partial(_set, attribute) for attribute in _OF_RULES},
    **{f"remove {attribute.attr_name}": partial(_remove, attribute) for attribute in _OF_RULES},
}
"""What a success may consist of, beyond the plain move and the user's changes."""
