"""Writes that several threads send at about the same time leave in one request.

Each thread sends its own write, as if it were alone, and gets its own answer. It waits a few milliseconds for the
writes of others, if these are about to be sent.

    thread 1: claim a  --+                                 +--  a is claimed
    thread 2: claim b  --+--  one request, three answers  --+--  refused, with the row as it is
    thread 3: finish c --+                                 +--  c is finished
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from pynamodb.connection.table import TableConnection

from pynamodb_tracker.dynamodb.batch_execute import MOST, BatchedWrite, execute

_LONGEST_WAIT = 0.005
"""Seconds that a write waits at most for those of other threads."""

_LEAD, _GO, _ANSWERED = "lead", "go", "answered"
"""What a waiting thread is told: to send what has gathered, to wait no longer for others, or that it has an answer."""


class WriteBatcher:
    """Gathers the writes of the threads that work on the same tasks."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._senders = 0
        """Threads that are about to send a write, or wait for an answer."""
        self._waiting: list[_Waiting] = []
        self._leader: _Waiting | None = None
        """The one whose thread sends the next request."""
        self._in_flight = 0
        """Writes that were sent and are not answered yet."""

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Say that this thread is about to send writes, so that those of others wait for them."""
        self._add_senders(1)
        try:
            yield
        finally:
            self._add_senders(-1)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Say, within `sending`, that this thread sends nothing for now."""
        self._add_senders(-1)
        try:
            yield
        finally:
            self._add_senders(1)

    def _add_senders(self, number: int) -> None:
        if self._is_forked:
            return
        with self._guard:
            self._senders += number
            self._let_go_if_complete()

    @property
    def _is_forked(self) -> bool:
        """Whether this is a child of the process: it has none of the other threads, one of which may hold the mutex."""
        return self._process != os.getpid()

    def dispatch(
        self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None
    ) -> dict[str, Any]:
        """Send a write, perhaps together with others, and return its answer, or raise the SDK's error for it.

        `until` is when the lock expires that it is about.
        """
        write = BatchedWrite(table, operation, request, until)
        if self._is_forked or not write.can_be_batched:
            return write.send_alone()
        waiting = _Waiting(write)
        try:
            self._wait(waiting)
        finally:
            if not waiting.is_answered:  # the thread was interrupted
                self._withdraw(waiting)
        return write.result()

    def _wait(self, waiting: _Waiting) -> None:
        """Wait for the answer; when it is this thread's turn, send what has gathered."""
        with self._guard:
            self._waiting.append(waiting)
            if self._leader is None:
                self._lead_next()
            else:
                self._let_go_if_complete()
        while (told := waiting.inbox.get()) is not _ANSWERED:
            if told is _LEAD:
                if not self._is_complete():
                    with suppress(Empty):
                        waiting.inbox.get(timeout=_LONGEST_WAIT)
                self._lead(waiting)
        waiting.is_answered = True

    def _is_complete(self) -> bool:
        """Return whether there is nothing to wait for: the request is full, or no thread is about to send a write."""
        number = len(self._waiting)
        return number >= MOST or (number >= self._senders and not self._in_flight)

    def _let_go_if_complete(self) -> None:
        if self._leader is not None and self._is_complete():
            self._leader.inbox.put(_GO)

    def _lead_next(self) -> None:
        self._leader = self._waiting[0] if self._waiting else None
        if self._leader is not None:
            self._leader.inbox.put(_LEAD)

    def _lead(self, leader: _Waiting) -> None:
        """Send what has gathered, and tell its threads; they send again what has no answer."""
        taken: list[_Waiting] = []
        try:
            self._take(leader.write, taken)
            execute([each.write for each in taken])
        finally:
            with self._guard:
                self._in_flight -= len(taken)
                self._let_go_if_complete()
            for each in taken:
                each.inbox.put(_ANSWERED)

    def _take(self, leading: BatchedWrite, taken: list[_Waiting]) -> None:
        """Take what can be sent with the leading write, each row once; the first one that is left leads the next."""
        with self._guard:
            keys, left = set[object](), list[_Waiting]()
            for each in self._waiting:
                fits = each.write.connection is leading.connection and len(taken) < MOST and each.write.key not in keys
                (taken if fits else left).append(each)
                keys.add(each.write.key)
            self._waiting = left
            self._in_flight += len(taken)
            self._lead_next()

    def _withdraw(self, waiting: _Waiting) -> None:
        """Forget a write whose thread was interrupted; it may have been sent."""
        with self._guard:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            if self._leader is waiting:
                self._lead_next()


class _Waiting:
    """A write whose thread waits for its answer."""

    __slots__ = ("inbox", "is_answered", "write")

    def __init__(self, write: BatchedWrite) -> None:
        self.write = write
        self.inbox: SimpleQueue[str] = SimpleQueue()
        self.is_answered = False
