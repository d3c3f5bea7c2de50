"""What the runs of a round leave in the row for the next attempt: the parts that are done, and the first failure.

Each is stored with its round, and ignored in every other one.

    once            {"round": ..., "200/charge": JSON}, by the number of the step and the name of the part
    first_failure   "time 200 round"
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb_tracker import clock, strict_json
from pynamodb_tracker.model.row import TaskRow

_ROUND = "round"


class DoneParts(NamedTuple):
    """The results of the parts that the runs of a round have done, as JSON."""

    round: str
    results: Mapping[tuple[str, str], str]
    """By the number of the step, as text, and the name of the part."""

    @classmethod
    def read(cls, stored: Mapping[str, str] | None, of_round: str) -> DoneParts:
        """Return what a row has stored of this round."""
        if stored is None or stored.get(_ROUND) != of_round:
            return cls(of_round, {})
        found = {key: text for key, text in stored.items() if key != _ROUND}
        return cls(of_round, {_split(key): text for key, text in found.items()})

    @property
    def stored(self) -> dict[str, str]:
        """The stored form."""
        return {_ROUND: self.round} | {f"{number}/{part}": text for (number, part), text in self.results.items()}

    @property
    def item(self) -> dict[str, Any]:
        """The same in the form of DynamoDB's API."""
        attribute: Any = TaskRow.checkpoints
        return {attribute.attr_type: attribute.serialize(self.stored)}


def _split(key: str) -> tuple[str, str]:
    number, _, part = key.partition("/")
    return number, part


def result_text(result: object) -> str:
    """Return the result of a part as JSON; ValueError or TypeError if it has none."""
    text = strict_json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    if strict_json.is_too_deep(result, text):
        raise strict_json.too_deep("it")
    return text


def first_failure_text(time: datetime, number: int, of_round: str) -> str:
    """Return the stored form of when a task first failed at a step in a round."""
    return f"{clock.stamp(time)} {number} {of_round}"


def first_failure(stored: str | None, number: int, of_round: str) -> datetime | None:
    """Return when a task first failed at this step in this round; None if the row does not say that."""
    time, _, of = (stored or "").partition(" ")
    return clock.read(time) if of == f"{number} {of_round}" else None
