"""What each role does with the library: a row of the page about permissions, and functions that do what it names."""

from collections.abc import Callable
from typing import Literal, get_args

from tests.infra.permissions import Record

Role = Literal["Worker", "Reader", "Operator", "Scheduler"]

Act = Callable[[Record], None]
"""Prepares what it needs, and does what is recorded while the record is entered."""

_ACTS: dict[Role, dict[str, list[Act]]] = {role: {} for role in get_args(Role)}


def row(role: Role, name: str) -> Callable[[Act], Act]:
    """Register an act of a role, under the row of the page that lists its permissions."""

    def register(act: Act) -> Act:
        _ACTS[role].setdefault(name, []).append(act)
        return act

    return register


def rows_of(role: Role) -> dict[str, list[Act]]:
    return _ACTS[role]


def acts_of(role: Role) -> list[Act]:
    """Return all acts of a role; an operator does what workers and readers do, too."""
    roles: list[Role] = ["Worker", "Reader", "Operator"] if role == "Operator" else [role]
    return [act for each in roles for acts in _ACTS[each].values() for act in acts]
