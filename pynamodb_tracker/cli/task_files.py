"""Files of tasks, CSV or JSON lines: each line read as what `create` takes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.cli.exits import CannotRunError, stdin
from pynamodb_tracker.cli.json_values import from_json, from_text, time_of
from pynamodb_tracker.cli.lookup import state_named
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

csv.field_size_limit(16 * 1024 * 1024)  # `data` may have 10 MB


class Format(StrEnum):
    """How a file is written: CSV with a header, or a JSON object per line."""

    CSV = "csv"
    JSONL = "jsonl"


_FORMATS = {".csv": Format.CSV, ".tsv": Format.CSV}
_FORMATS |= dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL)


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a line, or what is wrong with it."""

    number: int
    values: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


class File:
    """An open file of tasks; `size` is in bytes, and None for a pipe."""

    def __init__(self, name: str, raw: BinaryIO, form: Format | None, size: int | None) -> None:
        self.name = name
        self.size = size
        self._raw = raw
        self._source = TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        head = list(_through_first_filled(self._source))
        first = head[-1] if head else ""
        self.is_empty = not first.strip()
        """Whether all its lines are empty."""
        guessed = Format.JSONL if first.lstrip()[:1] in {"{", "["} else Format.CSV
        self.form = form or _FORMATS.get(Path(name).suffix.lower()) or guessed
        self._text: Iterable[str] = chain(head, self._source)
        self.columns: list[str] = []
        """The header of a CSV file."""
        if self.form is Format.CSV:
            delimiter = max(",;\t", key=first.count)
            self._rows = csv.reader(map(_check_utf8, self._text), delimiter=delimiter, strict=True)
            self.columns = self._header()

    def release(self) -> None:
        """Leave the underlying file open."""
        self._source.detach()

    @property
    def position(self) -> int | None:
        """How many bytes were read."""
        return None if self.size is None else self._raw.tell()

    def lines(self) -> Iterator[Line]:
        """Yield the lines that are not empty, after the header."""
        return self._csv_lines() if self.form is Format.CSV else self._json_lines()

    def _header(self) -> list[str]:
        try:
            return next(filter(None, self._rows), [])
        except (csv.Error, ValueError) as error:
            raise CannotRunError(f"{self.name}:1: this is not CSV: {error}") from None

    def _csv_lines(self) -> Iterator[Line]:
        while True:
            number = self._rows.line_num + 1
            try:
                fields = next(self._rows)
            except StopIteration:
                return
            except (csv.Error, ValueError) as error:
                is_open = "unexpected end of data" in str(error)
                reason = "a quote opens here and is never closed, so nothing after it was read" if is_open else error
                yield Line(number, problem=f"this is not CSV: {reason}")
                continue
            if len(fields) == len(self.columns):
                pairs = zip(self.columns, fields, strict=True)
                yield Line(number, {column: text for column, text in pairs if text})
            elif fields:
                yield Line(number, problem=f"{len(fields)} fields, but the header has {len(self.columns)}")

    def _json_lines(self) -> Iterator[Line]:
        for number, text in enumerate(self._text, 1):
            if not text.strip():
                continue
            try:
                values = json.loads(_check_utf8(text), parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                yield Line(number, problem=f"this is not JSON: {error}")
                continue
            if isinstance(values, dict):
                yield Line(number, {key: value for key, value in values.items() if value is not None})
            else:
                yield Line(number, problem='this is not a JSON object: write one per line, as in {"task_id": "o-1"}')


def _through_first_filled(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _check_utf8(text: str) -> str:
    if not text.isascii() and any("\udc80" <= each <= "\udcff" for each in text):
        raise ValueError("it is not UTF-8")
    return text


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


@contextmanager
def open_tasks(name: str, form: Format | None) -> Iterator[File]:
    """Open a file by its name, or stdin as `-`; a CannotRunError says why it cannot be read."""
    with _open_binary(name) as raw:
        size = Path(name).stat().st_size if name != "-" and Path(name).is_file() else None
        source = File("stdin" if name == "-" else name, raw, form, size)
        try:
            yield source
        finally:
            source.release()


def _open_binary(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(stdin().buffer)
    if name.endswith(".gz"):
        raise CannotRunError(f"{name} is compressed: zcat {name} | pynamodb-tracker load -")
    try:
        return Path(name or "''").open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CannotRunError(f"{name or repr(name)}: {getattr(error, 'strerror', error)}") from None


# What `create` takes for a line.


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads lines of a file as arguments of `create`; tasks whose line has no state start in `initial`."""

    model: type[Task]
    form: Format
    initial: State[Any] | None

    def check_columns(self, source: File) -> None:
        """Refuse a wrong CSV header before anything is created."""
        if source.form is not Format.CSV or source.is_empty:
            return
        known = self._known()
        for column in source.columns:
            if column not in known:
                raise CannotRunError(f"{source.name}:1: {self._unknown(column)}")
            if source.columns.count(column) > 1:
                raise CannotRunError(f"{source.name}:1: the column {column!r} is there twice")
        if "task_id" not in source.columns:
            raise CannotRunError(f"{source.name}:1: there is no column 'task_id'")

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `create` takes; a CannotRunError says what is wrong with a value."""
        found: dict[str, Any] = {} if self.initial is None else {"state": self.initial}
        for key, value in values.items():
            try:
                found[key] = self._read(key, value)
            except (TypeError, ValueError) as error:
                raise CannotRunError(f"{key}: {error}") from None
        if not found.get("task_id"):
            raise CannotRunError("it has no task_id")
        return found

    def _read(self, key: str, value: Any) -> Any:
        if key == "task_id":
            return value
        if key == "state":
            return state_to_load(self.model, str(value))
        if key == "due_time":
            return time_of(value)
        attribute = self.model.tracker.own_attributes.get(key)
        if attribute is None:
            raise CannotRunError(self._unknown(key))
        return from_text(attribute, value) if self.form is Format.CSV else from_json(attribute, value)

    def _known(self) -> list[str]:
        return ["task_id", "state", "due_time", *self.model.tracker.own_attributes]

    def _unknown(self, key: str) -> str:
        hint = did_you_mean(key, self._known()) or f"; it has {', '.join(self._known())}"
        return f"{self.model.__name__} has no attribute {key!r}{hint}"


def state_to_load(model: type[Task], name: str) -> State[Any]:
    """Return the state in which to create a task that was exported in that one: pending instead of in progress."""
    state = state_named(model, name)
    if state.status is None:
        raise CannotRunError(f"no step of {model.__name__} declares {name}: declare its step, or write another state")
    return getattr(model, state.step).pending if state.status is Status.IN_PROGRESS else state
