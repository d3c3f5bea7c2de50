"""A protocol: calls of the library itself by several programs, whose requests meet in one table in any order.

A program runs from the beginning of a call with the answers that it got, and then to the end of the call as if it were
alone, which shows its requests on that way; with another answer, it runs from the beginning again. This is possible
because it does the same whenever it gets the same answers at the same times. So guards, values, and what the library
decides by an answer, are those of the code. Between a request and its answer the others go on; requests and answers get
lost, are delivered twice, or arrive late; programs die; time passes, and clocks differ.
"""

import logging
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from botocore.exceptions import ClientError, ReadTimeoutError
from pynamodb.connection.base import Connection
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import Task, TrackerError, clock
from pynamodb_tracker.control import records
from pynamodb_tracker.dynamodb import transact_write
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.writes import lock
from tests.search.table import Rows, answered, dumped, loaded

BASE = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(minutes=10)

_notes: list[str] = []


def note(text: str) -> None:
    """Remember something that a program has seen or done; if it begins with _, until the call ends."""
    _notes.append(text)


def here() -> str:
    """Return what all tokens of the current call have in common, their digits 17 to 20."""
    return _current[-1].place


class Faults(NamedTuple):
    """How often something goes wrong."""

    lost: int = 0
    """How many requests or answers are lost."""
    twice: int = 0
    """How many requests the SDK repeats although they were applied."""
    late: int = 0
    """How many requests arrive a second time, later."""
    deaths: int = 0
    """How many programs die with a request on its way."""
    ticks: int = 0
    """How often ten minutes pass."""
    behind: int = 0
    """By how many seconds the clock of each second program is behind; nothing breaks within the margin of 2."""


class Program(NamedTuple):
    """What one program calls, one after the other, and by how many ticks its clock is behind."""

    name: str
    calls: tuple[Callable[[], object], ...]
    behind: int = 0


Request = tuple[str, str]
"""An operation, and the text of its request."""


@dataclass(frozen=True, eq=False)
class Actor:
    """Where a program is. There is one for each way to get there, so two that are equal are the same."""

    call: int
    history: tuple[tuple[str, float], ...] = ()
    """The answers in this call, and the times at which they came; the first one is its beginning."""
    request: Request | None = None
    """What it has sent."""
    notes: tuple[str, ...] = ()
    """What it has remembered in this call."""
    after: dict[tuple[str, float | None], tuple["Actor", tuple[str, ...]]] = field(default_factory=dict)
    """Where it is after an answer at some time, and what it has remembered until then; at any time if that is None."""


class Asked(NamedTuple):
    """A request of a program, or the end of its call."""

    request: Request | None
    notes: tuple[str, ...]
    """What it has remembered before that."""
    looked: bool
    """Whether it has read the clock since the last answer."""


class State(NamedTuple):
    """All there is."""

    rows: Rows
    actors: tuple[Actor, ...]
    late: tuple[Request, ...]
    """What may still arrive once more."""
    now: int
    faults: Faults
    """What may still go wrong."""
    notes: tuple[str, ...]


