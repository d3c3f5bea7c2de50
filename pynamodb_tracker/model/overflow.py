"""Text that is too large for a row is split into overflow chunks, in one of two slots.

The chunks of a task are items with the same hash key. Their range keys begin with the use case and `#`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from pynamodb.constants import BINARY, BOOLEAN, MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item

RowKey = tuple[str, str]
"""The task id, and the use case of a row or the range key of a chunk."""

MAX_BYTES = 10 * 1024 * 1024
"""The longest text in chunks. An object store is better and cheaper for more."""

VERSION, CHUNK = "version", "piece"
"""The stored names of a chunk's attributes, which no row has. Stored names never change, nor do those of a pointer."""

GROUP_OF = "group_of"
"""The stored name of an attribute that each record of a group has, and no row: the use case of its tasks."""

_CHUNK_BYTES = 295_000
"""Bytes of content in a chunk. An item holds at most 400 KB, and moto measures binary content in base64."""

_MOST_CHUNKS = -(-MAX_BYTES // _CHUNK_BYTES)


class Pointer(NamedTuple):
    """What a row stores instead of the text: where its chunks are, and which version they must have."""

    slot: str
    """`A` or `B`. A writer fills the slot that the row does not point to."""
    version: str
    """Identifies the write: creation of the task, fence, number within the run."""
    chunks: int
    size: int
    """Bytes of the text."""
    compressed: bool

    @classmethod
    def loaded(cls, stored: Mapping[str, Any]) -> Pointer:
        """Parse the stored form. Raises ValueError for more chunks than the longest text has."""
        chunks, size = int(stored["pieces"][NUMBER]), int(stored["size"][NUMBER])
        if not 0 <= chunks <= _MOST_CHUNKS:
            raise ValueError(f"data refers to {chunks:,} overflow chunks, and at most {_MOST_CHUNKS} are ever written")
        return cls(stored["slot"][STRING], stored["version"][STRING], chunks, size, stored["packed"][BOOLEAN])

    def stored(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            MAP: {
                "slot": {STRING: self.slot},
                "version": {STRING: self.version},
                "pieces": {NUMBER: str(self.chunks)},
                "size": {NUMBER: str(self.size)},
                "packed": {BOOLEAN: self.compressed},
            }
        }


def life_of(create_time: datetime) -> str:
    """Return the prefix of all versions of a task. A task that is deleted and created again gets a later one."""
    return clock.stamp(create_time) + "/"


def version_of(create_time: datetime, fence: int, number: int) -> str:
    """Return the version of a write by a run. Versions sort in the order in which lock holders may write."""
    return f"{life_of(create_time)}{fence:010d}/{number:06d}"


def version_outside_run(create_time: datetime, fence: int, token: str) -> str:
    """Return the version of a write by a command such as ignore, later than all versions of the last claim."""
    return f"{life_of(create_time)}{fence:010d}/~{token}"


def pointer_in(stored: Item) -> Pointer | None:
    """Return the pointer that a stored row has instead of its data, or None if there is none that can be read."""
    data = stored.get("data", {})
    try:
        return Pointer.loaded(data[MAP]) if MAP in data else None
    except Exception:  # noqa: BLE001 - another program may have put anything there, and accessing `data` raises
        return None


def free_slot(data: Mapping[str, Any] | None) -> str:
    """Return the slot for the next version, given the stored `data` of the row."""
    pointer = None if data is None else pointer_in({"data": {**data}})
    return "B" if pointer is not None and pointer.slot == "A" else "A"


def split(text: str, slot: str, version: str) -> tuple[Pointer, list[bytes]]:
    """Return the pointer to the chunks of a text, and the chunks, compressed if that saves at least a tenth."""
    raw = text.encode()
    small = zlib.compress(raw)
    compressed = len(small) < len(raw) * 0.9  # less is not worth it
    content = small if compressed else raw
    chunks = [content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES)]
    return Pointer(slot, version, len(chunks), len(raw), compressed), chunks


def chunk_keys(row: RowKey, pointer: Pointer) -> list[Item]:
    """Return the stored keys of a pointer's chunks, in order."""
    return [key_beside(row, f"data#{pointer.slot}#{number}") for number in range(pointer.chunks)]


def chunk_items(row: RowKey, token: str, pointer: Pointer, chunks: list[bytes]) -> Iterator[Item]:
    """Yield the items of a text's chunks, written by the holder of that token."""
    of_all = {VERSION: {STRING: pointer.version}, "lock": {STRING: token}}
    for key, chunk in zip(chunk_keys(row, pointer), chunks, strict=True):
        yield {**key, **of_all, CHUNK: {BINARY: chunk}}


def log_key(row: RowKey) -> Item:
    """Return the stored key of the log item with a task's failures."""
    return key_beside(row, "errors")


def key_beside(row: RowKey, name: str) -> Item:
    """Return the stored key of an item that belongs to a row. Use case names contain no `#`."""
    task_id, use_case = row
    return item_key(task_id, f"{use_case}#{name}")


def group_range_key(use_case: str) -> str:
    """Return the range key of a use case's groups. No task has it, because use case names contain no `#`."""
    return f"#group#{use_case}"


def item_key(task_id: str, range_key: str) -> Item:
    """Return a key in stored form."""
    return {"task_id": {STRING: task_id}, "use_case_id": {STRING: range_key}}


def by_key(items: Iterable[Item]) -> dict[RowKey, Item]:
    """Return items by their keys."""
    return {key_of(item): item for item in items}


def key_of(item: Item) -> RowKey:
    """Return the key of an item as text."""
    return item["task_id"][STRING], item["use_case_id"][STRING]


def texts_in(found: Mapping[RowKey, Item], wanted: Mapping[RowKey, Pointer]) -> dict[RowKey, str]:
    """Join the chunks that were found. A text is left out if a chunk is missing, unreadable or of another version.

    In the last case, the row was written in the meantime: read it again, and then its chunks by the new pointer.
    """
    texts = {}
    for row, pointer in wanted.items():
        with suppress(KeyError, ValueError, zlib.error):
            chunks = [found[key_of(key)] for key in chunk_keys(row, pointer)]
            if all(chunk[VERSION][STRING] == pointer.version for chunk in chunks):
                content = b"".join(chunk[CHUNK][BINARY] for chunk in chunks)
                texts[row] = (zlib.decompress(content) if pointer.compressed else content).decode()
    return texts
