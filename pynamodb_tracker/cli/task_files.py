"""Read files of tasks, CSV or JSON lines, as arguments of `create`."""

import base64
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from pynamodb import constants as kinds
from pynamodb.attributes import Attribute, JSONAttribute, UTCDateTimeAttribute

from pynamodb_tracker.cli.command import CannotRunError, state_named, stdin
from pynamodb_tracker.model.arguments import did_you_mean, shown
from pynamodb_tracker.model.data import DataAttribute
from pynamodb_tracker.model.repeat import Repeat
from pynamodb_tracker.model.serialization import DecimalAttribute, StoredValue, refuse_json, same
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.task_facts import name_of, steps_of
from pynamodb_tracker.presentation.times import duration
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.loading import OF_ROUND
from pynamodb_tracker.task.task import Task

csv.field_size_limit(16 * 1024 * 1024)  # `data` may have 10 MB


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


_FORMATS = {".csv": Format.CSV, ".tsv": Format.CSV}
_FORMATS |= dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL)


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    values: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


class File:
    """An open file of tasks. `size` is in bytes, or None for a pipe."""

    def __init__(self, name: str, source: TextIO, form: Format | None, size: int | None) -> None:
        self.name = name
        self.size = size
        self._source = source
        head, first = list[str](), ""
        while not first.strip() and (first := source.readline()):
            head.append(first)
        self.is_empty = not first
        guessed = Format.JSONL if first.lstrip()[:1] in {"{", "["} else Format.CSV
        self.form = form or _FORMATS.get(Path(name).suffix.lower()) or guessed
        self._text: Iterable[str] = chain(head, source)
        self.columns: list[str] = []
        if self.form is Format.CSV:
            delimiter = max(",;\t", key=first.count)
            self._rows = csv.reader(map(_check_utf8, self._text), delimiter=delimiter, strict=True)
            try:
                self.columns = next(filter(None, self._rows), [])
            except (csv.Error, ValueError) as error:
                raise CannotRunError(f"{self.name}:1: this is not CSV: {error}") from None

    @property
    def position(self) -> int | None:
        return None if self.size is None else self._source.buffer.tell()

    def lines(self) -> Iterator[Line]:
        return self._csv_lines() if self.form is Format.CSV else self._json_lines()

    def _csv_lines(self) -> Iterator[Line]:
        while True:
            number = self._rows.line_num + 1
            try:
                fields = next(self._rows)
            except StopIteration:
                return
            except (csv.Error, ValueError) as error:
                is_open = "unexpected end of data" in str(error)
                reason = "a quote opens here and never closes, so the rest was not read" if is_open else error
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
                values = exact_json.loads(_check_utf8(text), parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                yield Line(number, problem=f"this is not JSON: {error}")
                continue
            if isinstance(values, dict):
                yield Line(number, {key: value for key, value in values.items() if value is not None})
            else:
                yield Line(number, problem='this is not a JSON object: write one per line, as in {"task_id": "o-1"}')


def _check_utf8(text: str) -> str:
    if not text.isascii() and any("\udc80" <= each <= "\udcff" for each in text):
        raise ValueError("it is not UTF-8")
    return text


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"JSON cannot represent {constant}")


@contextmanager
def open_tasks(name: str, form: Format | None) -> Iterator[File]:
    if name == "-":
        source = stdin()
        if isinstance(source, TextIOWrapper):
            source.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline="")
        yield File("stdin", source, form, None)
        return
    if name.endswith(".gz"):
        raise CannotRunError(f"{name} is compressed: zcat {name} | pynamodb-tracker load -")
    try:
        file = Path(name or "''").open(encoding="utf-8-sig", errors="surrogateescape", newline="")  # noqa: SIM115 - below
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CannotRunError(f"{name or repr(name)}: {getattr(error, 'strerror', error)}") from None
    with file:
        yield File(name, file, form, Path(name).stat().st_size if Path(name).is_file() else None)


