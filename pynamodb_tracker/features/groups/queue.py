"""Groups: tasks that run one at a time across all their steps, in the order of their creation.

The transaction that creates a task lets it enter its group. In an idle group, it has the turn. Otherwise, it is parked,
and an item, its place, has its number. The transaction that ends it hands on the turn.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Self

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import STRING
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action as Change

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, get_items, pages
from pynamodb_tracker.dynamodb.partiql import IF_ABSENT
from pynamodb_tracker.dynamodb.transact_write import REFUSED, transact_write
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.features.groups import records
from pynamodb_tracker.features.groups.records import GroupRow, Place
from pynamodb_tracker.model.overflow import GROUP_OF, by_key, group_range_key
from pynamodb_tracker.model.row import Membership, TaskRow, load, membership_of
from pynamodb_tracker.model.status import end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import PreparedWrite, fill, parameter, single_request
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Action, NewlyDue, Participant, Reason
from pynamodb_tracker.writes.refusals import check_format

_MOST_DEAD = 20
"""How many places to read together if the first one is dead."""


class Entrant:
    """A task that enters a group."""

    def __init__(self, task_id: str, status: int, creation: str, turn_due_time: datetime) -> None:
        self.task_id, self.status, self.creation = task_id, status, creation
        self.turn_due_time = turn_due_time
        """When it may start once it has its turn."""
        self.number, self.has_turn = 0, False

    def place(self, number: int, *, has_turn: bool) -> None:
        """Take this number, with or without the turn. Each try calls this."""
        self.number, self.has_turn = number, has_turn

    @property
    def values(self) -> dict[str, Any]:
        """The row's attributes for its place. None removes an attribute."""
        due, starts, waits = (self.turn_due_time, None, None) if self.has_turn else (clock.NEVER, self.turn_due_time, 1)
        return {"group_number": self.number, "due_time": due, "turn_due_time": starts, "blockers": waits}


class NewMember(Entrant):
    """A new task that enters its group."""

    def __init__(self, row: TaskRow, item: Item) -> None:
        super().__init__(row.task_id, row.status, item["creation"][STRING], row.due_time)
        self._row = row
        self._item = item

    def place(self, number: int, *, has_turn: bool) -> None:
        """Write it into the new row."""
        super().place(number, has_turn=has_turn)
        self._row.attribute_values.update(self.values)
        for name, value in self.values.items():
            self._item.pop(name, None)
            if value is not None:
                attribute: Any = getattr(TaskRow, name)
                self._item[name] = {attribute.attr_type: attribute.serialize(value)}


Entry = tuple[type[TaskRow], str, Entrant]
"""A use case, a group name, and a task that enters it."""
_IDLE = GroupRow(None, 0, "{}", 0)

TURN, _data, _of = (UnicodeAttribute(attr_name=name) for name in ("turn", "data", GROUP_OF))
_last, _version = (NumberAttribute(attr_name=name) for name in ("last", "version"))


def read_queue(model: type[TaskRow], name: str, *, places: int | None = None) -> tuple[GroupRow | None, list[Place]]:
    """Read a group's row and its first places, or all places, in order."""
    use_case, table = model.tracker.use_case.name, model.tracker.connection()
    found = pages(
        table,
        table.query,
        name,
        range_key_condition=TaskRow.use_case_id.between(group_range_key(use_case), records.last_range_key(use_case)),
        consistent_read=True,
        **({} if places is None else {"limit": places + 1}),
    )
    items: list[Item] = []
    for page in found:
        items += page["Items"]
        if places is not None and len(items) > places and len(records.parse(use_case, name, items)[1]) >= places:
            break
    row, waiting = records.parse(use_case, name, items)
    return row, waiting[:places]


