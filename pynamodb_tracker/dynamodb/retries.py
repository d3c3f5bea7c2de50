"""Whether a request is sent again: the only place that sleeps because a request has failed, or was refused.

Whatever comes first ends the tries:

    the lock       `until`, given by the caller, or else the lock of `persist`: a later response is worthless
    the deadline   `ending_by`: half a second before a Lambda invocation ends, or as a caller has set it
    the stop       `stopped_by`: a grace time is over, a second interrupt, a cancelled asyncio task
    the number     TRIES, and at once after a permanent error; not within `persist`

`persist` is for what a run writes once its work is done. A claim or a query that fails costs nothing, so it gives
up early. An end that is not recorded costs the work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from botocore.exceptions import BotoCoreError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.around import around
from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.error_codes import is_conflict, is_proof, is_retryable_response, may_be_applied

log = logging.getLogger("pynamodb_tracker")

V = TypeVar("V")

TRIES = 6
"""How often a request is sent if its failures are temporary; each time, the SDK retries as the user configured it."""

SHORTEST_TIMEOUT = 0.5
"""Seconds; no timeout is shorter, because an end is worth one real try even after its lock has expired."""

_SHORTEST_REQUEST = 2 * SHORTEST_TIMEOUT
"""Seconds that a request takes when nothing responds: time to connect, and time to read."""

_GLANCE = 0.25
"""Seconds after which a pause looks whether it was stopped."""

_deadline: ContextVar[datetime | None] = ContextVar("pynamodb_tracker_deadline", default=None)
_stops: ContextVar[tuple[list[threading.Event], ...]] = ContextVar("pynamodb_tracker_stops", default=())
"""A list with its event for each block that is running. It is empty after the block, for copies of the context, too."""
_persisting: ContextVar[Persisting | None] = ContextVar("pynamodb_tracker_persisting", default=None)


@around
def _setting(variable: ContextVar[V], value: V) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def ending_by(time: datetime | None) -> AbstractContextManager[None]:
    """Let requests that are sent in this block end by that time, or by an earlier one of the block around it."""
    before = _deadline.get()
    return _setting(_deadline, before if time is None else min(time, before or time))


def ending_with(time: datetime | None) -> AbstractContextManager[None]:
    """Let requests that are sent in this block end by that time, whatever the block around it says.

    For an invocation: an exception that arrives at any line may have left the deadline of an earlier one behind.
    """
    return _setting(_deadline, time or _deadline.get())


@around
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Send nothing again in this block, and take no other item in `in_threads`, once the event is set.

    What the block has started in a copy of its context, such as a thread, is not stopped after the block.
    """
    stop, before = [event], _stops.get()
    try:
        _stops.set((*before, stop))
        yield
    finally:
        stop.clear()
        _stops.set(before)


def not_persisting() -> AbstractContextManager[None]:
    """Send the requests of this block as outside of `persist`: nothing is lost without them."""
    return _setting(_persisting, None)


def deadline() -> datetime | None:
    """Return the time of `ending_by`."""
    return _deadline.get()


def is_stopped() -> bool:
    """Return whether an event of `stopped_by` is set."""
    return any(event.is_set() for stop in _stops.get() for event in stop)


def may_be_stopped() -> bool:
    """Return whether an event of `stopped_by` may be set."""
    return bool(_stops.get())


def latest_response(until: datetime | None) -> datetime | None:
    """Return after when a response is worthless: at that time, or when the lock expires, or at the deadline."""
    persisting, end = _persisting.get(), _deadline.get()
    if until is None and persisting is not None:
        until = persisting.lock.expire_time
    return end if until is None else min(until, end or until)


def slept_before_retry(
    retry: int,
    until: datetime | None = None,
    *,
    base: float = 0.05,
    longest: float = 5.0,
    takes: float = _SHORTEST_REQUEST,
) -> bool:
    """Sleep before a request is sent again, and return True; return False if one of the ends comes first.

    The retries are numbered from 0. `base` and `longest` are as for `jittered_pause`. `takes` are the seconds that the
    request needs before the end. A pause that is too long for that is shortened, so that the last try is a late one.
    """
    pause, end = jittered_pause(retry, base=base, longest=longest), latest_response(until)
    if end is not None:
        left = (end - clock.now()).total_seconds()
        if pause >= left or not _has_time(pause + takes):
            pause = left - takes
            if pause < _GLANCE:  # the last try was late enough
                return False
    while not is_stopped():
        if pause <= 0:
            return True
        glance = min(pause, _GLANCE) if _stops.get() else pause
        clock.sleep(glance)
        pause -= glance
    return False


