"""What is in the tables in the end: rows, index entries, off-row items, counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.ledger import Mark
from tests.chaos.records import Record


@dataclass(frozen=True)
class Entry:
    """A row as the index has it, or should have it: all that is projected, as it is stored."""

    task: str
    status_key: str
    due_time: str
    projected: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Row:
    """A task as it was left."""

    entry: Entry
    code: int
    attempt: int
    fence: int
    unfinished: Sequence[int]
    create_time: str
    update_time: str
    status_key: str
    """What its index key should be."""
    records: Sequence[Record] = ()
    whole: bool = True
    skipped_steps: Sequence[int] = ()
    of_round: Sequence[str] = ()
    """Which of the attributes it has that failures and parts have left."""


@dataclass(frozen=True)
class QueueRow:
    """A task of a queue as it was left."""

    entry: Entry
    code: int
    status_key: str
    """What its index key should be."""
    marks: Sequence[tuple[int, int]] = ()
    """Its successes: the code of the step, and the fence of the run."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is in it."""


@dataclass(frozen=True)
class GroupLeft:
    """A group as it was left."""

    turn: str | None
    waiting: Sequence[str]
    log: Sequence[tuple[str, int, int]]
    """What its tasks have done, in order: the task, the number of the step, and the fence of the run."""


@dataclass(frozen=True)
class Final:
    """All that is left."""

    rows: dict[str, Row]
    index: Counter[Entry]
    counts: dict[int, int]
    """By code, what the library counts."""
    queried: dict[int, list[str]]
    """By code, the tasks that the library's query of that state returns."""
    chunks: dict[str, list[str]] = field(default_factory=dict)
    """By task, the range keys of its off-row items."""
    ledger: dict[str, dict[str, Sequence[Mark]]] = field(default_factory=dict)
    """By task and account, what transactions of its runs have left there."""
    queues: dict[str, QueueRow] = field(default_factory=dict)
    """By use case and id, the tasks of the queues."""
    groups: dict[str, GroupLeft] = field(default_factory=dict)
    lost_slots: Sequence[int] = ()
    """Slots of the limit that nobody can take."""

    @property
    def every(self) -> list[Row | QueueRow]:
        """All tasks."""
        return [*self.rows.values(), *self.queues.values()]
