"""Reads all use cases at once, with few requests: four for each step, and one for each hundred small items or rows.

Nothing here concludes anything. `now` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.control import flow, item, records
from pynamodb_tracker.control.flow import Hour
from pynamodb_tracker.control.item import Pause
from pynamodb_tracker.control.records import Command
from pynamodb_tracker.dynamodb.connection import MOST_KEYS, Item, get_items
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows_of_table
from pynamodb_tracker.model.overflow import RowKey, by_key, item_key, key_of
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.overview import Number
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State, count_due, peek
from pynamodb_tracker.task.task import Task

MOST = 1000
"""How many tasks of a state are counted. With a larger state, numbers are at least that."""
_MOST_READ = 100
"""How many entries of pending tasks, and of tasks in progress, are read. More are only counted."""
MOST_WAITING = 100
"""How many rows of tasks that wait, or are due later, are read for a use case."""
_MOST_LOCKS = 20
"""How many rows of tasks with an expired lock are read for a step, because the lock may have been extended."""
_MOST_OLDEST = 100
"""How many of the oldest failures of a large state are read."""

V = TypeVar("V")
NEVER = clock.stamp(clock.NEVER)


@dataclass(slots=True)
class StateGlance:
    """The index entries of a state that were read, and how many there are."""

    entries: Sequence[Item]
    more: bool
    """Whether the state has more."""
    number: Number = field(init=False)

    def __post_init__(self) -> None:
        self.number = Number(len(self.entries), self.more)


@dataclass(slots=True)
class StepGlance:
    """The entries of a step's states. Failed and ignored ones are in the order of their due times, the last first."""

    step: BoundStep[Any]
    states: dict[Status | None, StateGlance]
    due: Number
    later: StateGlance
    """The pending entries that are due later, or wait."""
    oldest_failed: Sequence[Item] = ()
    """The first failed entries by due time, if there are more than were read."""


@dataclass(slots=True)
class ModelGlance:
    """What was read of a use case."""

    model: type[Task]
    steps: list[StepGlance] = field(default_factory=list)
    hours: Sequence[Hour] | None = None
    """None if transitions are not counted, or the counts cannot be read."""
    pauses: Sequence[Pause] = ()
    schedules: Sequence[str] = ()
    commands: Sequence[Command] = ()


@dataclass(slots=True)
class Glance:
    """What was read of all use cases."""

    now: datetime
    models: dict[type[Task], ModelGlance]
    rows: dict[RowKey, Task] = field(default_factory=dict)
    """Rows of tasks that wait, whose locks have expired, or that repeat."""
    unseen: dict[str, None] = field(default_factory=dict)
    """Why something could not be read, each reason once."""
    denied: PynamoDBException | None = None

    def attempt(self, what: str, ask: Callable[[], V]) -> V | None:
        """Return the answer, or None if reading is denied or an item is damaged, which is noted."""
        try:
            return ask()
        except PynamoDBException as error:
            if error.cause_response_code not in flow.DENIED:
                raise
            self.denied = error
            self.unseen[f"{what}: {one_line(error)}"] = None
        except TrackerError as error:
            self.unseen[f"{what}: {error}"] = None
        return None

    def read_rows(self, keys: Iterable[RowKey]) -> dict[RowKey, Task]:
        """Return the rows with these keys, as far as they are readable. Each is read once."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self.rows]
        chunks = [
            (model, of_table[at : at + MOST_KEYS])
            for model in self.of_tables()
            if (of_table := [key for key in wanted if key[1] in _names_beside(model, self.models)])
            for at in range(0, len(of_table), MOST_KEYS)
        ]
        for found in side_by_side(lambda chunk: self.attempt("rows", lambda: rows_of_table(*chunk)), chunks):
            self.rows |= {key: readable(row) for key, row in (found or {}).items() if row.tracker.steps}
        return self.rows

    def read_items(self, keys: Mapping[RowKey, type[Task]]) -> dict[RowKey, Item]:
        """Return stored items of the tables of these use cases."""
        found: dict[RowKey, Item] = {}
        for table in self.of_tables():
            of_table = [item_key(*key) for key, model in keys.items() if model.tracker.table is table.tracker.table]
            found |= by_key(get_items(table.tracker.connection(), of_table))
        return found

    def of_tables(self) -> list[type[Task]]:
        """Return a use case of each table."""
        return list({id(model.tracker.table): model for model in reversed(self.models)}.values())


def glance(models: Sequence[type[Task]]) -> Glance:
    """Read the small items of these use cases, the first entries of each state, and the rows that the index lacks.

    Raises PynamoDB's error if the table cannot be reached, or no state may be read. Another denied read is noted.
    """
    found = Glance(clock.now(), {model: ModelGlance(model) for model in models})
    _read_small_items(found)
    asked = [
        (state, *_LIMITS[state.status]) for model in models for step in steps_of(model) for state in states_of(step)
    ]
    read = _peek_all(found, asked)
    after, cut = clock.stamp(found.now), list[StepGlance]()
    for model, of_model in found.models.items():
        for step in steps_of(model):
            states = {state.status: read[state] for state in states_of(step)}
            pending = states[Status.PENDING]
            later = [each for each in pending.entries if each["due_time"]["S"] > after]
            due = Number(len(pending.entries) - len(later))
            of_model.steps.append(StepGlance(step, states, due, StateGlance(later, pending.more)))
            cut += [of_model.steps[-1]] if any(each.more for each in states.values()) else []
    extra = _peek_all(
        found,
        [(each.step.pending, _MOST_READ, True) for each in cut if each.states[Status.PENDING].more]
        + [(each.step.failed, _MOST_OLDEST, False) for each in cut if each.states[Status.FAILED].more],
    )
    side_by_side(lambda each: _count_rest(found, each, extra), cut)
    found.read_rows(key for of_model in found.models.values() for key in _rows_to_read(of_model, found.now))
    return found


_LIMITS: dict[Status | None, tuple[int, bool]] = {
    Status.PENDING: (_MOST_READ, False),
    Status.IN_PROGRESS: (_MOST_READ, False),
    Status.FAILED: (MOST, True),
    Status.IGNORED: (MOST, True),
}
"""How many entries are read first, and whether these are the latest due ones."""


def steps_of(model: type[Task]) -> list[BoundStep[Any]]:
    """Return the steps of a use case."""
    return list(model._bound_steps.values())


def states_of(step: BoundStep[Any]) -> tuple[State[Any], ...]:
    """Return the states of unfinished tasks."""
    return step.pending, step.in_progress, step.failed, step.ignored


def _count_rest(found: Glance, step: StepGlance, extra: Mapping[State[Any], StateGlance]) -> None:
    """Count the tasks of a step's large states, and note the later and the oldest ones that were read."""

    def count(state: State[Any], *, later: bool) -> Number:
        what = f"{state.model.__name__}.{state.step}"
        number = found.attempt(what, lambda: count_due(state, found.now, later=later, up_to=MOST + 1)) or 0
        return Number(min(number, MOST), number > MOST)

    of, after = step.step, clock.stamp(found.now)
    if (last := extra.get(of.pending)) is not None:
        step.due = count(of.pending, later=False)
        later = [entry for entry in last.entries if entry["due_time"]["S"] > after]
        step.later = StateGlance(later, last.more and len(later) == len(last.entries))
        if step.later.more:
            step.later.number = count(of.pending, later=True)
    running = step.states[Status.IN_PROGRESS]
    if running.more:
        running.number = count(of.in_progress, later=False) + count(of.in_progress, later=True)
    if (first := extra.get(of.failed)) is not None:
        step.oldest_failed = first.entries