def _has_time(seconds: float) -> bool:
    """Return whether so much time is left before the deadline."""
    end = _deadline.get()
    return end is None or clock.now() + timedelta(seconds=seconds) <= end


def check_time() -> None:
    """Raise NotSentError if the run has given up a request because of the deadline: this one may get no response."""
    persisting = _persisting.get()
    if persisting is not None and persisting.lock.is_out_of_time and not _has_time(_SHORTEST_REQUEST):
        raise NotSentError


class NotSentError(BotoCoreError):  # type: ignore[misc]  # it has no types
    """There is no time left for a request, or nobody waits for it any more."""

    fmt = "not sent: no time is left, or the call was stopped"


class Lock(Protocol):
    """The lock of a run; a heartbeat may extend it in the meantime."""

    @property
    def expire_time(self) -> datetime:
        """When it expires, as known by now."""
        ...

    is_out_of_time: bool
    """Whether a request of the run was given up because of the deadline."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        """The extra fields of log records about the run."""
        ...


class Persisting:
    """How the requests of a run are sent that are worth more than one try, and what is logged about that."""

    def __init__(self, lock: Lock, what: str) -> None:
        self.lock = lock
        """The lock of the run."""
        self._what = what
        self._failures = 0
        self._is_logged = False

    def call(self, function: Callable[[], V]) -> V:
        """Call a function whose requests are sent like this; to be called in a context of its own."""
        _persisting.set(self)
        result = function()
        if self._is_logged:
            text = "%s of %s was recorded after %d failed requests"
            log.info(text, self._what, self.lock, self._failures, extra=self.lock.log_fields)
        return result

    def note(self, error: Exception) -> None:
        """Log the first failure; a conflict with another write is none."""
        self._failures += 1
        if not self._is_logged and not is_conflict(error):
            self._is_logged = True
            text = "%s of %s could not be recorded yet, and is sent again until %s at the latest: %s"
            log.warning(text, self._what, self.lock, latest_response(None), error, extra=self.lock.log_fields)


def persist(lock: Lock, function: Callable[[], V], what: str = "the end") -> V:
    """Call a function, and send its requests until they are applied, or a response proves that they never can be.

    Only the lock, the deadline and the stop end that. The first failure is logged as a warning, and success after it at
    level INFO. The function is called in a copy of this context: an exception that arrives at any line, such as that of
    a signal handler, cannot leave anything of it behind.
    """
    return copy_context().run(Persisting(lock, what).call, function)


def send_once(function: Callable[[], V]) -> V:
    """Call a function, and send nothing again that it sends; in a copy of this context, as `persist` does."""
    stop = threading.Event()
    stop.set()
    context = copy_context()
    context.run(_stops.set, ([stop],))
    return context.run(function)


def is_persisting() -> bool:
    """Return whether requests are sent until they are applied."""
    return _persisting.get() is not None


class Tries:
    """The tries of one request."""

    __slots__ = ("is_lost", "is_temporary", "number", "until")

    def __init__(self, until: datetime | None = None) -> None:
        self.until = until
        self.number = 0
        self.is_lost = False
        """Whether one of them may have been applied, because its response was lost."""
        self.is_temporary = False
        """Whether the last failure may pass."""

    def failed(self, error: Exception, *, is_temporary: bool | None = None, is_final: bool | None = None) -> bool:
        """Sleep and return True if the request is to be sent again after this error of the SDK.

        Otherwise return False. `is_temporary` is what decides outside of `persist`, `is_final` within.
        """
        self.is_lost = self.is_lost or may_be_applied(error)
        persisting = _persisting.get()
        if persisting is None:
            self.is_temporary = is_retryable_response(error) if is_temporary is None else is_temporary
            goes_on = self.is_temporary and self.number < TRIES - 1
        else:
            goes_on = self.is_temporary = not (is_proof(error) if is_final is None else is_final)
        if not (goes_on and slept_before_retry(self.number, self.until)):
            if persisting is not None:
                persisting.lock.is_out_of_time = goes_on
            return False
        self.number += 1
        if persisting is not None:
            persisting.note(error)
        return True
