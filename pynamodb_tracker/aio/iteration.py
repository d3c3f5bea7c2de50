"""Async iteration over what is read lazily, page by page: some of it is read ahead, in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

from pynamodb_tracker.aio.pool import in_thread
from pynamodb_tracker.model.row import TaskRow

R = TypeVar("R")

_MOST = 100
"""Items that are read ahead: as many rows as one request reads."""

_MOST_DATA = 4 * 1024 * 1024
"""Bytes of off-row data that are read ahead; a single task may have more."""


class ReadAhead(AsyncIterator[R]):
    """An async iterator over an iterator that sends requests. One that is left early has nothing to clean up."""

    def __init__(self, items: Iterator[R]) -> None:
        self._items = items
        self._read: deque[R] = deque()
        self._error: Exception | None = None
        """What reading on has raised, after the items that were read before."""

    async def __anext__(self) -> R:
        """Return the next item."""
        if not self._read:
            if self._error is None:
                await in_thread(self._read_on)
            if not self._read:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
        return self._read.popleft()

    def _read_on(self) -> None:
        data = 0
        try:
            for item in self._items:
                self._read.append(item)
                if isinstance(item, TaskRow):
                    data += len(item._row_state.data_text or "")
                if len(self._read) >= _MOST or data >= _MOST_DATA:
                    return
        except Exception as error:  # noqa: BLE001 - raised when the items before it are consumed
            self._error = error
