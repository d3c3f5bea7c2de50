"""Text that is too large for a row: cut into pieces beside it, in one of two slots, and put together again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from pynamodb.connection.table import TableConnection
from pynamodb.constants import BINARY, BOOLEAN, MAP, NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.dynamodb.transport import insistently
from pynamodb_tracker.model.serialization import Stored

__all__ = [
    "DATA",
    "ERRORS",
    "MAX_BYTES",
    "PIECE",
    "VERSION",
    "Kind",
    "Pointer",
    "Row",
    "cut",
    "items",
    "keys_in",
    "life_of",
    "other_slot",
    "pointer_in",
    "read",
    "version_of",
    "version_of_order",
]

Kind = Literal["data", "errors"]
"""What of a task lies beside its row."""

DATA: Kind = "data"
ERRORS: Kind = "errors"

Row = tuple[str, str]
"""The task id and the use case of a row."""

MAX_BYTES = 10 * 1024 * 1024
"""The most that is kept beside a row, as text; beyond it an object store is the better place, and the cheaper one."""

VERSION, PIECE = "version", "piece"
"""The attributes of a piece, beside its key."""

_PIECE = 295_000
"""Bytes of content in a piece: an item is at most 400 KB, and moto measures its binary content in base64."""

_WORTH_PACKING = 0.9
_MOST_KEYS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""


class Pointer(NamedTuple):
    """What a row stores in place of the text: where its pieces lie, and of which version they must be."""

    slot: str
    """`A` or `B`: a writer fills the one that the row does not point to."""
    version: str
    """Says which write it was: creation of the task, fence, number within the run."""
    pieces: int
    """How many there are."""
    size: int
    """Bytes of the text."""
    packed: bool
    """Whether zlib packed them."""

    @classmethod
    def loaded(cls, stored: Mapping[str, Any]) -> Pointer:
        """Return the pointer that a stored map holds."""
        pieces, size = int(stored["pieces"][NUMBER]), int(stored["size"][NUMBER])
        return cls(stored["slot"][STRING], stored["version"][STRING], pieces, size, stored["packed"][BOOLEAN])

    def stored(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            MAP: {
                "slot": {STRING: self.slot},
                "version": {STRING: self.version},
                "pieces": {NUMBER: str(self.pieces)},
                "size": {NUMBER: str(self.size)},
                "packed": {BOOLEAN: self.packed},
            }
        }


def other_slot(slot: str | None) -> str:
    """Return the slot for the next version of what lies in this one, or in the row."""
    return "B" if slot == "A" else "A"


def life_of(create_time: datetime) -> str:
    """Return what all versions of a task begin with: one that is deleted and created again has later ones."""
    return clock.stamp(create_time) + "/"


def version_of(create_time: datetime, fence: int, number: int) -> str:
    """Return the version of a write: versions of a row are in the order in which its holders may write."""
    return f"{life_of(create_time)}{fence:010d}/{number:06d}"


def version_of_order(create_time: datetime, fence: int, token: str) -> str:
    """Return the version of what a person's order writes: later than all of the claim before it."""
    return f"{life_of(create_time)}{fence:010d}/~{token}"


def pointer_in(stored: Stored) -> Pointer | None:
    """Return what a stored row has in place of its data; None where the data is in the row."""
    data = stored.get("data", {})
    return Pointer.loaded(data[MAP]) if MAP in data else None


def cut(text: str, slot: str, version: str) -> tuple[Pointer, list[bytes]]:
    """Return the pieces of a text, packed where that helps, and the pointer to them."""
    raw = text.encode()
    small = zlib.compress(raw)
    packed = len(small) < len(raw) * _WORTH_PACKING
    content = small if packed else raw
    pieces = [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]
    return Pointer(slot, version, len(pieces), len(raw), packed), pieces


def range_key(use_case: str, kind: Kind, slot: str, number: int) -> str:
    """Return the range key of a piece: no name of a use case has a `#` in it."""
    return f"{use_case}#{kind}#{slot}#{number}"


def keys_in(row: Row, kind: Kind, pointer: Pointer) -> list[Stored]:
    """Return the stored keys of all pieces that a pointer means, in their order."""
    task_id, use_case = row
    return [
        {"task_id": {STRING: task_id}, "use_case_id": {STRING: range_key(use_case, kind, pointer.slot, number)}}
        for number in range(pointer.pieces)
    ]


def read(table: TableConnection, wanted: Mapping[tuple[Row, Kind], Pointer]) -> dict[tuple[Row, Kind], str]:
    """Read texts, strongly consistent; one is left out where its pieces are of another version by now.

    The row was written again meanwhile: read the row again, and then by its new pointer.
    """
    keys = {place: keys_in(*place, pointer) for place, pointer in wanted.items()}
    found = {_name(item): item for item in items(table, [key for each in keys.values() for key in each])}
    texts = {}
    for place, pointer in wanted.items():
        parts = [found.get(_name(key)) for key in keys[place]]
        if all(part is not None and part[VERSION][STRING] == pointer.version for part in parts):
            content = b"".join(part[PIECE][BINARY] for part in parts if part is not None)
            texts[place] = (zlib.decompress(content) if pointer.packed else content).decode()
    return texts


def items(table: TableConnection, keys: Sequence[Stored]) -> Iterator[Stored]:
    """Read items by key, strongly consistent; what throttling left over is asked for again, with a pause."""
    for at in range(0, len(keys), _MOST_KEYS):
        yield from _batch(table, keys[at : at + _MOST_KEYS])


def _batch(table: TableConnection, keys: Iterable[Stored]) -> Iterator[Stored]:
    left: Any = [_plain(key) for key in keys]
    pauses = backoff()
    while left:
        answer = insistently(partial(table.batch_get_item, left, consistent_read=True))
        yield from answer["Responses"].get(table.table_name, [])
        left = [_plain(key) for key in answer.get("UnprocessedKeys", {}).get(table.table_name, {}).get("Keys", [])]
        if left:
            clock.sleep(next(pauses) or 0)


def _plain(key: Stored) -> dict[str, Any]:
    return {name: next(iter(value.values())) for name, value in key.items()}


def _name(item: Stored) -> Row:
    return item["task_id"][STRING], item["use_case_id"][STRING]