class GroupChange:
    """What one transaction changes in one group."""

    def __init__(self, model: type[TaskRow], name: str) -> None:
        self.model = model
        self.name = name
        self.leaving: str | None = None
        """The task that ends, and may hand on the turn."""
        self.data: str | None = None
        """The group's new data as JSON, or None to keep the data."""
        self.holder: str | None = None
        """The task that stores the data."""
        self.entrants: list[Entrant] = []
        self.repairs = False
        """Whether to hand on the turn although its task has ended or is gone."""
        self.last = 0
        """At least the last number so far."""
        self.woken: str | None = None
        """The task that gets the turn."""
        self.next: NewlyDue | None = None
        """The same task, if its turn makes it due."""
        self._is_doubtful = False
        """Whether the task at the first place no longer waits."""
        self._wake_at: int | None = None
        self._is_out_of_turn = False

    def actions(self) -> list[Action]:
        """Build the writes from the present rows."""
        row, places, others_of = self._read()
        seen, self._wake_at, self.woken, self.next = row or _IDLE, None, None, None
        turn, number, others = seen.turn, max(seen.last, self.last), list[Action]()
        self._is_out_of_turn = self.holder is not None and turn != self.holder
        leaves = self.repairs or (self.leaving is not None and turn == self.leaving)
        if not (leaves or self.entrants or self.data is not None):
            return []
        if leaves:
            turn = None
            if places:
                turn, self._wake_at = places[0].task_id, 1
                others += [self._wake(places[0], *others_of), _leave_place(self.model, self.name, places[0].number)]
        for entrant in self.entrants:
            number += 1
            entrant.place(number, has_turn=turn is None)
            if turn is None:
                turn = entrant.task_id
            else:
                place = Place(number, entrant.task_id, entrant.turn_due_time, entrant.status, entrant.creation)
                item = records.stored_place(self.model.tracker.use_case.name, self.name, place)
                others.append({"Put": {"TableName": self._table.table_name, **IF_ABSENT, "Item": item}})
        self.woken = turn if leaves else None
        return [self._update(row, turn, number), *others]

    def handle_refusal(self, reasons: Sequence[Reason]) -> None:
        """Look at more places if the first one is dead."""
        if self._wake_at is not None and (reason := reasons[self._wake_at]) is not None and reason.code == REFUSED:
            self._is_doubtful = True
        if self._is_out_of_turn:
            raise ValueNotStorableError(
                f"the data of group {self.name!r} cannot be stored: {self.holder!r} does not have its turn, because "
                f"another program has changed the group. Call {self.model.__name__}.group({self.name!r}).repair()",
                task_id=self.holder or "",
                attribute="group.data",
            )

    def _read(self) -> tuple[GroupRow | None, list[Place], tuple[int, bool]]:
        """Return the group's row, and the next place with its blockers if a task leaves."""
        if self.leaving is None and not self.repairs:
            return *read_queue(self.model, self.name, places=0), _TURN_ALONE
        if not (self._is_doubtful or self.repairs):
            return *read_queue(self.model, self.name, places=1), _TURN_ALONE
        while True:
            row, places = read_queue(self.model, self.name, places=_MOST_DEAD)
            if not places or not (self.repairs or (row is not None and row.turn == self.leaving)):
                return row, places, _TURN_ALONE
            for at, (place, waits, awaits) in enumerate(self._examine(places)):
                if waits:
                    self._clear(row, places[:at])
                    return row, [place], (waits, awaits)
            self._clear(row, places)

    def _examine(self, places: Sequence[Place]) -> Iterator[tuple[Place, int, bool]]:
        """Yield each place, its task's number of blockers (0 if it is dead), and whether it awaits signals."""
        task_ids = dict.fromkeys(place.task_id for place in places)  # a dead place may name the task of another place
        keys = [self.model.tracker.key(task_id) for task_id in task_ids]
        found = by_key(get_items(self._table, keys))
        use_case = self.model.tracker.use_case.name
        for place in places:
            item = found.get((place.task_id, use_case), {})
            waits = int(item["blockers"]["N"]) if records.is_waiting_at(item, self.name, place.number) else 0
            if waits:
                check_format(load(self.model, item), f"hand on the turn of group {self.name!r} to")
            yield place, waits, "awaited_signals" in item

    def _clear(self, row: GroupRow | None, dead: Sequence[Place]) -> None:
        if not dead:
            return
        as_read: Condition = _version.does_not_exist() if row is None else _version == row.version
        unchanged = {"ConditionCheck": single_request(self._table, self._key, as_read)}
        deletes = [_leave_place(self.model, self.name, place.number) for place in dead]
        unconfirmed = transact_write(self._table, [unchanged, *deletes])
        if unconfirmed and not unconfirmed.refused:
            raise unconfirmed.error

    @property
    def _table(self) -> TableConnection:
        return self.model.tracker.connection()

    @property
    def _key(self) -> Item:
        return records.row_key(self.model.tracker.use_case.name, self.name)

    def _update(self, row: GroupRow | None, turn: str | None, last: int) -> Action:
        write = build_group_write(self._table, is_new=row is None, idle=turn is None, data=self.data is not None)
        values = {
            "seen_version": None if row is None else str(row.version),
            "version": str((row or _IDLE).version + 1),
            "last": str(last),
            "use_case": self.model.tracker.use_case.name,
            "turn": turn,
            "data": self.data,
            "holder": self.holder,
        }
        return write.as_action("Update", self._key, values)

    def _wake(self, place: Place, waits: int, awaits: bool) -> Action:  # noqa: FBT001 - as `_examine` yields it
        write, due = build_wake(self.model, others=waits > 1, awaits=awaits), max(clock.now(), place.turn_due_time)
        if waits == 1 and not awaits:
            self.next = NewlyDue(self.model, place.task_id, place.status, place.creation, due)
        values = {
            "group": self.name,
            "number": str(place.number),
            "blockers": str(waits),
            "others": str(waits - 1),
            "due": clock.stamp(due),
        }
        return write.as_action("Update", self.model.tracker.key(place.task_id), values)