# Arguments of `create`.


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads lines as arguments of `create`. A task without a state starts in `initial`."""

    model: type[Task]
    form: Format
    initial: State[Any] | None

    def check_columns(self, source: File) -> None:
        if source.form is not Format.CSV or source.is_empty:
            return
        known = self._known_names()
        for column in source.columns:
            if column not in known:
                raise CannotRunError(f"{source.name}:1: {self._describe_unknown(column)}")
            if source.columns.count(column) > 1:
                raise CannotRunError(f"{source.name}:1: the column {column!r} appears twice")
        if "task_id" not in source.columns:
            raise CannotRunError(f"{source.name}:1: the column 'task_id' is missing")

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {} if self.initial is None else {"state": self.initial}
        if "until" in values and "wait_for" not in values:
            raise CannotRunError("until: only with wait_for. To set when a task may start, write due_time")
        for key, value in values.items():
            if (name := _OF_CREATE.get(key, key)) != key and name in values:
                raise CannotRunError(f"{key} and {name} are the same: leave one out")
            try:
                found[name] = self._read(key, value)
            except (TypeError, ValueError) as error:
                raise CannotRunError(f"{key}: {error}") from None
            except RecursionError:
                raise CannotRunError(f"{key}: {exact_json.TOO_DEEP}") from None
        if not found.get("task_id"):
            raise CannotRunError("task_id is missing")
        if "repeat" in found and (state := found.pop("state", None)) is not None:
            first = steps_of(self.model)[0].pending
            if state != first:
                both = f"{name_of(first)}, not {name_of(state)}"
                raise CannotRunError(f"repeat: a repeating task begins as {both}: leave out the rule or the state")
        return found

    def _read(self, key: str, value: Any) -> Any:
        if key in ("task_id", "group"):
            return value
        if key == "state":
            return state_to_load(self.model, str(value))
        if key in _OF_TRACKER:
            return _OF_TRACKER[key](value)
        if key in _OF_JSON:
            value = exact_json.with_floats(exact_json.loads(value) if isinstance(value, str) else value)
            is_right, problem = _OF_JSON[key]
            if not is_right(value):
                raise ValueError(f"{shown(value)} {problem}")
            return value
        if key in _NOT_LOADED:
            raise ValueError(_NOT_LOADED[key])
        attribute = self.model.tracker.own_attributes.get(key)
        if attribute is None:
            raise CannotRunError(self._describe_unknown(key))
        return from_text(attribute, value) if self.form is Format.CSV else from_json(attribute, value)

    def _known_names(self) -> list[str]:
        names = ("task_id", "state", "due_time", "group", "repeat", "trace", "urgent", "awaited_signals", "signals")
        return [*names, *_OF_CREATE, *OF_ROUND, *self.model.tracker.own_attributes]

    def _describe_unknown(self, key: str) -> str:
        hint = did_you_mean(key, self._known_names()) or f". It has {', '.join(self._known_names())}"
        return f"{self.model.__name__} has no attribute {key!r}{hint}"


_OF_CREATE = {"wait_for": "awaited_signals", "until": "due_time"}
"""Arguments of `create` for a single signal, and their names in an export."""

_NOT_LOADED = {
    "blockers": "nothing would end the wait of a loaded task: leave out the blockers or the task",
    "queued": "load it without queued, and then run create --merge",
}
"""Names that `export` writes but `load` refuses, with the reason."""


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_list_of_names(value: Any) -> bool:
    return bool(value) and _is_list_of_text(value)


def _has_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


_SIGNAL = {"value", "by", "time", "key"}

_OF_JSON: dict[str, tuple[Callable[[Any], bool], str]] = {
    "trace": (lambda _: True, ""),
    "awaited_signals": (_is_list_of_names, 'is not a list of signals, as in ["paid"]'),
    "signals": (
        lambda value: _has_objects(value) and all(each.keys() <= _SIGNAL for each in value.values()),
        'is not signals, as in {"paid": {"value": 1, "by": "ada"}}',
    ),
    "checkpoints": (_has_objects, 'is not results of parts, as in {"ship": {"charge": "c-7"}}'),
    "skipped_steps": (_is_list_of_text, 'is not a list of steps, as in ["ship"]'),
    "cancelled": (
        lambda value: isinstance(value, dict) and value.keys() == {"step", "time", "by", "reason"},
        'is not a cancellation, as in {"step": "ship", "time": "2026-01-31T12:00:00Z", "by": "ada", "reason": "fraud"}',
    ),
    "missed_signals": (_is_list_of_names, 'is not a list of signals, as in ["paid"]'),
    "postpone_count": (lambda value: type(value) is int and value > 0, "is not a whole number above 0"),
}
"""The tracker's own values that are JSON even in a CSV file, with a check and its error."""


def rule_in(value: Any) -> Repeat:
    """Parse a rule from `export` or from a person: `cron 0 2 * * * in Europe/Berlin`, `every 1h`."""
    if not isinstance(value, str):
        return Repeat.from_json(exact_json.dumps(value))
    if value.lstrip().startswith("{"):
        return Repeat.from_json(value)
    kind, _, rule = value.strip().partition(" ")
    rule, _, zone = rule.partition(" in ")
    match kind:
        case "cron":
            return Repeat.cron(rule.strip(), tz=zone.strip() or "UTC")
        case "rrule":
            return Repeat.rrule(rule.strip(), tz=zone.strip() or "UTC")
        case "every" if not zone:
            return Repeat.every(duration(rule.strip()))
    raise ValueError(
        f"{value!r} is not a rule: write it as 'cron 0 2 * * *', 'cron 0 2 * * * in Europe/Berlin', 'rrule "
        "FREQ=DAILY;BYHOUR=2' or 'every 1h'"
    )


