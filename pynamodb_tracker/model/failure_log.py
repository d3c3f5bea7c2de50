"""Stores a task's last failures: short entries in the row and, if they do not fit, complete ones in a log item.

Most attempts fail in the same way. A failure with the same frames as an earlier one does not write the log item:

  first failure            row: cut, logged = true      log item: complete
  the same again           row: logged = false, frames  (not written, readers take the traceback from the log item)
  another kind of failure  row: cut, logged = true      log item: all failures, complete

The log item is written after the status change. A crash in between only loses a traceback.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import BINARY, BOOLEAN, LIST, MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, get_items
from pynamodb_tracker.dynamodb.limits import item_size
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.failure import Failure, cut, from_map, to_map
from pynamodb_tracker.model.overflow import CHUNK, VERSION, life_of, log_key
from pynamodb_tracker.model.row_state import raw_value

MAX_FAILURES = 10
MAX_BYTES = 500  # of failures in a row; AWS charges each write for the whole row
MAX_BYTES_IF_LOGGED = 350  # keeps the row below 1 KB for longer
_LOGGED = "logged"  # True for the last entry in the log item, False for later ones
_FRAMES = "frames"  # identifies the lines where an exception was raised. An earlier entry has the traceback.
_REPEATS = "repeats"  # how many consecutive failures an entry replaces
_MESSAGE = 200
_OLDER_MESSAGE = 40
_LEAST_TRACEBACK = 60
_OTHER_BYTES = 50  # that a failure may add to the row elsewhere
_KB = 1024
_KIND = ("step", "type", _FRAMES)  # the same exception, raised at the same lines
_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)')
Entry = dict[str, Any]


class ErrorsAttribute(Attribute[list[Failure]]):
    attr_type = LIST

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Return a row's failures. The first access reads the log item."""
        if instance is None:
            return self
        if needs_log(instance):
            key = log_key((instance.task_id, instance.use_case_id))
            fill(instance, next(get_items(instance.tracker.connection(), [key]), None))
        return instance.attribute_values.get("errors") or []

    def serialize(self, value: Sequence[Failure]) -> list[dict[str, Any]]:
        return for_row(None, value)[0] if value else []

    def deserialize(self, value: Sequence[Mapping[str, Any]]) -> list[Failure]:
        is_logged = any(_LOGGED in entry.get(MAP, ()) for entry in value)
        return _add_tracebacks([from_map(entry) for entry in value], value, [] if is_logged else None)


def failures_in_row(instance: Any) -> list[Failure]:
    failures = raw_value(instance, "errors")
    return failures if isinstance(failures, list) else []


def has_log(instance: Any) -> bool:
    return any(_LOGGED in entry.get(MAP, ()) for entry in _stored_entries(instance))


def needs_log(instance: Any) -> bool:
    """Return whether the failures in memory are truncated."""
    is_whole = instance._row_state.failures_whole or not isinstance(raw_value(instance, "errors"), list)
    return not is_whole and has_log(instance)


def fill(instance: Any, item: Item | None) -> None:
    """Add the log item's failures to a row, unless it belongs to an earlier task with the same id."""
    logged: list[Failure] = []
    problem: object = "it is missing"
    create_time = raw_value(instance, "create_time")
    life = life_of(create_time) if isinstance(create_time, datetime) else ""  # absent from a partial row
    try:
        if item is not None and item[VERSION][STRING].startswith(life):
            text = zlib.decompress(item[CHUNK][BINARY])
            logged, problem = [from_map(entry) for entry in json.loads(text)], None
    except Exception as error:  # noqa: BLE001 - another program may have written it
        problem = repr(error)
    if problem is not None:
        warning = "showing only the newest errors of %s %r, because the log item cannot be used: %s"
        fields = log_fields(instance.use_case_id, task_id=instance.task_id)
        log.warning(warning, type(instance).__name__, instance.task_id, problem, extra=fields)
    known, stored = {_key(failure) for failure in logged}, _stored_entries(instance)
    later = [failure for failure in failures_in_row(instance) if _key(failure) not in known]
    if later:
        later = _add_tracebacks(later, stored, logged)
        is_merged = any(_REPEATS in entry[MAP] and _entry_key(entry) == _failure_key(later[0]) for entry in stored)
        logged, later[0] = without_repeated(logged, later[0], count=1 if is_merged else later[0].count)
    instance.attribute_values["errors"] = [*logged, *later][-MAX_FAILURES:]
    instance._row_state.failures_whole = True


