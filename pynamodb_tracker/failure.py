"""One failure on record: what an attempt ended with, scrubbed and cut to a size that can always be stored."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any

from pynamodb.constants import MAP, NUMBER, STRING

from pynamodb_tracker import clock

__all__ = ["Failure", "clean", "cut", "from_map", "scrubbed", "to_map"]

_ONE_LINE = 200
_TYPE = 60
_WORKER = 60
_MESSAGE = 2000
_TRACEBACK = 6000

_PACKAGE = os.path.dirname(__file__) + os.sep  # noqa: PTH120 - compared with the names of code objects, which are text


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt did not succeed, or why a task was set aside."""

    step: str
    """The name of the step."""
    attempt: int
    """Which attempt of the step it was, from 1; 0 where none was running."""
    time: datetime
    """When it was recorded."""
    worker: str
    """Who ran the attempt, or set the task aside."""
    type: str
    """The name of the exception's class, or `ignored` where there was no exception."""
    message: str
    """What the exception or the person said, at most 2,000 bytes of it."""
    traceback: str = ""
    """The traceback, at most 6,000 bytes of it: both ends."""

    @classmethod
    def of(
        cls,
        error: BaseException,
        *,
        step: str,
        attempt: int,
        time: datetime,
        worker: str,
        redact: Callable[[str], str] = str,
    ) -> Failure:
        """Return the record of an exception, whatever it is: one whose `str()` raises, or of 400 KB, included.

        `redact` gets the whole texts, before they are cut, so that no half of a secret is left.
        """
        return cls(
            step=step,
            attempt=attempt,
            time=time,
            worker=worker,
            type=cut(_type_of(error), _TYPE),
            message=cut(scrubbed(message_of(error), redact), _MESSAGE),
            traceback=cut(scrubbed(_traceback_of(error), redact), _TRACEBACK),
        )

    @property
    def one_line(self) -> str:
        """The type and the message on one line, short enough for the index."""
        text = " ".join(self.message.split())
        return cut(f"{self.type}: {text}" if text else self.type, _ONE_LINE)


def message_of(error: BaseException) -> str:
    """Return what an exception says, its notes included, also where its `__str__` or its notes raise."""
    return "\n".join(
        [_told("str()", partial(str, error)), *(_told("note", partial(str, note)) for note in _notes_of(error))]
    )


def _type_of(error: BaseException) -> str:
    """Return the name of an exception's class, on one line."""
    return " ".join(_told("name", lambda: type(error).__name__).split())


def _notes_of(error: BaseException) -> Sequence[object]:
    try:
        notes: object = error.__notes__
    except Exception:  # noqa: BLE001 - it has none, or its class makes something else of every name
        return ()
    return notes if isinstance(notes, list | tuple) else ()


def _told(what: str, tell: Callable[[], object]) -> str:
    """Return a text of the user's exception, or that there is none: a failure is recorded whatever its class does.

    Ctrl-C alone leaves: it is of a person, and not of that class.
    """
    try:
        return clean(str(tell()))
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a sys.exit() there must not keep the failure from its record
        return f"<its {what} raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback without its last lines: those are the type and the message, which are told apart."""

    def formatted() -> str:
        told = traceback.TracebackException(type(error), error, _outside(error.__traceback__), limit=-20)
        return "".join(told.format()).removesuffix("".join(told.format_exception_only()))

    return _told("traceback", formatted)


def _outside(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the user's block on: the library's own frames around it say nothing."""
    while frames and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE) and frames.tb_next:
        frames = frames.tb_next
    return frames


def scrubbed(text: str, redact: Callable[[str], str]) -> str:
    """Return what the user's `redact` leaves of a text; nothing of it where that fails, for it may hold a secret."""
    try:
        left: object = redact(text) if text else text
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a failure is recorded whatever the user's hook does
        return f"<withheld: redact raised {type(broken).__name__}>"
    return clean(left) if isinstance(left, str) else f"<withheld: redact returned a {type(left).__name__}>"


def clean(text: str) -> str:
    """Return the text as DynamoDB can store it: what has no UTF-8 is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` bytes, both ends kept and the middle gone."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    head = (limit - 5) // 3
    tail = limit - 5 - head
    return raw[:head].decode(errors="ignore") + " ... " + raw[-tail:].decode(errors="ignore")


def to_map(failure: Failure, *, message: int = _MESSAGE, traceback: int = _TRACEBACK) -> dict[str, Any]:
    """Return one failure as a stored map, its message and its traceback cut to so many bytes."""
    entry = {
        "step": {STRING: failure.step},
        "attempt": {NUMBER: str(failure.attempt)},
        "time": {STRING: clock.stamp(failure.time)},
        "worker": {STRING: cut(clean(failure.worker), _WORKER)},
        "type": {STRING: failure.type},
        "message": {STRING: cut(clean(failure.message), message)},
    }
    if failure.traceback and traceback:
        entry["traceback"] = {STRING: cut(failure.traceback, traceback)}
    return {MAP: entry}


def from_map(entry: Mapping[str, Any]) -> Failure:
    """Return the failure of a stored map; a field that it lacks, from an older version, reads as empty."""
    texts = {name: next(iter(value.values())) for name, value in entry[MAP].items()}
    known = {field.name: texts.get(field.name, "") for field in fields(Failure)}
    known["attempt"] = int(known["attempt"] or 0)
    known["time"] = datetime.fromisoformat(known["time"]) if known["time"] else datetime.min.replace(tzinfo=UTC)
    return Failure(**known)
