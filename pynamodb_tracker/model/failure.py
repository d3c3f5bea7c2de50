"""A recorded failure: what an attempt ended with, redacted and truncated to a size that can always be stored.

Commands leave entries of the same form: who ignored, unlocked or reopened the task, and why.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any

from pynamodb.constants import MAP, NUMBER, STRING

from pynamodb_tracker import clock

log = logging.getLogger("pynamodb_tracker")

ABANDONED = "abandoned"
"""The type of an entry for an attempt that ended without a result, because its worker died or lost the lock."""

_ONE_LINE = 200
_TYPE = 60
_WORKER = 60
_MESSAGE = 2000
_TRACEBACK = 6000
_LONGEST = 100_000
"""Characters of a text that are looked at; of a longer one, the middle is left out before anything is done with it."""
_MOST_RELATED = 200
"""Causes, and members of groups, that are formatted with an exception; each takes some tenths of a millisecond."""
_OF_A_GROUP = 3
"""Exceptions of an ExceptionGroup that its message names; the traceback has more of them."""

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120 - compared with the names of code objects, which are text


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt did not succeed, or what a person did to the task."""

    step: str
    """The name of the step."""
    attempt: int
    """Which attempt of the step it was, from 1; 0 if none was running."""
    time: datetime
    """When it was recorded."""
    worker: str
    """Who ran the attempt, or who ignored, unlocked or reopened the task."""
    type: str
    """The name of the exception's class; `ignored`, `unlocked`, `reopened` or `abandoned` if there was no exception."""
    message: str
    """The exception's message, or the reason that a person gave; at most 2,000 bytes."""
    traceback: str = ""
    """The traceback, its middle left out if it is longer than 6,000 bytes."""
    count: int = 1
    """How often the task failed like this, or was postponed, one after the other; the time is that of the last one."""

    def with_texts_of(self, error: BaseException, redact: Callable[[str], str] = str) -> Failure:
        """Return it with the message and the traceback of any exception, even if its `str()` raises or returns 400 KB.

        `redact` gets the texts before they are truncated to what is stored, so that no part of a secret is left; of one
        with more than 100,000 characters, only the beginning and the end.
        """
        return replace(
            self,
            message=cut(scrubbed(message_of(error), redact), _MESSAGE),
            traceback=cut(scrubbed(_traceback_of(error), redact), _TRACEBACK),
        )

    @property
    def one_line(self) -> str:
        """The type and the message on one line, short enough for the index."""
        text = " ".join(self.message.split())
        return cut(f"{self.type}: {text}" if text else self.type, _ONE_LINE)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to the user's exception; one that takes none, such as a frozen dataclass, stays as it is."""
    try:
        BaseException.add_note(error, text)  # its class may override the method
    except KeyboardInterrupt:
        raise
    except BaseException:
        log.exception("%s takes no note: %s", type(error).__name__, text)


def message_of(error: BaseException) -> str:
    """Return an exception's message, with those of a group, and its notes, even if its `__str__` or its notes raise."""
    text = _text_of(error)
    if members := _members_of(error):
        text += ": " + "; ".join(map(_line_of, members))
    notes = [_text_or_reason("note", partial(str, note)) for note in _notes_of(error)]
    return "\n".join([text, *notes])


def type_of(error: BaseException) -> str:
    """Return the name of an exception's class, on one line, short enough for the row."""
    return cut(" ".join(_text_or_reason("name", lambda: type(error).__name__).split()), _TYPE)


def _members_of(error: BaseException) -> Sequence[BaseException]:
    """Return the first exceptions of a group, which says only how many there are; none for another exception."""
    found: list[BaseException] = []
    groups = [error] if issubclass(type(error), BaseExceptionGroup) else []
    while groups and len(found) < _OF_A_GROUP:
        members = BaseExceptionGroup.exceptions.__get__(groups.pop())  # even if its class overrides the attribute
        found += (each for each in members if not issubclass(type(each), BaseExceptionGroup))
        groups += (each for each in reversed(members) if issubclass(type(each), BaseExceptionGroup))
    return found[:_OF_A_GROUP]