class Protocol:
    """What may happen; `broken` returns what is broken in a state, by the table and what was remembered."""

    def __init__(
        self, programs: Sequence[Program], faults: Faults, broken: Callable[[State], str | None], rows: Rows = ()
    ) -> None:
        """`rows` are what the table has at first."""
        self._programs, self.faults, self.broken, self._rows = programs, faults, broken, rows
        self._between = [[Actor(call) for call in range(len(each.calls) + 1)] for each in programs]

    def start(self) -> State:
        return State(self._rows, tuple(actors[0] for actors in self._between), (), 0, self.faults, ())

    def following(self, state: State) -> Iterator[tuple[str, State]]:
        faults = state.faults
        if faults.ticks:
            yield "time passes", state._replace(now=state.now + 1, faults=faults._replace(ticks=faults.ticks - 1))
        for at, request in enumerate(state.late):
            rows, _ = answered(state.rows, *request)
            if rows != state.rows:
                rest = state.late[:at] + state.late[at + 1 :]
                yield f"a late copy of {_told(request)} is applied", state._replace(rows=rows, late=rest)
        for number, (program, actor) in enumerate(zip(self._programs, state.actors, strict=True)):
            if actor.request is not None:
                for name, after in self._of_request(state, number, actor, actor.request):
                    yield f"{program.name}: {name}", after
            elif actor.call < len(program.calls):
                yield f"{program.name} begins", self._continue(state, number, actor, "")

    def _of_request(self, state: State, number: int, actor: Actor, request: Request) -> Iterator[tuple[str, State]]:
        rows, answer = answered(state.rows, *request)
        applied, faults, name = state._replace(rows=rows), state.faults, _told(request)
        is_write = request[0] not in ("GetItem", "BatchGetItem", "Query")
        said = "is refused" if '"error": "' in answer else "is answered"
        yield f"{name} {said}", self._continue(applied, number, actor, answer)
        if not is_write:
            return
        copied = tuple(sorted((*state.late, request)))
        if faults.late:
            copy = applied._replace(late=copied, faults=faults._replace(late=faults.late - 1))
            yield f"{name} {said}, and a copy is on its way", self._continue(copy, number, actor, answer)
        if faults.twice and rows != state.rows:
            rows_after, second = answered(rows, *request)
            again = state._replace(rows=rows_after, faults=faults._replace(twice=faults.twice - 1))
            yield f"{name} is applied, and repeated", self._continue(again, number, actor, f"repeated {second}")
        if faults.lost:
            less = faults._replace(lost=faults.lost - 1)
            if rows != state.rows:
                gone = applied._replace(faults=less)
                yield f"{name} is applied, its answer is lost", self._continue(gone, number, actor, "lost")
            gone = state._replace(faults=less, late=copied)
            yield f"{name} is on its way, nobody waits for it", self._continue(gone, number, actor, "lost")
        if faults.deaths:
            dead = self._between[number][-1]
            gone = state._replace(faults=faults._replace(deaths=faults.deaths - 1), late=copied)
            yield f"dies, {name} is on its way", gone._replace(actors=_with(state.actors, number, dead))

    def _continue(self, state: State, number: int, actor: Actor, answer: str) -> State:
        """Return the state after a program has got an answer, and gone on to its next request."""
        late = self._programs[number].behind + number % 2 * self.faults.behind / TICK.total_seconds()
        time = state.now - late
        found = actor.after.get((answer, None)) or actor.after.get((answer, time))
        if found is None:
            found = self._replayed(state.rows, number, actor, (answer, time))
        after, remembered = found
        new = [each for each in remembered[len(actor.notes) :] if not each.startswith("_")]
        notes = tuple(sorted({*state.notes, *new})) if new else state.notes
        return state._replace(actors=_with(state.actors, number, after), notes=notes)

    def _replayed(self, rows: Rows, number: int, actor: Actor, now: tuple[str, float]) -> tuple[Actor, tuple[str, ...]]:
        """Run a call from its beginning to its end, with the answers so far, and then with what the table answers."""
        client = _Client(rows, [*actor.history, now], number, actor.call)
        client.run(self._programs[number].calls[actor.call])
        way = []
        for at, (request, notes, looked) in enumerate(client.asked, start=len(actor.history)):
            answer, time = client.history[at]
            after = self._between[number][actor.call + 1]
            if request is not None:
                after = Actor(actor.call, (*actor.history, (answer, time)), request, notes)
            actor.after[answer, time if looked else None] = after, notes
            way.append((after, notes))
            actor = after
        return way[0]


class _Client(clock.Clock):
    """The client, the clock and the tokens of a program that is replayed."""

    def __init__(self, rows: Rows, history: list[tuple[str, float]], number: int, call: int) -> None:
        self._rows, self.history, self.place, self._at = rows, history, f"{number:02x}{call:02x}", 0
        self._drawn, self._looked = 0, False
        self.asked: list[Asked] = []
        """What it has sent after the history that was given."""

    def run(self, call: Callable[[], object]) -> None:
        """Make a call while the library uses this clock, client and tokens."""
        before = clock.use(self)
        lock._last, lock._passed = 0, count(1)
        _current.append(self)
        _notes.clear()
        try:
            call()
        finally:
            _current.pop()
            clock.use(before)
        self._ask(None)

    def _ask(self, request: Request | None) -> None:
        self.asked.append(Asked(request, tuple(_notes), self._looked))
        self._looked = False

    def now(self) -> datetime:
        """Return the time of the last answer."""
        return BASE + self._time * TICK

    @property
    def _time(self) -> float:
        self._looked |= self._at + 1 == len(self.history)
        return self.history[self._at][1]

    def seconds_until(self, time: datetime) -> float:  # noqa: ARG002 - the time is never reached
        return float("inf")

    def sleep(self, seconds: float) -> None:
        """Go on at once: the others may do so before the next request arrives, too."""

    def time_ns(self) -> int:
        """Return the time from which tokens are made; no two calls have the same."""
        return int((16 + self._time) * 0x10000) + int(self.place, 16) * 16

    def urandom(self, size: int) -> bytes:
        self._drawn += 1
        return bytes.fromhex(self.place).ljust(size - 1, b"\0") + bytes([self._drawn])

    def _make_api_call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if self._at + 1 == len(self.history):
            request.pop("ReturnConsumedCapacity", None)
            request.pop("ClientRequestToken", None)
            asked = operation, dumped(request)
            self._ask(asked)
            assert len(self.history) < _MOST_REQUESTS, "a call that ends by no answer"
            self._rows, answer = answered(self._rows, *asked)
            self.history.append((answer, self.history[-1][1]))
        self._at += 1
        answer, _ = self.history[self._at]
        if answer == "lost":
            raise ReadTimeoutError(endpoint_url="")
        found = loaded(answer.removeprefix("repeated "))
        if "error" not in found:
            return dict(found)
        response: Any = {
            "Error": {"Code": found["error"], "Message": ""},
            "ResponseMetadata": {"RetryAttempts": int(answer.startswith("repeated"))},
            "CancellationReasons": found.get("reasons", []),
            "Item": found.get("Item"),
        }
        raise ClientError(response, operation)


