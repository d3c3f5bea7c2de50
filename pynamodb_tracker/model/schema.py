"""A task class's declaration: its table, its use case and its steps."""

import gc
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, overload

from pynamodb.attributes import Attribute, AttributeContainer, UnicodeAttribute
from pynamodb.connection.base import Connection, MetaTable
from pynamodb.connection.table import TableConnection
from pynamodb.models import Model

from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.model.arguments import LONGEST, check_flags, did_you_mean, shown, written_as
from pynamodb_tracker.model.status import CANCELLED, END, Codes, Status, end_of

SEPARATOR = "#"
_LANE = "u"
_LONGEST = 255
_MOST_SHARDS = 10_000  # every state query sends one request per shard
_MOST_IN_ROW = 350_000  # bytes of the 400 KB of a row
_MARGIN = timedelta(seconds=2)
_INDEXES = {"GlobalSecondaryIndexes": "global_secondary_indexes", "LocalSecondaryIndexes": "local_secondary_indexes"}
_KEYS = {"HASH": "hash key", "RANGE": "range key"}


class UseCase(UnicodeAttribute):
    """A task class's use case, and its rows' range key.

    Args:
        name: The stored name, 1 to 255 bytes without `#`.
        status_shards: How many index partitions each state uses, from 1 to 10,000.
        read_shards: How many shards a query reads, by default `status_shards`. To change the number of shards of a live
            table, first deploy the larger number here to all programs.
        keep_for: How long a task stays in the table after its last step has succeeded, by default forever. This sets
            the row's time to live.
        keep_ignored_for: The same for ignored tasks. They wait for a person, so the default is forever.
        keep_cancelled_for: The same for cancelled tasks, by default `keep_for`.
        max_inline_data: The most bytes of JSON that `data` takes in the row, from 0 to 350,000. Larger data goes to
            overflow chunks, so that it does not make status changes more expensive.
        index_succeeded: Whether finished tasks stay in the index. False saves a write unit per task, but queries and
            counts no longer find them.
        pausable: Which programs obey pauses and required steps, and refuse a renumbered step: by default workers,
            batches and `retry_handler`. True adds handlers, and for required steps also `start` and `run`. Each process
            reads one more item, at most every 5 seconds. False turns it off.
        count_transitions: Whether each process roughly counts how many tasks come, succeed and fail, for the page. This
            takes one write unit per 60 transitions, or per 10 minutes if there are fewer.
        urgent: Whether tasks can be urgent, so that each step takes them first. First deploy this to all programs: one
            without it does not find urgent tasks.

    Examples:
        >>> use_case_id = UseCase("order", keep_for=timedelta(days=90))
    """

    @written_as('UseCase("order")')
    def __init__(
        self,
        name: str,
        *,
        status_shards: int = 1,
        read_shards: int | None = None,
        keep_for: timedelta | None = None,
        keep_ignored_for: timedelta | None = None,
        keep_cancelled_for: timedelta | None = None,
        max_inline_data: int = 1024,
        index_succeeded: bool = True,
        pausable: bool | None = None,
        count_transitions: bool = False,
        urgent: bool = False,
    ) -> None:
        given: object = name  # `mistakes` reports other types, with the class name
        super().__init__(range_key=True, default_for_new=given if isinstance(given, str) else None)
        self.name = name
        self.status_shards = status_shards
        self.read_shards = status_shards if read_shards is None else read_shards
        self.keep_for = keep_for
        self.keep_ignored_for = keep_ignored_for
        self.keep_cancelled_for = keep_for if keep_cancelled_for is None else keep_cancelled_for
        self.max_inline_data = max_inline_data
        self.index_succeeded = index_succeeded
        self.pausable = pausable
        self.count_transitions = count_transitions
        self.urgent = urgent
        self.prefix = f"{name}{SEPARATOR}"
        """Only this use case's index keys begin with it."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: AttributeContainer, owner: object) -> str: ...

        @overload
        def __get__(self, instance: object, owner: object) -> Self: ...

        def __get__(self, instance: object, owner: object) -> Self | str: ...

    def mistakes(self) -> Iterator[str]:
        """Yield mistakes in the declaration, once the class's name is known."""
        given: Mapping[str, Any] = vars(self)
        name, in_row = given["name"], given["max_inline_data"]
        if not isinstance(name, str):
            yield f"UseCase({name!r}): the name is text"
        elif (
            SEPARATOR in name or not 1 <= len(utf8 := name.encode(errors="ignore")) <= _LONGEST or name != utf8.decode()
        ):
            yield f"UseCase({name!r}): the name needs 1 to {_LONGEST} bytes and no {SEPARATOR!r}"
        yield from self._mistakes_in_shards()
        for option in ("keep_for", "keep_ignored_for", "keep_cancelled_for"):
            time = given[option]
            if time is not None and not (isinstance(time, timedelta) and timedelta(0) < time <= LONGEST):
                limits = f"a timedelta above zero, at most {LONGEST.days} days"
                yield f"UseCase({name!r}, {option}={time!r}): write {limits}, or leave it out"
        if type(in_row) is not int or not 0 <= in_row <= _MOST_IN_ROW:
            yield f"UseCase({name!r}, max_inline_data={in_row!r}): write a number of bytes from 0 to {_MOST_IN_ROW:,}"
        for option in ("index_succeeded", "count_transitions", "urgent"):
            if not isinstance(given[option], bool):
                yield f"UseCase({name!r}, {option}={shown(given[option])}): write True or False"
        if not isinstance(given["pausable"], bool | None):
            yield f"UseCase({name!r}, pausable={shown(given['pausable'])}): write True, False or None"

    def _mistakes_in_shards(self) -> Iterator[str]:
        shards: dict[str, object] = {"status_shards": self.status_shards, "read_shards": self.read_shards}
        wrong = [each for each in shards.items() if type(each[1]) is not int or not 1 <= each[1] <= _MOST_SHARDS]
        for option, number in wrong[:1]:  # by default, both are the same
            yield f"UseCase({self.name!r}, {option}={shown(number)}): write a whole number from 1 to {_MOST_SHARDS:,}"
        if not wrong and self.read_shards < self.status_shards:
            yield (
                f"UseCase({self.name!r}, status_shards={self.status_shards}, read_shards={self.read_shards}): queries "
                "would miss tasks: read at least as many shards as are written"
            )

    @property
    def has_expiry(self) -> bool:
        """Whether any task gets a time to live when it ends."""
        return {self.keep_for, self.keep_ignored_for, self.keep_cancelled_for} != {None}