_TURN_ALONE = 1, False
"""A waiting task's usual blockers."""


def build_group_write(table: TableConnection, *, is_new: bool, idle: bool, data: bool) -> PreparedWrite:
    """Write an unchanged group's row. With `data`, the writer must have the turn."""
    seen: Condition = _version.does_not_exist() if is_new else _version == parameter(_version, "seen_version")
    changes = [
        fill(_version, "version"),
        fill(_last, "last"),
        fill(_of, "use_case"),
        TURN.remove() if idle else fill(TURN, "turn"),
    ]
    if data:
        seen &= parameter(TURN, "holder") == TURN
        changes.append(fill(_data, "data"))
    return PreparedWrite(table, condition=seen, actions=changes)


def build_wake(model: type[TaskRow], *, others: bool, awaits: bool = False) -> PreparedWrite:
    """Give a task its turn. If it still waits, it is due at its limit, otherwise now."""
    condition = (
        TaskRow.status.is_in(*(codes.pending for codes in model.tracker.steps))
        & (TaskRow.group == parameter(TaskRow.group, "group"))
        & (TaskRow.group_number == parameter(TaskRow.group_number, "number"))
        & TaskRow.turn_due_time.exists()
        & (TaskRow.blockers == parameter(TaskRow.blockers, "blockers"))
        & (TaskRow.awaited_signals.exists() if awaits else TaskRow.awaited_signals.does_not_exist())
        & when.known_format().condition
    )
    due: Any = TaskRow.due_time
    changes: list[Change] = [fill(TaskRow.blockers, "others") if others else TaskRow.blockers.remove()]
    if others or awaits:
        changes.append(due.set(TaskRow.wait_until | clock.NEVER))
    else:
        changes += [fill(due, "due"), TaskRow.wait_until.remove()]
    return PreparedWrite(
        model.tracker.connection(), condition=condition, actions=[*changes, TaskRow.turn_due_time.remove()]
    )


def _leave_place(model: type[TaskRow], name: str, number: int) -> Action:
    table, key = model.tracker.connection(), records.place_key(model.tracker.use_case.name, name, number)
    return {"Delete": {"TableName": table.table_name, "Key": key}}


