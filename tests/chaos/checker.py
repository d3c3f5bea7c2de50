"""Checks a history, and the tables at its end, against everything that the library promises."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos import (
    checks_of_branches,
    checks_of_data,
    checks_of_follow_ups,
    checks_of_groups,
    checks_of_joins,
    checks_of_ledger,
    checks_of_merges,
    checks_of_parts,
    checks_of_pauses,
    checks_of_queues,
    checks_of_rows,
    checks_of_runs,
    checks_of_schedule,
    checks_of_signals,
    checks_of_slots,
)
from tests.chaos.final import Final
from tests.chaos.runs import History

OF_QUEUES = (
    checks_of_queues,
    checks_of_merges,
    checks_of_schedule,
    checks_of_follow_ups,
    checks_of_joins,
    checks_of_groups,
    checks_of_signals,
)
OF_ROWS = (
    tuple(
        check
        for part in (checks_of_data, checks_of_rows, checks_of_ledger, checks_of_branches, *OF_QUEUES)
        for check in part.CHECKS
    )
    + checks_of_slots.OF_FINAL
)
"""Checks of the tables."""
OF_RUNS = tuple(
    check for part in (checks_of_runs, checks_of_parts, checks_of_pauses, checks_of_slots) for check in part.CHECKS
)
"""Checks of the history."""


@dataclass(frozen=True)
class Violation:
    promise: str
    told: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.told}"


def violations(history: History, final: Final) -> list[Violation]:
    broken: list[Violation] = []
    for of_runs in OF_RUNS:
        broken += _named(of_runs.__name__, of_runs(history))
    for of_rows in OF_ROWS:
        broken += _named(of_rows.__name__, of_rows(history, final))
    return broken


def _named(check: str, told: Iterable[str]) -> list[Violation]:
    return [Violation(check.replace("_", " "), each) for each in dict.fromkeys(told)]
