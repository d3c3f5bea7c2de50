"""Recorded failures, redacted and truncated so that they always fit.

Commands record entries in the same form.
"""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from pynamodb.constants import MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.instrumentation import log

ABANDONED = "abandoned"  # the type for an attempt that never ended, because its worker died or lost the lock
_ONE_LINE = 200
_TYPE = 60
_WORKER = 60
_MESSAGE = 2000
_TRACEBACK = 6000
_LONGEST = 100_000  # characters; a longer text loses its middle before anything else happens to it
_MOST_RELATED = 200  # causes and group members to format with an exception
_OF_A_GROUP = 3  # exceptions that the message names
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120 - code objects have file names as text


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, or what a person did to the task."""

    step: str
    """The step's name."""
    attempt: int
    """The step's attempt, from 1, or 0 if none was running."""
    time: datetime
    """When it was recorded."""
    worker: str
    """Who ran the attempt, or who ignored, unlocked or reopened the task."""
    type: str
    """The exception's class, or `ignored`, `unlocked`, `reopened` or `abandoned`."""
    message: str
    """The exception's message or a person's reason, up to 2,000 bytes."""
    traceback: str = ""
    """Up to 6,000 bytes. A longer one loses its middle."""
    count: int = 1
    """How many times in a row this happened. `time` is the last time."""

    def with_texts_of(self, error: BaseException, redact: Callable[[str], str] = str) -> Self:
        """Add an exception's message and traceback, redacted and then truncated."""
        return replace(
            self,
            message=cut(redact_text(message_of(error), redact), _MESSAGE),
            traceback=cut(redact_text(_traceback_of(error), redact), _TRACEBACK),
        )

    @property
    def one_line(self) -> str:
        """The type and message on one line, short enough for the index."""
        text = " ".join(self.message.split())
        return cut(f"{self.type}: {text}" if text else self.type, _ONE_LINE)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to the user's exception, unless it accepts none, such as a frozen dataclass."""
    try:
        BaseException.add_note(error, text)  # its class may override the method
    except KeyboardInterrupt:
        raise
    except BaseException:
        log.exception("cannot add a note to %s: %s", type(error).__name__, text)


def message_of(error: BaseException) -> str:
    text = _text_of(error)
    if members := _members_of(error):
        text += ": " + "; ".join(": ".join(filter(None, (type_of(each), _text_of(each)))) for each in members)
    notes = [_text_or_reason("note", partial(str, note)) for note in _notes_of(error)]
    return "\n".join([text, *notes])


def type_of(error: BaseException) -> str:
    return cut(" ".join(_text_or_reason("name", lambda: type(error).__name__).split()), _TYPE)


def _members_of(error: BaseException) -> Sequence[BaseException]:
    """Return a group's first exceptions, because its own message only counts them."""
    found: list[BaseException] = []
    groups = [error] if issubclass(type(error), BaseExceptionGroup) else []
    while groups and len(found) < _OF_A_GROUP:
        members = BaseExceptionGroup.exceptions.__get__(groups.pop())  # even if its class overrides the attribute
        found += (each for each in members if not issubclass(type(each), BaseExceptionGroup))
        groups += (each for each in reversed(members) if issubclass(type(each), BaseExceptionGroup))
    return found[:_OF_A_GROUP]


def _text_of(error: BaseException) -> str:
    return _text_or_reason("str()", partial(str, error))


def _notes_of(error: BaseException) -> Sequence[object]:
    try:
        notes: object = error.__notes__
    except Exception:  # noqa: BLE001 - none, or its class overrides attribute access
        return ()
    return notes if isinstance(notes, list | tuple) else ()


def _text_or_reason(what: str, read: Callable[[], object]) -> str:
    """Return a text from the user's exception, or why there is none. Only KeyboardInterrupt propagates."""
    try:
        text, half = str(read()), _LONGEST // 2
        return clean(text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}")
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - even SystemExit
        return f"<its {what} raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:

    def formatted() -> str:
        if _has_many_related(error):
            frames = "".join(traceback.format_tb(_without_own_frames(error.__traceback__), limit=-20))
            return f"More than {_MOST_RELATED} causes are left out.\n\nTraceback (most recent call last):\n{frames}"
        whole = traceback.TracebackException(type(error), error, _without_own_frames(error.__traceback__), limit=-20)
        return "".join(whole.format()).removesuffix("".join(whole.format_exception_only()))

    return _text_or_reason("traceback", formatted)


def _has_many_related(error: BaseException) -> bool:
    found, left = set[int](), [error]
    while left and len(found) <= _MOST_RELATED:
        each = left.pop()
        found.add(id(each))
        related = [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            related += each.exceptions[: _MOST_RELATED + 1]
        left += [other for other in related if other is not None and id(other) not in found]
    return len(found) > _MOST_RELATED


def _without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE) and frames.tb_next:
        frames = frames.tb_next
    return frames


def redact_text(text: str, redact: Callable[[str], str]) -> str:
    """Redact a text. If the user's `redact` fails, withhold the text, because it may contain a secret."""
    try:
        left: object = redact(text) if text else text
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - the failure must be recorded
        return f"<withheld: redact raised {type(broken).__name__}>"
    return clean(left) if isinstance(left, str) else f"<withheld: redact returned a {type(left).__name__}>"


def clean(text: str) -> str:
    """Escape lone surrogates, which DynamoDB could not store."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """Shorten a text to at most `limit` bytes by cutting out its middle."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    head = (limit - 5) // 3
    tail = limit - 5 - head
    return raw[:head].decode(errors="ignore") + " ... " + raw[-tail:].decode(errors="ignore")


def to_map(failure: Failure) -> dict[str, Any]:
    entry = {
        "step": {STRING: failure.step},
        "attempt": {NUMBER: str(failure.attempt)},
        "time": {STRING: clock.stamp(failure.time)},
        "worker": {STRING: cut(clean(failure.worker), _WORKER)},
        "type": {STRING: failure.type},
        "message": {STRING: cut(failure.message, _MESSAGE)},
    }
    if failure.traceback:
        entry["traceback"] = {STRING: cut(failure.traceback, _TRACEBACK)}
    if failure.count > 1:
        entry["count"] = {NUMBER: str(failure.count)}
    return {MAP: entry}


def from_map(entry: Mapping[str, Any]) -> Failure:
    found = entry[MAP]
    try:
        count = found.get("count") or found.get("repeats") or {NUMBER: 1}
        return Failure(
            found["step"][STRING],
            int(found["attempt"][NUMBER]),
            datetime.fromisoformat(found["time"][STRING]),
            found["worker"][STRING],
            found["type"][STRING],
            found["message"][STRING],
            found["traceback"][STRING] if "traceback" in found else "",
            int(count[NUMBER]),
        )
    except KeyError as missing:
        raise ValueError(f"{missing} is missing in a failure, or of another type") from missing


def first_failure_text(time: datetime, number: int, of_round: str) -> str:
    """Return when a task first failed at this step in this round, in stored form."""
    return f"{clock.stamp(time)} {number} {of_round}"


def first_failure(stored: str | None, number: int, of_round: str) -> datetime | None:
    """Return when a task first failed at this step in this round, or None if unknown."""
    time, _, of = (stored or "").partition(" ")
    return clock.read(time) if of == f"{number} {of_round}" else None
