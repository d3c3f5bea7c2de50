"""The lines of a file of tasks, CSV or JSON lines, read one at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pynamodb_tracker.cli.exits import CannotRunError, stdin

__all__ = ["File", "Form", "Line", "opened"]

_LONGEST_FIELD = 16 * 1024 * 1024
"""Characters of a CSV field; `data` may have 10 MB."""


class Form(StrEnum):
    """How a file is written."""

    CSV = "csv"
    """With a header; separated by commas, semicolons or tabs."""
    JSONL = "jsonl"
    """A JSON object a line."""


_FORMS = {".csv": Form.CSV, ".tsv": Form.CSV, ".jsonl": Form.JSONL, ".ndjson": Form.JSONL, ".json": Form.JSONL}


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says of a task, or what is wrong with it."""

    number: int
    values: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


class File:
    """An open file of tasks; `size` is in bytes, and None for a pipe."""

    def __init__(self, name: str, raw: BinaryIO, form: Form | None, size: int | None) -> None:
        self.name = name
        self.size = size
        self._raw = raw
        text = self._source = TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        head = list(_until_filled(text))
        first = head[-1] if head else ""
        self.is_empty = not first.strip()
        """Whether there is no line at all but empty ones: what another program writes that has found nothing."""
        self.form = form or _FORMS.get(Path(name).suffix.lower()) or _form_of(first)
        self._text: Iterable[str] = chain(head, text)
        self.columns: list[str] = []
        """Of a CSV file, what its header says."""
        if self.form is Form.CSV:
            marks = ",;\t"
            self._rows = csv.reader(map(_checked, self._text), delimiter=max(marks, key=first.count), strict=True)
            self.columns = self._header()

    def release(self) -> None:
        """Leave what it was read from open."""
        self._source.detach()

    @property
    def position(self) -> int | None:
        """How many bytes were read."""
        return None if self.size is None else self._raw.tell()

    def lines(self) -> Iterator[Line]:
        """Yield the lines after the header, but for empty ones."""
        return self._of_csv() if self.form is Form.CSV else self._of_json()

    def _header(self) -> list[str]:
        try:
            return next(filter(None, self._rows), [])
        except (csv.Error, ValueError) as error:
            raise CannotRunError(f"{self.name}:1: this is not CSV: {error}") from None

    def _of_csv(self) -> Iterator[Line]:
        while True:
            number = self._rows.line_num + 1
            try:
                fields = next(self._rows)
            except StopIteration:
                return
            except (csv.Error, ValueError) as error:
                is_open = "unexpected end of data" in str(error)
                why = "a quote opens here that is never closed, so that nothing from here on was read"
                yield Line(number, problem=f"this is not CSV: {why if is_open else error}")
                continue
            if len(fields) == len(self.columns):
                yield Line(number, dict(zip(self.columns, fields, strict=True)))
            elif fields:
                yield Line(number, problem=f"{len(fields)} fields, where the header has {len(self.columns)}")

    def _of_json(self) -> Iterator[Line]:
        for number, text in enumerate(self._text, 1):
            if not text.strip():
                continue
            try:
                values = json.loads(_checked(text), parse_constant=_refused)
            except (ValueError, RecursionError) as error:
                yield Line(number, problem=f"this is not JSON: {error}")
                continue
            if isinstance(values, dict):
                yield Line(number, values)
            else:
                yield Line(number, problem='this is no JSON object: write one a line, as {"task_id": "o-1"}')


def _until_filled(lines: Iterable[str]) -> Iterator[str]:
    """Yield empty lines, and the first one that is not."""
    for line in lines:
        yield line
        if line.strip():
            return


def _form_of(first: str) -> Form:
    return Form.JSONL if first.lstrip()[:1] in {"{", "["} else Form.CSV


def _checked(text: str) -> str:
    """Return a line that is UTF-8."""
    if not text.isascii() and any("\udc80" <= each <= "\udcff" for each in text):
        raise ValueError("it is not UTF-8")
    return text


def _refused(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


@contextmanager
def opened(name: str, form: Form | None) -> Iterator[File]:
    """Open a file by its name, or stdin as `-`; a CannotRunError says why it cannot be read."""
    csv.field_size_limit(_LONGEST_FIELD)
    with _raw(name) as raw:
        size = Path(name).stat().st_size if name != "-" and Path(name).is_file() else None
        source = File("stdin" if name == "-" else name, raw, form, size)
        try:
            yield source
        finally:
            source.release()


def _raw(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(stdin().buffer)
    if name.endswith(".gz"):
        raise CannotRunError(f"{name} is compressed: zcat {name} | pynamodb-tracker load -")
    try:
        return Path(name or "''").open("rb")
    except (OSError, ValueError) as error:  # a NUL in the name
        raise CannotRunError(f"{name or repr(name)}: {getattr(error, 'strerror', error)}") from None
