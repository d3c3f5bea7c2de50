"""Splits text that is too large for a row into overflow chunks, in one of two slots.

Chunks have the task's hash key. Their range keys begin with the use case and `#`.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, Self

from pynamodb.constants import BINARY, BOOLEAN, MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item

RowKey = tuple[str, str]  # A task id, and a row's use case or a chunk's range key
MAX_BYTES = 10 * 1024 * 1024  # an object store is cheaper for more
VERSION, CHUNK = "version", "piece"  # A chunk's stored attribute names, which no row has, and which never change
GROUP_OF = "group_of"  # marks a group's records, and contains the tasks' use case
_CHUNK_BYTES = 295_000  # an item holds 400 KB, and moto measures binary content in base64
_MOST_CHUNKS = -(-MAX_BYTES // _CHUNK_BYTES)


class Pointer(NamedTuple):
    slot: str  # `A` or `B`. A writer fills the other slot.
    version: str  # when the task was created, the fence, and a number within the run. All chunks must have it.
    chunks: int
    size: int
    compressed: bool

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        chunks, size = int(stored["pieces"][NUMBER]), int(stored["size"][NUMBER])
        if not 0 <= chunks <= _MOST_CHUNKS:
            raise ValueError(f"data refers to {chunks:,} overflow chunks, but {_MOST_CHUNKS} are the limit")
        return cls(stored["slot"][STRING], stored["version"][STRING], chunks, size, stored["packed"][BOOLEAN])

    def stored(self) -> dict[str, Any]:
        numbers = {"pieces": {NUMBER: str(self.chunks)}, "size": {NUMBER: str(self.size)}}
        texts = {"slot": {STRING: self.slot}, "version": {STRING: self.version}}
        return {MAP: {**texts, **numbers, "packed": {BOOLEAN: self.compressed}}}


def life_of(create_time: datetime) -> str:
    return clock.stamp(create_time) + "/"


def version_of(create_time: datetime, fence: int, number: int) -> str:
    """Return the version for a write. Versions sort in the order in which lock holders may write."""
    return f"{life_of(create_time)}{fence:010d}/{number:06d}"


def version_outside_run(create_time: datetime, fence: int, token: str) -> str:
    """Return a later version for a command's write."""
    return f"{life_of(create_time)}{fence:010d}/~{token}"


def pointer_in(stored: Item) -> Pointer | None:
    data = stored.get("data", {})
    try:
        return Pointer.read(data[MAP]) if MAP in data else None
    except Exception:  # noqa: BLE001 - accessing `data` raises
        return None


def free_slot(data: Mapping[str, Any] | None) -> str:
    pointer = None if data is None else pointer_in({"data": {**data}})
    return "B" if pointer is not None and pointer.slot == "A" else "A"


def split(text: str, slot: str, version: str) -> tuple[Pointer, list[bytes]]:
    """Split a text into chunks, compressed if that saves at least a tenth."""
    raw = text.encode()
    small = zlib.compress(raw)
    compressed = len(small) < len(raw) * 0.9
    content = small if compressed else raw
    chunks = [content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES)]
    return Pointer(slot, version, len(chunks), len(raw), compressed), chunks


def chunk_keys(row: RowKey, pointer: Pointer) -> list[Item]:
    return [key_beside(row, f"data#{pointer.slot}#{number}") for number in range(pointer.chunks)]


def chunk_items(row: RowKey, token: str, pointer: Pointer, chunks: list[bytes]) -> Iterator[Item]:
    of_all = {VERSION: {STRING: pointer.version}, "lock": {STRING: token}}
    for key, chunk in zip(chunk_keys(row, pointer), chunks, strict=True):
        yield {**key, **of_all, CHUNK: {BINARY: chunk}}


def log_key(row: RowKey) -> Item:
    return key_beside(row, "errors")


def key_beside(row: RowKey, name: str) -> Item:
    """Return the key for an item beside a row. Use case names contain no `#`."""
    task_id, use_case = row
    return item_key(task_id, f"{use_case}#{name}")


def group_range_key(use_case: str) -> str:
    return f"#group#{use_case}"


def item_key(task_id: str, range_key: str) -> Item:
    return {"task_id": {STRING: task_id}, "use_case_id": {STRING: range_key}}


def by_key(items: Iterable[Item]) -> dict[RowKey, Item]:
    return {key_of(item): item for item in items}


def key_of_row(row: Any) -> RowKey:
    return row.task_id, row.use_case_id


def key_of(item: Item) -> RowKey:
    return item["task_id"][STRING], item["use_case_id"][STRING]


def texts_in(found: Mapping[RowKey, Item], wanted: Mapping[RowKey, Pointer]) -> dict[RowKey, str]:
    """Join the chunks, without texts that miss a chunk or have another version."""
    texts = {}
    for row, pointer in wanted.items():
        with suppress(KeyError, ValueError, zlib.error):
            chunks = [found[key_of(key)] for key in chunk_keys(row, pointer)]
            if all(chunk[VERSION][STRING] == pointer.version for chunk in chunks):
                content = b"".join(chunk[CHUNK][BINARY] for chunk in chunks)
                texts[row] = (zlib.decompress(content) if pointer.compressed else content).decode()
    return texts