def state_to_load(model: type[Task], name: str) -> State[Any]:
    """Return a loaded task's state: pending if it was exported in progress, otherwise the named state."""
    state = state_named(model, name)
    if state == model.cancelled:
        return state
    if state.status is None:
        raise CannotRunError(f"no step of {model.__name__} declares {name}: declare its step or write another state")
    return getattr(model, state.step).pending if state.status is Status.IN_PROGRESS else state


# Values of attributes.

_NOUNS = {
    kinds.STRING: "a string",
    kinds.BOOLEAN: "true or false",
    kinds.NUMBER: "a number",
    kinds.BINARY: "a base64 string",
    kinds.STRING_SET: "a list of strings",
    kinds.NUMBER_SET: "a list of numbers",
    kinds.BINARY_SET: "a list of base64 strings",
    kinds.LIST: "a list",
    kinds.MAP: "an object",
}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def from_json(attribute: Attribute[Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(attribute, DataAttribute | JSONAttribute):
        return _json_value(attribute, value)
    if isinstance(attribute, UTCDateTimeAttribute):
        return time_of(value)
    if isinstance(attribute, DecimalAttribute) and isinstance(value, str):  # `to_dict` writes texts
        try:
            value = Decimal(value)
        except InvalidOperation:
            raise ValueError(f"{value!r} is not a number") from None
    stored = {attribute.attr_type: _to_stored(attribute.attr_type, value)}
    found = attribute.deserialize(attribute.get_value(stored))
    if exact_json.has_decimals(value) and not same({attribute.attr_type: attribute.serialize(found)}, stored):
        return StoredValue(stored)
    return found


def _json_value(attribute: Attribute[Any] | DataAttribute, value: Any) -> Any:
    """Return a value that is stored as JSON, or its text if floats would lose digits."""
    plain = exact_json.with_floats(value)
    is_text = isinstance(value, dict) if isinstance(attribute, DataAttribute) else exact_json.is_text_of(attribute)
    if not (is_text and exact_json.has_decimals(value)):
        return plain
    refuse_json(plain, attribute.attr_name)
    text = exact_json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):  # UTF-8 cannot encode lone surrogates
        text = exact_json.dumps(value, separators=(",", ":"))
    return StoredValue({kinds.STRING: text})


def from_text(attribute: Attribute[Any], text: str) -> Any:
    kind = attribute.attr_type
    if kind == kinds.BOOLEAN:
        return from_json(attribute, _BOOLEANS.get(text.lower(), text))
    is_text = kind in {kinds.STRING, kinds.BINARY} and not isinstance(attribute, DataAttribute | JSONAttribute)
    if is_text:
        return from_json(attribute, text)
    try:
        return from_json(attribute, exact_json.loads(text))
    except json.JSONDecodeError:
        raise ValueError(f"{text!r} is not {_NOUNS[kind] if kind == kinds.NUMBER else 'JSON'}") from None


def time_of(value: object) -> datetime:
    """Parse a time, in UTC by default."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"{value!r} is not a time: write it as in 2026-01-31T12:00:00Z")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_OF_TRACKER: dict[str, Callable[[Any], Any]] = {
    "repeat": rule_in,
    "urgent": lambda value: _BOOLEANS.get(str(value).lower(), value),
    "wait_for": lambda value: [str(value)],
    **dict.fromkeys(("due_time", "until", "first_failure"), time_of),
}


def _to_stored(kind: str, value: Any) -> Any:
    match kind, value:
        case (kinds.STRING, str()) | (kinds.BOOLEAN, bool()):
            return value
        case kinds.NUMBER, int() | float() | Decimal() if not isinstance(value, bool):
            return str(value)
        case kinds.BINARY, str():
            return base64.b64decode(value, validate=True)
        case kinds.STRING_SET | kinds.NUMBER_SET | kinds.BINARY_SET, list():
            return [_to_stored(kind[0], each) for each in value]
        case kinds.LIST, list():
            return [_to_nested(each) for each in value]
        case kinds.MAP, dict():
            return {name: _to_nested(each) for name, each in value.items()}
        case _:
            raise ValueError(f"{exact_json.with_floats(value)!r} is not {_NOUNS[kind]}")


def _to_nested(value: Any) -> dict[str, Any]:
    if value is None:
        return {kinds.NULL: True}
    numbers = dict.fromkeys((int, float, Decimal), kinds.NUMBER)
    types = {bool: kinds.BOOLEAN, str: kinds.STRING, list: kinds.LIST} | numbers
    kind = types.get(type(value), kinds.MAP)
    return {kind: _to_stored(kind, value)}