class Table:
    def __init__(self, owner: type[Model]) -> None:
        self.owner = owner
        self.use_cases: weakref.WeakValueDictionary[str, type[Model]] = weakref.WeakValueDictionary()
        self._connections: dict[str, TableConnection] = {}
        self._connect: Callable[..., Connection] = SharedConnection

    def claim(self, name: str, model: type[Model]) -> None:
        other, place = self.use_cases.get(name), (model.__module__, model.__qualname__)
        if other is not None and (other.__module__, other.__qualname__) != place:  # not a notebook cell that ran again
            del other
            gc.collect()  # a class that went out of scope may still be there
            other = self.use_cases.get(name)
            if other is not None:
                raise DefinitionError(
                    f"{model.__qualname__}: the use case {name!r} of table {self.owner.__name__} belongs to "
                    f"{other.__module__}.{other.__qualname__}. Choose another name"
                )
        self.use_cases[name] = model

    def connection(self) -> TableConnection:
        """Return the shared connection. If Meta's table name changes, the new table gets its own."""
        table_name = self.owner.Meta.table_name
        connection = self._connections.get(table_name)
        if connection is None:  # two threads may both build one, but use the same one
            connection = self._connections.setdefault(table_name, self._build_connection(table_name))
        return connection

    def connect(self) -> None:
        connection = self.connection().connection
        if isinstance(connection, SharedConnection):
            connection.prepare()

    @property
    def is_in_memory(self) -> bool:
        return bool(getattr(self.connection().connection, "is_in_memory", False))

    def reconnect(self, connect: Callable[..., Connection] | None = None) -> Callable[..., Connection]:
        before, self._connect, self._connections = self._connect, connect or self._connect, {}
        return before

    def _build_connection(self, table_name: str) -> TableConnection:
        settings = {name: getattr(self.owner.Meta, name, None) for name in signature(Connection).parameters}
        table = TableConnection(table_name)
        table.connection = self._connect(**settings)
        schema: Any = self.owner._get_schema()  # noqa: SLF001 - PynamoDB's own connection uses it
        keys = {"KeySchema": schema["key_schema"], "AttributeDefinitions": schema["attribute_definitions"]}
        indexes = {
            kind: [{"IndexName": index["index_name"], "KeySchema": index["key_schema"]} for index in schema[declared]]
            for kind, declared in _INDEXES.items()
        }
        table.connection.add_meta_table(MetaTable({"TableName": table_name, **keys, **indexes}))
        return table