def _peek_all(found: Glance, asked: Sequence[tuple[State[Any], int, bool]]) -> dict[State[Any], StateGlance]:
    def ask(question: tuple[State[Any], int, bool]) -> tuple[list[Item], bool] | None:
        state, most, latest = question
        what = f"{state.model.__name__}.{state.step}"
        return found.attempt(what, lambda: peek(state, most, latest_due_first=latest))

    answers = side_by_side(ask, asked)
    if found.denied is not None and asked and not any(answers):
        raise found.denied
    return {state: StateGlance(*(answer or ([], False))) for (state, *_), answer in zip(asked, answers, strict=True)}


def _names_beside(model: type[Task], models: Iterable[type[Task]]) -> set[str]:
    return {each.tracker.use_case.name for each in models if each.tracker.table is model.tracker.table}


def _read_small_items(found: Glance) -> None:
    keys: dict[type[Task], list[Item]] = {}
    for model, table in ((model, _table_of(model, found)) for model in found.models):
        use_case = model.tracker.use_case
        own = [*records.keys_of(model), *([item.key_of_control(model)] if model.tracker.obeys_control() else [])]
        keys.setdefault(table, []).extend(own + (flow.keys_of(model, found.now) if use_case.count_transitions else []))
    chunks = [(model, own[at : at + MOST_KEYS]) for model, own in keys.items() for at in range(0, len(own), MOST_KEYS)]

    def read(chunk: tuple[type[Task], list[Item]]) -> dict[RowKey, Item] | None:
        model, own = chunk
        return found.attempt(
            "pauses, counts, schedules and commands",
            lambda: by_key(get_items(model.tracker.connection(), own, consistent=False)),
        )

    answers = side_by_side(read, chunks)
    items = {key: each for answer in answers for key, each in (answer or {}).items()}
    for model, of_model in found.models.items():
        use_case = model.tracker.use_case
        if model.tracker.obeys_control():
            stored = items.get(key_of(item.key_of_control(model)), {})
            control = found.attempt(model.__name__, partial(item.parse, model, stored))
            of_model.pauses = control.in_force if control else ()
        if use_case.count_transitions and None not in answers:
            of_model.hours = flow.hours_in(model, found.now, items)
        of_model.schedules = records.schedules_in(items.get(key_of(records.schedules_key(model)), {}))
        of_model.commands = records.commands_in(items.get(key_of(records.commands_key(model)), {}))


def _table_of(model: type[Task], found: Glance) -> type[Task]:
    return next(each for each in found.of_tables() if each.tracker.table is model.tracker.table)


def _rows_to_read(of_model: ModelGlance, now: datetime) -> list[RowKey]:
    model = of_model.model
    waiting = [step.later.entries for step in of_model.steps if step.later.entries]
    ids = [*of_model.schedules]
    for entries in waiting:
        ids += [entry["task_id"]["S"] for entry in sample(entries, MOST_WAITING // len(waiting))]
    ended = clock.stamp(now - model.tracker.margin)
    for step in of_model.steps:
        running = step.states[Status.IN_PROGRESS].entries[:_MOST_LOCKS]
        ids += [entry["task_id"]["S"] for entry in running if entry["due_time"]["S"] < ended]
    return [(task_id, model.tracker.use_case.name) for task_id in ids]


def sample(entries: Sequence[Item], most: int) -> Sequence[Item]:
    """Return some entries, half of them with a time if there are that many: these are the first to be due."""
    timed = sorted((each for each in entries if each["due_time"]["S"] < NEVER), key=lambda each: each["due_time"]["S"])
    parked = [each for each in entries if each["due_time"]["S"] >= NEVER]
    room = max(most // 2, most - len(parked))
    timed = timed[:room]
    return [*timed, *parked[: most - len(timed)]]
