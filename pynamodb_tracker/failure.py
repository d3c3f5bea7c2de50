"""One failure on record: what an attempt ended with, cut to a size that always fits the row."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import LIST, MAP, NUMBER, STRING

from pynamodb_tracker import clock

__all__ = ["MAX_FAILURES", "ErrorsAttribute", "Failure"]

MAX_FAILURES = 10
"""How many failures a row keeps, the newest ones."""

MAX_BYTES = 500
"""How many bytes of failures a row keeps: every write of a task costs its whole row, per started KB."""

ONE_LINE = 200
MESSAGE = 200
_OLDER_MESSAGE = 40
_LEAST_TRACEBACK = 60

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
    """What the exception or the person said, cut to a few hundred bytes."""
    traceback: str = ""
    """Both ends of the traceback; the newest failure alone keeps it."""

    @classmethod
    def of(cls, error: BaseException, *, step: str, attempt: int, time: datetime, worker: str) -> Failure:
        """Return the record of an exception, whatever it is: one whose `str()` raises, or of 400 KB, included."""
        return cls(
            step=step,
            attempt=attempt,
            time=time,
            worker=worker,
            type=cut(clean(type(error).__name__), 60),
            message=cut(message_of(error), MESSAGE),
            traceback=cut(_traceback_of(error), MAX_BYTES),
        )

    @property
    def one_line(self) -> str:
        """The type and the message on one line, short enough for the index."""
        text = " ".join(self.message.split())
        return cut(f"{self.type}: {text}" if text else self.type, ONE_LINE)


def message_of(error: BaseException) -> str:
    """Return what an exception says, its notes included, also where its `__str__` raises."""
    try:
        return clean("\n".join(map(str, (error, *getattr(error, "__notes__", ())))))
    except Exception as broken:  # noqa: BLE001 - a failure is recorded whatever the user's exception does
        return f"<its str() raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback without its last lines: those are the type and the message, which are told apart."""
    try:
        told = traceback.TracebackException(type(error), error, _outside(error.__traceback__), limit=-20)
        return clean("".join(told.format()).removesuffix("".join(told.format_exception_only())))
    except Exception as broken:  # noqa: BLE001 - a failure is recorded whatever the user's exception does
        return f"<its traceback could not be formatted: {type(broken).__name__}>"


def _outside(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the user's block on: the library's own frames around it say nothing."""
    while frames and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE) and frames.tb_next:
        frames = frames.tb_next
    return frames


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


class ErrorsAttribute(Attribute[list[Failure]]):
    """The last failures of a task, oldest first, as a list of maps."""

    attr_type = LIST

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return the failures of a row, none where it has none."""
        return self if instance is None else instance.attribute_values.get("errors") or []

    def serialize(self, value: Sequence[Failure]) -> list[dict[str, Any]]:
        """Return the stored list: the newest with its traceback, as many older ones as the bounds allow without."""
        newest = [stored(failure) for failure in value[-1:]]
        older = [stored(failure, message=_OLDER_MESSAGE) for failure in value[-MAX_FAILURES:-1]]
        room = MAX_BYTES - sum(map(_size, newest)) - _LEAST_TRACEBACK
        kept: list[dict[str, Any]] = []
        for entry in reversed(older):
            room -= _size(entry)
            if room < 0:
                break
            kept.insert(0, entry)
        if newest and value[-1].traceback:
            used = sum(map(_size, kept + newest)) + len("traceback")
            newest[0][MAP]["traceback"] = {STRING: cut(value[-1].traceback, max(MAX_BYTES - used, _LEAST_TRACEBACK))}
        return kept + newest

    def deserialize(self, value: Sequence[Mapping[str, Any]]) -> list[Failure]:
        """Return the failures; an entry that lacks a field, from an older version, reads it as empty."""
        return [_loaded(entry[MAP]) for entry in value]


def stored(failure: Failure, *, message: int = MESSAGE) -> dict[str, Any]:
    """Return one failure as a stored map without its traceback, the message cut to the given bytes."""
    entry = {
        "step": {STRING: failure.step},
        "attempt": {NUMBER: str(failure.attempt)},
        "time": {STRING: clock.stamp(failure.time)},
        "worker": {STRING: cut(clean(failure.worker), 60)},
        "type": {STRING: failure.type},
        "message": {STRING: cut(clean(failure.message), message)},
    }
    return {MAP: entry}


def _size(entry: Mapping[str, Any]) -> int:
    return sum(len(name) + 2 + len(next(iter(value.values())).encode()) for name, value in entry[MAP].items())


def _loaded(entry: Mapping[str, Any]) -> Failure:
    texts = {name: next(iter(value.values())) for name, value in entry.items()}
    known = {field.name: texts.get(field.name, "") for field in fields(Failure)}
    known["attempt"] = int(known["attempt"] or 0)
    known["time"] = datetime.fromisoformat(known["time"]) if known["time"] else datetime.min.replace(tzinfo=UTC)
    return Failure(**known)
