"""Reads all use cases in four requests per step, and one per hundred small items or rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
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
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.task_facts import steps_of, unfinished_states
from pynamodb_tracker.presentation.waiting import Number
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State, count_due, peek
from pynamodb_tracker.task.task import Task

MOST = 1000  # tasks to count per state. For larger states, numbers are minimums
_MOST_READ = 100  # entries to read of tasks that are pending or in progress. More are only counted
_MOST_WAITING = 100
_MOST_LOCKS = 20  # rows with an expired lock to read per step, because the index lacks extensions
_MOST_OLDEST = 100

V = TypeVar("V")
NEVER = clock.stamp(clock.NEVER)


@dataclass(slots=True)
class StateGlance:
    entries: Sequence[Item]
    more: bool
    number: Number = field(init=False)

    def __post_init__(self) -> None:
        self.number = Number(len(self.entries), self.more)


@dataclass(slots=True)
class StepGlance:
    """The entries of each state. Failed and ignored ones begin with the latest due time."""

    step: BoundStep[Any]
    states: dict[Status | None, StateGlance]
    due: Number
    later: StateGlance  # the pending entries that wait or are due later
    oldest_failed: Sequence[Item] = ()


@dataclass(slots=True)
class ModelGlance:
    model: type[Task]
    steps: list[StepGlance] = field(default_factory=list)
    hours: Sequence[Hour] | None = None  # None if transitions are not counted, or if the counts cannot be read
    pauses: Sequence[Pause] = ()
    required: Sequence[str] = ()
    schedules: Sequence[str] = ()
    commands: Sequence[Command] = ()


@dataclass(slots=True)
class Glance:
    now: datetime
    models: dict[type[Task], ModelGlance]
    rows: dict[RowKey, Task] = field(default_factory=dict)
    unseen: dict[str, None] = field(default_factory=dict)
    denied: PynamoDBException | None = None

    def attempt(self, what: str, ask: Callable[[], V]) -> V | None:
        """Return the result. If reading is denied or an item is damaged, note that and return None."""
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
        """Read the rows with these keys once, and return all readable rows so far."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self.rows]
        chunks = []
        for table in self.of_tables():
            names = {model.tracker.use_case.name for model in self.models if model.tracker.table is table.tracker.table}
            of_table = [key for key in wanted if key[1] in names]
            chunks += [(table, of_table[at : at + MOST_KEYS]) for at in range(0, len(of_table), MOST_KEYS)]
        for found in side_by_side(lambda chunk: self.attempt("rows", lambda: rows_of_table(*chunk)), chunks):
            self.rows |= {key: readable(row) for key, row in (found or {}).items() if row.tracker.steps}
        return self.rows

    def read_items(self, keys: Mapping[RowKey, type[Task]]) -> dict[RowKey, Item]:
        found: dict[RowKey, Item] = {}
        for table in self.of_tables():
            of_table = [item_key(*key) for key, model in keys.items() if model.tracker.table is table.tracker.table]
            found |= by_key(get_items(table.tracker.connection(), of_table))
        return found

    def of_tables(self) -> list[type[Task]]:
        return list({id(model.tracker.table): model for model in reversed(self.models)}.values())


def glance(models: Sequence[type[Task]]) -> Glance:
    """Read the small items of these use cases, the first entries of each state, and rows that the index lacks.

    Raises PynamoDB's error if the table cannot be reached or no state may be read. Other denied reads are noted.
    """
    found = Glance(clock.now(), {model: ModelGlance(model) for model in models})
    _read_small_items(found)
    asked = list[tuple[State[Any], int, bool]]()
    for step in chain.from_iterable(map(steps_of, models)):
        asked += [(state, _MOST_READ, False) for state in (step.pending, step.in_progress)]
        asked += [(state, MOST, True) for state in (step.failed, step.ignored)]  # the latest due times first
    read = _peek_all(found, asked)
    after, cut = clock.stamp(found.now), list[StepGlance]()
    for model, of_model in found.models.items():
        for step in steps_of(model):
            states = {state.status: read[state] for state in unfinished_states(step)}
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


def _count_rest(found: Glance, step: StepGlance, extra: Mapping[State[Any], StateGlance]) -> None:
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


def _read_small_items(found: Glance) -> None:
    chunks: list[tuple[type[Task], list[Item]]] = []
    for table in found.of_tables():
        keys: list[Item] = []
        for model in (each for each in found.models if each.tracker.table is table.tracker.table):
            keys += [records.schedules_key(model), records.commands_key(model)]
            keys += [item.key_of_control(model)] if model.tracker.obeys_control() else []
            keys += flow.keys_of(model, found.now) if model.tracker.use_case.count_transitions else []
        chunks += [(table, keys[at : at + MOST_KEYS]) for at in range(0, len(keys), MOST_KEYS)]

    def read(chunk: tuple[type[Task], list[Item]]) -> dict[RowKey, Item] | None:
        table, keys = chunk
        return found.attempt(
            "pauses, counts, schedules and commands",
            lambda: by_key(get_items(table.tracker.connection(), keys, consistent=False)),
        )

    answers = side_by_side(read, chunks)
    items = {key: each for answer in answers for key, each in (answer or {}).items()}
    for model, of_model in found.models.items():
        use_case = model.tracker.use_case
        if model.tracker.obeys_control():
            stored = items.get(key_of(item.key_of_control(model)), {})
            control = found.attempt(model.__name__, partial(item.parse, model, stored))
            if control:
                of_model.pauses, of_model.required = control.in_force, control.undeclared(model)
        if use_case.count_transitions and None not in answers:
            of_model.hours = flow.hours_in(model, found.now, items)
        of_model.schedules = records.schedules_in(items.get(key_of(records.schedules_key(model)), {}))
        of_model.commands = records.commands_in(items.get(key_of(records.commands_key(model)), {}))


def _rows_to_read(of_model: ModelGlance, now: datetime) -> list[RowKey]:
    model = of_model.model
    waiting = [step.later.entries for step in of_model.steps if step.later.entries]
    ids = [*of_model.schedules]
    for entries in waiting:
        ids += [entry["task_id"]["S"] for entry in sample(entries, _MOST_WAITING // len(waiting))]
    ended = clock.stamp(now - model.tracker.margin)
    for step in of_model.steps:
        running = step.states[Status.IN_PROGRESS].entries[:_MOST_LOCKS]
        ids += [entry["task_id"]["S"] for entry in running if entry["due_time"]["S"] < ended]
    return [(task_id, model.tracker.use_case.name) for task_id in ids]


def sample(entries: Sequence[Item], most: int) -> Sequence[Item]:
    """Return some entries. If there are enough, half of them have a due time, the earliest ones."""
    timed = sorted((each for each in entries if each["due_time"]["S"] < NEVER), key=lambda each: each["due_time"]["S"])
    parked = [each for each in entries if each["due_time"]["S"] >= NEVER]
    room = max(most // 2, most - len(parked))
    timed = timed[:room]
    return [*timed, *parked[: most - len(timed)]]
