"""The tables at the end: rows, index entries, off-row items, counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.ledger import Mark
from tests.chaos.records import Record


@dataclass(frozen=True)
class Entry:
    """A row as the index has it, or should have it."""

    task: str
    status_key: str
    due_time: str
    projected: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Row:
    entry: Entry
    code: int
    attempt: int
    fence: int
    unfinished: Sequence[int]
    create_time: str
    update_time: str
    status_key: str
    records: Sequence[Record] = ()
    whole: bool = True
    skipped_steps: Sequence[int] = ()
    of_round: Sequence[str] = ()
    """Attributes that failures and parts have left."""


@dataclass(frozen=True)
class QueueRow:
    entry: Entry
    code: int
    status_key: str
    marks: Sequence[tuple[int, int]] = ()
    """Its successes: the step's code and the run's fence."""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupLeft:
    turn: str | None
    waiting: Sequence[str]
    log: Sequence[tuple[str, int, int]]
    """Its tasks' successes in order: task, step number and fence."""


@dataclass(frozen=True)
class Final:
    rows: dict[str, Row]
    index: Counter[Entry]
    counts: dict[int, int]
    """The library's counts, by code."""
    queried: dict[int, list[str]]
    """The tasks that the library's query of a state returns, by code."""
    chunks: dict[str, list[str]] = field(default_factory=dict)
    """Range keys of off-row items, by task."""
    ledger: dict[str, dict[str, Sequence[Mark]]] = field(default_factory=dict)
    """Marks of runs' transactions, by task and account."""
    queues: dict[str, QueueRow] = field(default_factory=dict)
    """The queues' tasks, by use case and id."""
    groups: dict[str, GroupLeft] = field(default_factory=dict)
    lost_slots: Sequence[int] = ()

    @property
    def every(self) -> list[Row | QueueRow]:
        return [*self.rows.values(), *self.queues.values()]