class Groups(Participant):
    """Takes part in an end or a creation that changes groups."""

    def __init__(self, created: Callable[[], Iterable[Entry]] | None = None) -> None:
        self._created = created
        """Returns the tasks that are created with a success."""
        self._changes: dict[tuple[str, str], GroupChange] = {}
        self._places: list[Action] = []
        self._built: list[tuple[GroupChange, int]] = []

    def change_of(self, model: type[TaskRow], name: str) -> GroupChange:
        """Return this group's change. There is one, because a transaction can write its row only once."""
        key = model.tracker.use_case.name, name
        return self._changes.setdefault(key, GroupChange(model, name))

    @classmethod
    def for_creation(cls, row: TaskRow, item: Item) -> Self:
        """Let a new task enter its group."""
        groups = cls()
        groups.change_of(type(row), row.group).entrants.append(NewMember(row, item))
        return groups

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self | None:
        """Store the group's data, hand on the turn after the last step, and let created tasks enter their groups."""
        of_run, follow_ups = run.additions.get("group"), run.additions.get("follow_ups")
        groups = cls(follow_ups and follow_ups.entrants)
        ends = end_of(run.next_code) is not None and membership_of(row) is not Membership.NONE
        data = of_run and of_run.changed_data()
        if data is not None:
            change = groups.change_of(type(row), row.group)
            change.data, change.holder = data, row.task_id
        if ends:
            groups.leave(row)
        return groups if ends or data is not None or (follow_ups and any(follow_ups.entrants())) else None

    @classmethod
    def for_ignoring(cls, row: TaskRow) -> Self | None:
        """Hand on the task's turn, or give up its place."""
        if membership_of(row) in {Membership.NONE, Membership.ENDED}:
            return None
        groups = cls()
        groups.leave(row)
        return groups

    for_deletion = for_ignoring

    def leave(self, row: TaskRow) -> None:
        """Hand on the turn of a task that ends, or give up its place."""
        if row.turn_due_time is not None:
            self._places.append(_leave_place(type(row), row.group, row.group_number))
        else:
            self.change_of(type(row), row.group).leaving = row.task_id

    def actions(self) -> list[Action]:
        """Build the writes on all groups from the present rows."""
        self._built, actions = [], [*self._places]
        if self._created is not None:
            for change in self._changes.values():
                change.entrants = []
            for model, name, entrant in self._created():
                self.change_of(model, name).entrants.append(entrant)
        for change in self._changes.values():
            of_group = change.actions()
            self._built.append((change, len(of_group)))
            actions += of_group
        return actions

    def made_due(self) -> list[NewlyDue]:
        """Return the tasks that their turns made due."""
        return [change.next for change, _ in self._built if change.next is not None]

    def handle_refusal(self, reasons: Sequence[Reason]) -> None:
        """Tell each group why its own writes were refused."""
        left = iter(reasons[len(self._places) :])
        for change, count in self._built:
            own = list(islice(left, count))
            if any(reason is not None and reason.code == REFUSED for reason in own):
                change.handle_refusal(own)


class GroupOfRun:
    def __init__(self, row: TaskRow) -> None:
        self.name: str = row.group
        """The group's name."""
        self._row = row
        self._touched: dict[str, tuple[str, dict[str, Any]]] = {}
        """The stored and the present data, once the block uses it."""

    @property
    def data(self) -> dict[str, Any]:
        """A dictionary that the group's tasks share. The first access reads it, and the success saves it."""
        if not self._touched:
            row, _ = read_queue(type(self._row), self.name, places=0)
            text = (row or _IDLE).data
            self._touched.setdefault("data", (text, records.data_in(text, self.name)))  # another thread may be faster
        return self._touched["data"][1]

    @data.setter
    def data(self, data: dict[str, Any]) -> None:
        text, _ = self._touched.get("data", ("?", {}))
        self._touched["data"] = text, data

    def changed_data(self) -> str | None:
        """Return the data as JSON if the block has changed it."""
        if not self._touched:
            return None
        before, data = self._touched["data"]
        text = records.data_text(data, self.name, self._row.task_id)
        return None if text == before else text
