"""A use case: its stored name, the shards of its states in the index, and how long its finished tasks are kept."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Self, overload

from pynamodb.attributes import AttributeContainer, UnicodeAttribute

from pynamodb_tracker.arguments import LONGEST, shown

__all__ = ["UseCase"]

SEPARATOR = "#"
_LONGEST = 255
_MOST_SHARDS = 10_000
"""Every query of a state asks for each of its shards."""
_MOST_IN_ROW = 350_000
"""Bytes; a row holds 400 KB, and the tracker's and the user's other attributes are in it, too."""


class UseCase(UnicodeAttribute):
    """The use case of a class of tasks; in the row it is the range key.

    `name` is stored: any text of 1 to 255 bytes without `#`. `status_shards` spreads each state over that many
    partitions of the index; it may grow on a live table and never shrink. `keep_for` sets the row's TTL when the
    task ends, succeeded or ignored; without it, finished tasks stay. `data` of more bytes than `data_in_row`, as JSON,
    lies beside the row, so that a change of status costs the same whatever its size.
    """

    def __init__(
        self, name: str, *, status_shards: int = 1, keep_for: timedelta | None = None, data_in_row: int = 1024
    ) -> None:
        given: object = name  # what is no text is told in `mistakes`, by the name of the class
        super().__init__(range_key=True, default_for_new=given if isinstance(given, str) else None)
        self.name = name
        self.status_shards = status_shards
        self.keep_for = keep_for
        self.data_in_row = data_in_row

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # PynamoDB's is of any instance; here only a row reads it as text
        def __get__(self, instance: AttributeContainer, owner: object) -> str: ...

        @overload
        def __get__(self, instance: object, owner: object) -> Self: ...

        def __get__(self, instance: object, owner: object) -> Self | str: ...

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong with the declaration; asked for when the class is known and can be named."""
        name: object = self.name
        shards: object = self.status_shards
        keep_for: object = self.keep_for
        in_row: object = self.data_in_row
        if not isinstance(name, str):
            yield f"UseCase({name!r}): the name is text"
        elif SEPARATOR in name or not 1 <= len(name.encode(errors="ignore")) <= _LONGEST or not _is_utf8(name):
            yield f"UseCase({name!r}): the name needs 1 to {_LONGEST} bytes and no {SEPARATOR!r}"
        if type(shards) is not int or not 1 <= shards <= _MOST_SHARDS:
            yield f"UseCase({name!r}, status_shards={shown(shards)}): write a whole number from 1 to {_MOST_SHARDS:,}"
        if keep_for is not None and not (isinstance(keep_for, timedelta) and timedelta(0) < keep_for <= LONGEST):
            yield f"UseCase({name!r}, keep_for={keep_for!r}): write a timedelta above zero, or leave it out"
        if type(in_row) is not int or not 0 <= in_row <= _MOST_IN_ROW:
            yield f"UseCase({name!r}, data_in_row={in_row!r}): write a number of bytes from 0 to {_MOST_IN_ROW:,}"

    @property
    def prefix(self) -> str:
        """What the index's hash keys of this use case begin with, and those of no other."""
        return self.name + SEPARATOR

    def status_key(self, code: int, task_id: str) -> str:
        """Return the index's hash key of a task in a state; its shard is the same in every process."""
        shard = zlib.crc32(task_id.encode()) % self.status_shards
        return f"{self.prefix}{code}{SEPARATOR}{shard}"

    def status_keys(self, code: int) -> list[str]:
        """Return the index's hash keys of a state, one a shard."""
        return [f"{self.prefix}{code}{SEPARATOR}{shard}" for shard in range(self.status_shards)]


def _is_utf8(name: str) -> bool:
    return name == name.encode(errors="ignore").decode()