class Schema:
    """A task class's declaration. It is one object, so that the class reserves only the name `tracker`."""

    def __init__(
        self,
        model: type[Model],
        table: Table | None,
        use_case: UseCase | None = None,
        steps: Iterable[Codes] = (),
        *,
        awaited: frozenset[str] = frozenset(),
    ) -> None:
        self._model: Any = model  # a TaskRow
        self._use_case, self._table = use_case, table
        self.has_table, self.has_use_case = table is not None, use_case is not None
        self.awaited = awaited
        self.steps = tuple(steps)
        self.ends = frozenset({END, CANCELLED, *(codes.ignored for codes in self.steps)})
        waiting = (code for codes in self.steps for code in (codes.pending, codes.failed))
        self.unindexed = frozenset(() if use_case is None or use_case.index_succeeded else (END,))
        """The states that the index does not contain."""
        self.lane_codes = frozenset(waiting if use_case is not None and use_case.urgent else ())
        """The states with an urgent lane, a shard of its own for urgent tasks."""
        self._outside_lane = self.ends.union(codes.in_progress for codes in self.steps)
        """The states without one. An urgent task may also enter a required step that only other programs declare."""

    @cached_property
    def table(self) -> Table:
        if self._table is None:
            raise TypeError(f"{self._model.__name__} lacks a table: derive a class with class Meta: table_name = ...")
        return self._table

    @cached_property
    def use_case(self) -> UseCase:
        if self._use_case is None:
            name = self._model.__name__
            raise TypeError(f"{name} is not a use case: call this on a class with use_case_id = UseCase(...)")
        return self._use_case

    @cached_property
    def own_attributes(self) -> Mapping[str, Attribute[Any]]:
        """The user's attributes by name, including `data`."""
        return {
            name: each
            for name, each in self._model.get_attributes().items()
            if name not in self._model.tracker_attributes
        }

    @cached_property
    def loading(self) -> Mapping[str, tuple[str, Attribute[Any], bool]]:
        """By stored name: the name, the attribute, and whether it sets values unconverted."""
        return {
            attribute.attr_name: (name, attribute, type(attribute).__set__ is Attribute.__set__)
            for name, attribute in self._model.get_attributes().items()
        }

    @cached_property
    def stored_with_default(self) -> frozenset[str]:
        return frozenset(name for name, (_, attribute, _) in self.loading.items() if attribute.default is not None)

    def check_own(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.own_attributes:
                problem = " is the tracker's own" if name in self._model.tracker_attributes else " is not declared"
                raise TypeError(f"{self._model.__name__}.{name}{problem}{did_you_mean(name, self.own_attributes)}")

    @cached_property
    def margin(self) -> timedelta:
        """How far workers' clocks may differ: `Meta.clock_margin`, by default 2 seconds."""
        margin: timedelta = getattr(self.table.owner.Meta, "clock_margin", _MARGIN)
        return margin

    def obeys_control(self, *, lives_long: bool = True) -> bool:
        """Return whether a program obeys pauses and required steps. By default, only long-lived ones do."""
        pausable = self.use_case.pausable
        return lives_long if pausable is None else pausable

    @cached_property
    def connection(self) -> Callable[[], TableConnection]:
        return self.table.connection

    def key(self, task_id: str) -> dict[str, dict[str, str]]:
        return {"task_id": {"S": task_id}, "use_case_id": {"S": self.use_case.name}}

    def ends_at(self, code: int) -> bool:
        return code in self.ends

    def check_urgent(self, urgent: object) -> None:
        if urgent is False:
            return
        check_flags(urgent=urgent)
        if not self.use_case.urgent:
            raise TypeError(
                f"no {self._model.__name__} can be urgent: write use_case_id = UseCase({self.use_case.name!r}, "
                "urgent=True), and deploy that to all programs first"
            )

    @property
    def lane(self) -> int | None:
        """The additional shard for urgent tasks, or None."""
        return self.use_case.read_shards if self.use_case.urgent else None

    def status_key(self, code: int, task_id: str, *, is_urgent: bool = False) -> str | None:
        """Return a task's index hash key, or None if the index does not contain this state."""
        use_case, shard = self.use_case, _LANE
        if code in self.unindexed:
            return None
        if not (is_urgent and use_case.urgent) or code in self._outside_lane:
            shard = str(zlib.crc32(task_id.encode()) % use_case.status_shards)
        return f"{use_case.prefix}{code}{SEPARATOR}{shard}"

    def status_keys(self, code: int) -> list[str]:
        shards = [*map(str, range(self.use_case.read_shards)), *([_LANE] if code in self.lane_codes else [])]
        return [f"{self.use_case.prefix}{code}{SEPARATOR}{shard}" for shard in shards]

    def shard_of(self, status_key: str) -> int:
        shard = status_key.rpartition(SEPARATOR)[2]
        return self.use_case.read_shards if shard == _LANE else int(shard)

    def kept_for(self, code: int) -> timedelta | None:
        """Return how long to keep a task that ended in this state, or None."""
        if end := end_of(code):
            return self.use_case.keep_for if end == "succeeded" else self.use_case.keep_cancelled_for
        return self.use_case.keep_ignored_for if code in self.ends else None

    def expiry_of(self, code: int, now: datetime) -> str | None:
        """Return the stored time to live for a task that enters this state now."""
        kept_for = self.kept_for(code)
        return None if kept_for is None else str(int((now + kept_for).timestamp()))

    def step_named_by(self, number: int) -> str:
        return next((codes.step for codes in self.steps if codes.pending == number), str(number))

    def status_of(self, code: int) -> Status | None:
        """Return the status at a declared step, or None for an end or another program's step."""
        return next((codes.own[code] for codes in self.steps if code in codes.own), None)

    def name_of(self, code: int) -> str:
        for codes in self.steps:
            if code in codes.own:
                return f"{codes.step} {codes.own[code]}"
            if code == codes.succeeded and end_of(code):
                return f"{codes.step} {Status.SUCCEEDED}"
        return end_of(code) or f"unknown {code}"


def types_of(definitions: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {each["AttributeName"]: each["AttributeType"] for each in definitions}


def keys_in_words(schema: Iterable[Mapping[str, str]], types: Mapping[str, str]) -> dict[str, str]:
    keys: dict[str, list[str]] = {kind: [] for kind in _KEYS}
    for key in schema:
        keys[key["KeyType"]].append(f"{key['AttributeName']} ({types[key['AttributeName']]})")
    return {_KEYS[kind]: " and ".join(names) or "none" for kind, names in keys.items()}


def key_differences(declared: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the keys of an existing table and its indexes differ from the class's."""
    expected, found = types_of(declared["attribute_definitions"]), types_of(described["AttributeDefinitions"])
    indexes = {index["IndexName"]: index for kind in _INDEXES for index in described.get(kind) or ()}
    pairs = [("", declared["key_schema"], described["KeySchema"])]
    for index in (*declared["global_secondary_indexes"], *declared["local_secondary_indexes"]):
        name = index["index_name"]
        if name in indexes:
            pairs.append((f" of {name}", index["key_schema"], indexes[name]["KeySchema"]))
        else:
            yield f"it lacks the index {name}"
    for of, wanted, there in pairs:
        actual = keys_in_words(there, found)
        for subject, key in keys_in_words(wanted, expected).items():
            if actual[subject] != key:
                yield f"its {subject}{of} is {actual[subject]}, not {key}"