def _stored_entries(instance: Any) -> list[Entry]:
    return [entry for entry in instance._row_state.stored.get("errors", {}).get(LIST, ()) if MAP in entry]


def _add_tracebacks(
    failures: list[Failure], entries: Sequence[Mapping[str, Any]], whole: Sequence[Failure] | None
) -> list[Failure]:
    """Add omitted tracebacks from the `whole` failures, or from these."""
    frames = {
        _entry_key(entry): _get_text(entry, _FRAMES)
        for entry in entries
        if _FRAMES in entry.get(MAP, ()) and "traceback" not in entry[MAP]
    }
    if not frames:
        return failures
    texts = {(each.step, each.type, frames_of(each)): each.traceback for each in (failures if whole is None else whole)}
    texts = {key: text for key, text in texts.items() if text}
    found = [texts.get((each.step, each.type, frames.get(_failure_key(each))), each.traceback) for each in failures]
    return [  # keep unchanged failures as the same objects
        each if text is each.traceback else replace(each, traceback=text)
        for each, text in zip(failures, found, strict=True)
    ]


def _entry_key(entry: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (_get_text(entry, name) for name in ("time", "step", "type"))
    return (*texts, str(entry[MAP].get("attempt", {}).get(NUMBER)))


def _failure_key(failure: Failure) -> tuple[str, ...]:
    return clock.stamp(failure.time), failure.step, failure.type, str(failure.attempt)


def frames_of(failure: Failure) -> str | None:
    lines = _FRAME.findall(failure.traceback)
    return f"{zlib.crc32(repr(lines).encode()):08x}" if lines else None


def for_row(
    row: Any, added: Sequence[Failure], *, replaces_last: bool = False, may_log: bool = True
) -> tuple[list[Entry], bool]:
    """Return the entries for the row, and whether the log item must be written with all failures.

    `added` are the new failures, oldest first. With `replaces_last`, the first of them replaces the row's last one.
    Without `may_log`, everything goes to the row.
    """
    before = [] if row is None else _stored_entries(row)
    is_logged = any(_LOGGED in entry[MAP] for entry in before)
    kept = before[:-1] if replaces_last else before
    new: list[Entry] = []
    for failure in added:  # the log item keeps a replaced entry's traceback
        new.append(_build_entry(failure, [*(before if is_logged else kept), *new], in_row_alone=is_logged))
    entries = [*kept, *new][-MAX_FAILURES:]
    room = 0 if row is None else _free_bytes(row, added[-1])
    if not may_log or (not is_logged and sum(map(_entry_size, entries)) <= max(MAX_BYTES, room)):
        return entries, False
    is_short = all("traceback" not in each[MAP] and len(_get_text(each, "message")) <= _MESSAGE for each in new)
    if is_logged and is_short and (fitted := _fit(entries, room)) is not None:
        return fitted, False
    return _fit_briefly(entries), True


def _build_entry(failure: Failure, before: Sequence[Entry], *, in_row_alone: bool) -> Entry:
    """Return a failure's entry, without its traceback if an entry `before` has it."""
    entry, frames = to_map(failure), frames_of(failure)
    if frames is not None:
        entry[MAP][_FRAMES] = {STRING: frames}
        if any(_is_like(entry, each, _KIND) for each in before):
            del entry[MAP]["traceback"]
    if in_row_alone:
        entry[MAP][_LOGGED] = {BOOLEAN: False}
    return entry


def _is_like(entry: Entry, other: Entry, names: Sequence[str]) -> bool:
    return _FRAMES in entry[MAP] and all(_get_text(entry, name) == _get_text(other, name) for name in names)


def _free_bytes(row: Any, last: Failure) -> int:
    """Return how many bytes of failures cost no other write unit, or a minimum."""
    rewritten = {"errors", "last_error", "recent_ends"}
    others = {name: value for name, value in row._row_state.stored.items() if name not in rewritten}
    others_bytes = item_size(others) + len(last.one_line.encode()) + _OTHER_BYTES
    return max(MAX_BYTES_IF_LOGGED, -others_bytes % _KB)


def _fit(entries: list[Entry], room: int) -> list[Entry] | None:
    """Fit the entries into this many bytes, or return None.

    Entries that only the row has stay complete, others are shortened. Failures with the same message are merged.
    """
    first = next(at for at in reversed(range(len(entries) + 1)) if at == 0 or _is_in_log(entries[at - 1]))
    first = min([first, *(at for at, each in enumerate(entries) if _LOGGED in each[MAP] and not _is_in_log(each))])
    logged, alone = entries[:first], [{MAP: {**each[MAP], _LOGGED: {BOOLEAN: False}}} for each in entries[first:]]
    while sum(map(_entry_size, alone)) > room:
        pairs = range(1, len(alone))
        at = next((at for at in pairs if _is_like(alone[at], alone[at - 1], (*_KIND, "message"))), None)
        if at is None:
            return None
        number = sum(int(each[MAP].get(_REPEATS, {}).get(NUMBER, 1)) for each in alone[at - 1 : at + 1])
        alone[at - 1 : at + 1] = [{MAP: {**alone[at][MAP], _REPEATS: {NUMBER: str(number)}}}]
    older = [_shorten(each, _OLDER_MESSAGE) for each in logged]
    return [*_keep_newest(older, room - sum(map(_entry_size, alone))), *alone]


def _is_in_log(entry: Entry) -> bool:
    return entry[MAP].get(_LOGGED, {}).get(BOOLEAN) is True


def _fit_briefly(entries: list[Entry]) -> list[Entry]:
    """Return the newest entry with a cut traceback, and as many older ones as fit."""
    *older, newest = entries
    entry = _shorten(newest, _MESSAGE)
    entry[MAP][_LOGGED] = {BOOLEAN: True}
    room = MAX_BYTES_IF_LOGGED - _entry_size(entry)
    kept = _keep_newest([_shorten(each, _OLDER_MESSAGE) for each in older], room - _LEAST_TRACEBACK)
    if text := _get_text(newest, "traceback"):
        left = max(room - sum(map(_entry_size, kept)) - len("traceback"), _LEAST_TRACEBACK)
        entry[MAP]["traceback"] = {STRING: cut(text, left)}
    return [*kept, entry]


def _shorten(entry: Entry, message: int) -> Entry:
    """Shorten the message to this many bytes, and remove the traceback, which the log item has."""
    left = {name: value for name, value in entry[MAP].items() if name not in ("traceback", _LOGGED)}
    if text := _get_text(entry, "message"):
        left["message"] = {STRING: cut(text, message)}
    return {MAP: {**left, **({_LOGGED: {BOOLEAN: True}} if _is_in_log(entry) else {})}}


def _keep_newest(entries: list[Entry], room: int) -> list[Entry]:
    kept: list[Entry] = []
    for each in reversed(entries):
        room -= _entry_size(each)
        if room < 0:
            break
        kept.insert(0, each)
    return kept


def _get_text(entry: Mapping[str, Any], name: str) -> str:
    text: object = entry[MAP].get(name, {}).get(STRING, "")
    return text if isinstance(text, str) else ""


def compress_failures(failures: Sequence[Failure]) -> bytes:
    text = strict_json.dumps([to_map(failure) for failure in failures[-MAX_FAILURES:]], ensure_ascii=False)
    return zlib.compress(text.encode())


def without_repeated(
    failures: Sequence[Failure], postponed: Failure, *, count: int | None = None
) -> tuple[list[Failure], Failure]:
    """If the newest failure is a postponement for the same reason, count it in the new one."""
    before = failures[-1] if failures else None
    if before is None or count == 1 or _reason(before) != _reason(postponed):
        return list(failures), postponed
    return list(failures[:-1]), replace(postponed, count=count or before.count + 1)


def _reason(failure: Failure) -> tuple[str, str, str]:
    return failure.step, failure.type, cut(failure.message, _MESSAGE)


def _key(failure: Failure) -> tuple[object, ...]:
    return failure.time, failure.step, failure.attempt, failure.type, failure.count


def _entry_size(entry: Mapping[str, Any]) -> int:
    return item_size(entry[MAP]) + 2 * len(entry[MAP])
