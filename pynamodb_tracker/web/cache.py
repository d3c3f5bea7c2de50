"""Caches answers briefly, so that many viewers cost no more than one, and measures their cost."""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Generic, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.model.cost import dollars
from pynamodb_tracker.task.task import Task

V_co = TypeVar("V_co", covariant=True)
V = TypeVar("V")

_READS = frozenset({"BatchGetItem", "GetItem", "Query", "Scan"})
_RATE = 20.0  # on average
_SOONEST = timedelta(seconds=1)  # how long even people who ask for a fresh answer get a cached one
_MOST = 200


@dataclass(slots=True)
class Spent:
    requests: int = 0
    reads: float = 0.0
    writes: float = 0.0

    def add(self, other: "Spent") -> None:
        with _gate:
            self.requests += other.requests
            self.reads += other.reads
            self.writes += other.writes

    @property
    def dollars(self) -> float:
        """The on-demand price in us-east-1."""
        return dollars(reads=self.reads, writes=self.writes)


_gate = threading.Lock()
_spent: ContextVar[Spent | None] = ContextVar("pynamodb_tracker_spent", default=None)


def _request_cost(params: dict[str, Any], model: Any, **_: object) -> dict[str, Any] | None:
    if _spent.get() is None or "ReturnConsumedCapacity" not in model.input_shape.members:
        return None
    return {**params, "ReturnConsumedCapacity": "TOTAL"}


def _add_cost(parsed: dict[str, Any], model: Any, **_: object) -> None:
    spent = _spent.get()
    if spent is None:
        return
    reported = parsed.get("ConsumedCapacity") or []
    units = sum(each.get("CapacityUnits", 0.0) for each in (reported if isinstance(reported, list) else [reported]))
    is_read = model.name in _READS
    spent.add(Spent(1, units if is_read else 0.0, 0.0 if is_read else units))


@dataclass(frozen=True, slots=True)
class Answer(Generic[V_co]):
    """A value read from DynamoDB, with its time and cost."""

    value: V_co
    spent: Spent
    time: datetime
    kept_for: timedelta
    asked: float  # when it was requested, by the real clock, even if a demo has stopped the library's
    answered: float  # when it arrived. It is kept from then on, so that people who waited do not ask again

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=monotonic() - self.asked)

    def is_kept(self, *, fresh: bool = False) -> bool:
        """Return whether the answer is recent enough, also for people who want a `fresh` one."""
        return timedelta(seconds=monotonic() - self.answered) < (_SOONEST if fresh else self.kept_for)


@dataclass(slots=True)
class _Asking:
    """A request under way. Everybody who waits for it shares its answer or error."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None


class Cache:
    """Cached answers by key. Each is requested once at a time, and kept for at least `least`."""

    def __init__(self, least: timedelta) -> None:
        self._least = least
        self._answers: dict[Hashable, Answer[Any]] = {}
        self._asking: dict[Hashable, _Asking] = {}
        self._gate = threading.Lock()
        self._round = 0
        self.total = Spent()  # the cost of all views
        self.since = clock.now()

    def get(
        self, key: Hashable, models: Sequence[type[Task]], ask: Callable[[], V], *, fresh: bool = False
    ) -> Answer[V]:
        """Return the cached answer, or ask for a new one, which is kept unless `forget` was called in the meantime."""
        with self._gate:
            asking = self._asking.setdefault(key, _Asking())
        with asking.lock:
            if asking.error is not None:  # if DynamoDB is throttling, more requests would make it worse
                raise asking.error
            known = self._answers.get(key)
            if known is not None and known.is_kept(fresh=fresh):
                return known
            before, time, asked = self._round, clock.now(), monotonic()
            try:
                with self.metered(*models) as spent:
                    value = ask()
            except Exception as error:
                asking.error = error
                with self._gate:
                    self._asking.pop(key, None)  # later requests ask again
                raise
            kept_for = max(self._least, timedelta(seconds=spent.reads / _RATE))
            answer = Answer(value, spent, time, kept_for, asked, monotonic())
            with self._gate:
                if self._round == before:
                    self._keep(key, answer)
            return answer

    @contextmanager
    def metered(self, *models: type[Task]) -> Iterator[Spent]:
        """Yield the cost of the block's requests to these classes' tables, and add it to the total."""
        for model in models:
            events = model.tracker.connection().connection.client.meta.events
            with _gate:  # two threads registering at the same time would count twice
                events.register("provide-client-params.dynamodb", _request_cost, unique_id="pynamodb_tracker.web ask")
                events.register("after-call.dynamodb", _add_cost, unique_id="pynamodb_tracker.web note")
        spent = Spent()
        token = _spent.set(spent)
        try:
            yield spent
        finally:
            _spent.reset(token)
            self.total.add(spent)

    def forget(self) -> None:
        with self._gate:
            self._round += 1
            self._answers.clear()

    def _keep(self, key: Hashable, answer: Answer[Any]) -> None:
        self._answers.pop(key, None)  # the newest comes last
        self._answers[key] = answer
        expired = [each for each, known in self._answers.items() if not known.is_kept()]
        for old in {*expired, *list(self._answers)[:-_MOST]}:
            del self._answers[old]
        for each, asking in list(self._asking.items()):
            if each not in self._answers and not asking.lock.locked():
                del self._asking[each]
