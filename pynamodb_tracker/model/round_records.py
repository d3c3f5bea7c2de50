"""Records of a round that the next attempt needs: the parts that are done, and the time of the first failure.

Each record names its round. Other rounds ignore it.

    once            {"round": ..., "200/charge": JSON}, by step number and part name
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
    """The results of the finished parts of a round, as JSON."""

    round: str
    results: Mapping[tuple[str, str], str]
    """By step number, as text, and part name."""

    @classmethod
    def read(cls, stored: Mapping[str, str] | None, of_round: str) -> DoneParts:
        """Return the parts of this round in a stored map."""
        if stored is None or stored.get(_ROUND) != of_round:
            return cls(of_round, {})
        keys = ((key, *key.partition("/")) for key in stored if key != _ROUND)
        return cls(of_round, {(number, part): stored[key] for key, number, _, part in keys})

    @property
    def stored(self) -> dict[str, str]:
        """The stored form."""
        return {_ROUND: self.round} | {f"{number}/{part}": text for (number, part), text in self.results.items()}

    @property
    def item(self) -> dict[str, Any]:
        """The stored form in DynamoDB's format."""
        attribute: Any = TaskRow.checkpoints
        return {attribute.attr_type: attribute.serialize(self.stored)}


def result_text(result: object) -> str:
    """Return the result of a part as JSON. Raises ValueError or TypeError if that is not possible."""
    text = strict_json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    if strict_json.is_too_deep(result, text):
        raise strict_json.too_deep("it")
    return text


def first_failure_text(time: datetime, number: int, of_round: str) -> str:
    """Return the stored form of a first failure."""
    return f"{clock.stamp(time)} {number} {of_round}"


def first_failure(stored: str | None, number: int, of_round: str) -> datetime | None:
    """Return when a task first failed at this step in this round, or None if the row does not say."""
    time, _, of = (stored or "").partition(" ")
    return clock.read(time) if of == f"{number} {of_round}" else None
