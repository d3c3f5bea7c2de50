"""Writes that several threads send at about the same time leave in one request.

Each thread sends its own write, as if it were alone, and gets its own response. It waits a few milliseconds for the
writes of others, if these are about to be sent.

    thread 1: claim a  --+                                 +--  a is claimed
    thread 2: claim b  --+--  one request, three responses  --+--  refused, with the row as it is
    thread 3: finish c --+                                 +--  c is finished
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from pynamodb.connection.table import TableConnection

from pynamodb_tracker.dynamodb.around import around
from pynamodb_tracker.dynamodb.batch_execute import MOST, BatchedWrite, execute
from pynamodb_tracker.dynamodb.connection import sharing_requests

_LONGEST_WAIT = 0.005
"""Seconds that a write waits at most for those of other threads."""

_LOOK_EVERY = 1.0
"""Seconds after which a thread that waits looks whether the one that it waits for was interrupted."""

_LEAD, _GO, _ANSWERED = "lead", "go", "answered"
"""Messages to a waiting thread: send what has gathered; wait no longer for others; your write has its response."""


def batcher_for(threads: int) -> WriteBatcher | None:
    """Return what sends the writes of that many threads; None for one thread, which shares with no other."""
    return None if threads == 1 else WriteBatcher()


class WriteBatcher:
    """Gathers the writes of the threads that work on the same tasks."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._senders = 0
        """Threads that are about to send a write, or wait for a response."""
        self._waiting: list[_Waiting] = []
        self._leader: _Waiting | None = None
        """The one whose thread sends the next request."""
        self._in_flight = set[_Waiting]()
        """Writes that were sent and are not answered yet."""

    @around
    def sending(self) -> Iterator[None]:
        """Send the writes of this block together with those of other threads, which wait for them."""
        self.add_senders(1)
        try:
            with sharing_requests(self):
                yield
        finally:
            self.add_senders(-1)

    @around
    def pausing(self) -> Iterator[None]:
        """Within `sending`, send the writes of this block alone, so that no other thread waits for them."""
        self.add_senders(-1)
        try:
            with sharing_requests(None):
                yield
        finally:
            self.add_senders(1)

    def add_senders(self, number: int) -> None:
        """Note that so many threads more, or fewer, are about to send writes."""
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
        """Send a write, perhaps together with others, and return its response, or raise the SDK's error for it.

        `until` is when the lock expires that it is about.
        """
        write = BatchedWrite(table, operation, request, until)
        if self._is_forked or not write.can_be_batched:
            return write.send_alone()
        waiting = _Waiting(write)
        try:
            with waiting.present:
                self._wait(waiting)
        finally:
            if not waiting.is_answered:  # the thread was interrupted
                self._forget_absent()
        return write.result()

    def _wait(self, waiting: _Waiting) -> None:
        """Wait for the response; when it is this thread's turn, send what has gathered."""
        with self._guard:
            self._waiting.append(waiting)
            if self._leader is None:
                self._lead_next()
            else:
                self._let_go_if_complete()
        while (message := waiting.next_message(_LOOK_EVERY)) is not _ANSWERED:
            if message is _LEAD:
                if not self._is_complete():
                    waiting.next_message(_LONGEST_WAIT)
                self._lead(waiting)
            elif message is None:
                self._forget_absent()
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
        """Send what has gathered, and wake its threads; they send again what has no response."""
        taken: list[_Waiting] = []
        try:
            self._take(leader, taken)
            execute([each.write for each in taken])
        finally:
            with self._guard:
                self._in_flight.difference_update(taken)
                self._let_go_if_complete()
            for each in taken:
                each.inbox.put(_ANSWERED)

    def _take(self, leader: _Waiting, taken: list[_Waiting]) -> None:
        """Take what can be sent with the leading write, each row once; the first one that is left leads the next."""
        with self._guard:
            keys, left, fitting = set[object](), list[_Waiting](), list[_Waiting]()
            for each in self._waiting:
                write = each.write
                fits = write.connection is leader.write.connection and len(fitting) < MOST and write.key not in keys
                (fitting if fits else left).append(each)
                keys.add(write.key)
            for each in fitting:
                each.leader = leader
            self._waiting = left
            taken += fitting
            self._in_flight.update(fitting)
            self._lead_next()

    def _forget_absent(self) -> None:
        """Forget the writes of threads that were interrupted, which may have been sent, and do what they have not done.

        An exception that another thread sets may be raised at any line, that of a `finally` clause included.
        """
        with self._guard:
            self._waiting = [each for each in self._waiting if each.is_present and each.leader is None]
            self._in_flight = {each for each in self._in_flight if each.is_present and not each.is_abandoned}
            if self._leader not in self._waiting:
                self._lead_next()


class _Waiting:
    """A write whose thread waits for its response."""

    __slots__ = ("inbox", "is_answered", "leader", "present", "write")

    def __init__(self, write: BatchedWrite) -> None:
        self.write = write
        self.inbox: SimpleQueue[str] = SimpleQueue()
        self.leader: _Waiting | None = None
        """The one whose thread sends it."""
        self.present = threading.Lock()
        """Held by its thread while it waits: that ends with the `with` statement, whatever is raised, and where."""
        self.is_answered = False

    @property
    def is_present(self) -> bool:
        """Whether its thread still waits."""
        return self.present.locked()

    @property
    def is_abandoned(self) -> bool:
        """Whether the thread that was to send it does not do that any more."""
        return self.leader is not None and not self.leader.is_present

    def next_message(self, seconds: float) -> str | None:
        """Return the next message to its thread; None if none arrives within that time."""
        try:
            return self.inbox.get(timeout=seconds)
        except Empty:
            return _ANSWERED if self.is_abandoned else None
