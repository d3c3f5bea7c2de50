"""Decides whether a request is sent again. No other module sleeps because a request failed or was refused.

Retries end at the first of these:

    the lock       expires. A later response is worthless
    the deadline   from `ending_by`: half a second before a Lambda invocation ends, or as a caller has set it
    the stop       from `stopped_by`: a grace time is over, a second interrupt, a cancelled asyncio task
    the number     TRIES, or one try after a permanent error, except within `persist`

`persist` is for writes after the work is done: without a record, the work is lost.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from botocore.exceptions import BotoCoreError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.around import around, set_variable
from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.error_codes import is_conflict, is_proof, is_retryable_response, may_be_applied
from pynamodb_tracker.instrumentation import log

V = TypeVar("V")

TRIES = 6  # while failures are temporary, each with the SDK's own retries
SHORTEST_TIMEOUT = 0.5  # in seconds. Recording an outcome is worth one real try even after its lock has expired.
_SHORTEST_REQUEST = 2 * SHORTEST_TIMEOUT  # when nothing responds
_GLANCE = 0.25  # seconds between two looks at the stop during a pause
_deadline: ContextVar[datetime | None] = ContextVar("pynamodb_tracker_deadline", default=None)
_stops: ContextVar[tuple[list[threading.Event], ...]] = ContextVar("pynamodb_tracker_stops", default=())
"""A list with an event per running block. Emptying it after the block also ends it in copies of the context."""


def ending_by(time: datetime | None) -> AbstractContextManager[None]:
    """Let this block's requests end by that time, or by an earlier outer deadline."""
    before = _deadline.get()
    return set_variable(_deadline, before if time is None else min(time, before or time))


def ending_with(time: datetime | None) -> AbstractContextManager[None]:
    """Let this block's requests end by that time, even if a stale outer deadline is earlier."""
    return set_variable(_deadline, time or _deadline.get())


@around
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Once the event is set, retry nothing in this block."""
    stop, before = [event], _stops.get()
    try:
        _stops.set((*before, stop))
        yield
    finally:
        stop.clear()
        _stops.set(before)


def not_persisting() -> AbstractContextManager[None]:
    """Send this block's requests as if outside `persist`."""
    return set_variable(_persisting, None)


def deadline() -> datetime | None:
    return _deadline.get()


def is_stopped() -> bool:
    for stop in _stops.get():
        for event in stop:
            if event.is_set():
                return True
    return False


def may_be_stopped() -> bool:
    return bool(_stops.get())


def latest_response(until: datetime | None) -> datetime | None:
    """Return when a response becomes worthless."""
    persisting, end = _persisting.get(), _deadline.get()
    if until is None and persisting is not None:
        until = persisting.lock.expire_time
    return end if until is None else min(until, end or until)


def end_of_request(until: datetime | None) -> datetime | None:
    """Return when a response becomes worthless, or raise NotSentError if the run has run out of time."""
    persisting = _persisting.get()
    if persisting is not None and persisting.lock.is_out_of_time and not _has_time(_SHORTEST_REQUEST):
        raise NotSentError
    return latest_response(until)


def slept_before_retry(
    retry: int,
    until: datetime | None = None,
    *,
    base: float = 0.05,
    longest: float = 5.0,
    takes: float = _SHORTEST_REQUEST,
) -> bool:
    """Sleep before a retry, numbered from 0, and return True, or return False if retrying must end.

    A pause that would leave less than `takes` seconds for the request is shortened, so that the last try is a late one.
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
    end = _deadline.get()
    return end is None or clock.now() + timedelta(seconds=seconds) <= end


class NotSentError(BotoCoreError):  # type: ignore[misc]  # untyped
    fmt = "not sent: no time is left, or the call was stopped"


class Lock(Protocol):
    @property
    def expire_time(self) -> datetime: ...

    is_out_of_time: bool  # whether the run gave up a request because of the deadline

    @property
    def log_fields(self) -> Mapping[str, object]: ...


class Persisting:
    def __init__(self, lock: Lock, what: str) -> None:
        self.lock = lock
        self.what = what
        self.failures = 0
        self.is_logged = False

    def note(self, error: Exception) -> None:
        self.failures += 1
        if not self.is_logged and not is_conflict(error):
            self.is_logged = True
            text = "%s of %s could not be recorded yet, and will be retried until %s at the latest: %s"
            log.warning(text, self.what, self.lock, latest_response(None), error, extra=self.lock.log_fields)


_persisting: ContextVar[Persisting | None] = ContextVar("pynamodb_tracker_persisting", default=None)


def persist(lock: Lock, function: Callable[[], V], what: str = "the end") -> V:
    """Call a function, and retry its requests until they are applied, or a response proves that they never can be.

    Only the lock, the deadline and the stop end that. The function runs in a copy of this context, so that an exception
    from a signal handler leaves nothing of it behind.
    """
    context, persisting = copy_context(), Persisting(lock, what)
    context.run(_persisting.set, persisting)
    result = context.run(function)
    if persisting.is_logged:
        text = "%s of %s was recorded after %d failed requests"
        log.info(text, what, lock, persisting.failures, extra=lock.log_fields)
    return result


def send_once(function: Callable[[], V]) -> V:
    """Call a function without retrying its requests, in a copy of this context like `persist`."""
    stop = threading.Event()
    stop.set()
    context = copy_context()
    context.run(_stops.set, ([stop],))
    return context.run(function)


def is_persisting() -> bool:
    return _persisting.get() is not None


class Tries:
    __slots__ = ("is_lost", "is_temporary", "number", "until")

    def __init__(self, until: datetime | None = None) -> None:
        self.until = until
        self.number = 0
        self.is_lost = False  # whether any try may have been applied, because its response was lost
        self.is_temporary = False

    def failed(self, error: Exception, *, is_temporary: bool | None = None, is_final: bool | None = None) -> bool:
        """Sleep and return True if the request should be retried after this error.

        `is_temporary` overrides the decision outside `persist`, `is_final` the one within.
        """
        self.is_lost = self.is_lost or may_be_applied(error)
        persisting = _persisting.get()
        if persisting is None:
            self.is_temporary = is_retryable_response(error) if is_temporary is None else is_temporary
            may_retry = self.is_temporary and self.number < TRIES - 1
        else:
            may_retry = self.is_temporary = not (is_proof(error) if is_final is None else is_final)
        if not (may_retry and slept_before_retry(self.number, self.until)):
            if persisting is not None:
                persisting.lock.is_out_of_time = may_retry
            return False
        self.number += 1
        if persisting is not None:
            persisting.note(error)
        return True