def _line_of(error: BaseException) -> str:
    return ": ".join(filter(None, (type_of(error), _text_of(error))))


def _text_of(error: BaseException) -> str:
    return _text_or_reason("str()", partial(str, error))


def _notes_of(error: BaseException) -> Sequence[object]:
    try:
        notes: object = error.__notes__
    except Exception:  # noqa: BLE001 - it has none, or its class overrides attribute access
        return ()
    return notes if isinstance(notes, list | tuple) else ()


def _text_or_reason(what: str, read: Callable[[], object]) -> str:
    """Return a text of the user's exception, or why there is none: a failure is recorded in any case.

    Only KeyboardInterrupt propagates: it comes from a person, not from that class.
    """
    try:
        return clean(_without_middle(str(read())))
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - even a sys.exit() there must not prevent the record
        return f"<its {what} raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback without its last lines, the type and the message, which are recorded separately."""

    def formatted() -> str:
        if _has_many_related(error):
            frames = traceback.format_tb(_outside(error.__traceback__), limit=-20)
            return "".join(
                [f"More than {_MOST_RELATED} causes are left out.\n\nTraceback (most recent call last):\n", *frames]
            )
        whole = traceback.TracebackException(type(error), error, _outside(error.__traceback__), limit=-20)
        return "".join(whole.format()).removesuffix("".join(whole.format_exception_only()))

    return _text_or_reason("traceback", formatted)


def _has_many_related(error: BaseException) -> bool:
    """Return whether an exception has more causes and members than are formatted, theirs included."""
    found, left = set[int](), [error]
    while left and len(found) <= _MOST_RELATED:
        each = left.pop()
        found.add(id(each))
        related = [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            related += each.exceptions[: _MOST_RELATED + 1]
        left += [other for other in related if other is not None and id(other) not in found]
    return len(found) > _MOST_RELATED


def _outside(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the user's block on, without the library's own frames around it."""
    while frames and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE) and frames.tb_next:
        frames = frames.tb_next
    return frames


def scrubbed(text: str, redact: Callable[[str], str]) -> str:
    """Return what the user's `redact` makes of a text; nothing of the text if it fails: it may contain a secret."""
    try:
        left: object = redact(text) if text else text
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a failure is recorded in any case
        return f"<withheld: redact raised {type(broken).__name__}>"
    return clean(left) if isinstance(left, str) else f"<withheld: redact returned a {type(left).__name__}>"


def clean(text: str) -> str:
    """Return the text as DynamoDB can store it: characters that UTF-8 lacks are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _without_middle(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} ... {text[-half:]}"


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` bytes, without its middle if it is longer."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    head = (limit - 5) // 3
    tail = limit - 5 - head
    return raw[:head].decode(errors="ignore") + " ... " + raw[-tail:].decode(errors="ignore")


def to_map(failure: Failure, *, message: int = _MESSAGE, traceback: int = _TRACEBACK) -> dict[str, Any]:
    """Return a failure as a stored map, its message and its traceback truncated to that many bytes."""
    entry = {
        "step": {STRING: failure.step},
        "attempt": {NUMBER: str(failure.attempt)},
        "time": {STRING: clock.stamp(failure.time)},
        "worker": {STRING: cut(clean(failure.worker), _WORKER)},
        "type": {STRING: failure.type},
        "message": {STRING: cut(failure.message, message)},
    }
    if failure.traceback and traceback:
        entry["traceback"] = {STRING: cut(failure.traceback, traceback)}
    if failure.count > 1:
        entry["count"] = {NUMBER: str(failure.count)}
    return {MAP: entry}


def from_map(entry: Mapping[str, Any]) -> Failure:
    """Return the failure in a stored map; a ValueError if it cannot be read."""
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
        raise ValueError(f"a failure has no {missing}, or it is of another type") from missing