_current: list[_Client] = []

_MOST_REQUESTS = 100


def _nothing(*_: object) -> None: ...


@contextmanager
def patched() -> Iterator[None]:
    """Let the library send its requests to the model."""
    time = SimpleNamespace(time_ns=lambda: _current[-1].time_ns())  # noqa: PLW0108 - the one that is current then
    random = SimpleNamespace(urandom=lambda size: _current[-1].urandom(size), getpid=os.getpid)  # noqa: PLW0108 - too
    logging.disable(logging.CRITICAL)
    try:
        with (
            mock.patch.object(lock, "time", time),
            mock.patch.object(lock, "os", random),
            mock.patch.object(transact_write, "os", random),
            mock.patch.object(records, "_send", _nothing),  # lists for people, which nothing depends on
            mock.patch.object(SharedConnection, "client", property(lambda _: _current[-1])),
            mock.patch.object(SharedConnection, "within", lambda connection, *_: connection),
            mock.patch.object(SharedConnection, "_make_api_call", Connection._make_api_call),
            # Tracebacks decide nothing here. Python compiles each of their lines to underline a part of it.
            mock.patch.object(traceback, "_extract_caret_anchors_from_line_segment", _nothing, create=True),
        ):
            yield
    finally:
        logging.disable(logging.NOTSET)


def table() -> type[Task]:
    """Return the class of a table of its own, whose use cases have rendered no write yet."""

    class Table(Task):
        class Meta:
            table_name = "tasks"
            region = "us-east-1"

    return Table


def started(begin: Callable[[], object]) -> Rows:
    """Return the table after a program that met no other one, before all others."""
    protocol = Protocol([Program("begin", (begin,), behind=1)], Faults(), lambda _: None)
    state, after = protocol.start(), [protocol.start()]
    while after:
        state = after[0]
        after = [each for _, each in protocol.following(state)]
    return state.rows


def attempt(call: Callable[[], object]) -> bool:
    """Make a call; return whether it succeeded. What the library raises is an answer like others."""
    try:
        call()
    except (TrackerError, PynamoDBException):
        return False
    return True


def value(item: Mapping[str, Any], name: str) -> Any:
    """Return what an item has, without its type; an empty text if it has none."""
    kind, stored = next(iter(item[name].items())) if name in item else ("S", "")
    return int(stored) if kind == "N" else stored


@cache
def _told(request: tuple[str, str]) -> str:
    operation, text = request
    found = loaded(text)
    writes = [next(iter(each.values())) for each in found["TransactItems"]] if "TransactItems" in found else [found]
    changes = [each.get("UpdateExpression") or "" for each in writes]
    names = partial(map, lambda each: each.get("ExpressionAttributeNames", {}))
    told = [_name_in(change, named) for change, named in zip(changes, names(writes), strict=True)]
    return f"{operation} ({' | '.join(told)})"


def _name_in(text: str, names: dict[str, str]) -> str:
    for place in sorted(names, key=len, reverse=True):
        text = text.replace(place, names[place])
    return text


def _with(actors: tuple[Actor, ...], number: int, actor: Actor) -> tuple[Actor, ...]:
    return (*actors[:number], actor, *actors[number + 1 :])
