"""Combines writes that several threads send at about the same time into one request.

Each thread waits a few milliseconds for other threads, and gets its own response.

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

_LONGEST_WAIT = 0.005  # seconds that a write waits for other threads
_LOOK_EVERY = 1.0  # seconds between checks whether the leader was interrupted

_LEAD, _GO, _ANSWERED = "lead", "go", "answered"
"""Messages to a waiting thread: send the waiting writes, stop waiting, your response is here."""


def batcher_for(threads: int) -> WriteBatcher | None:
    return None if threads == 1 else WriteBatcher()


class WriteBatcher:
    def __init__(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._senders = 0  # threads that are about to send a write or are waiting for a response
        self._waiting: list[_Waiting] = []
        self._leader: _Waiting | None = None  # its thread sends the next request
        self._in_flight = set[_Waiting]()

    @around
    def sending(self) -> Iterator[None]:
        """Combine this block's writes with other threads', which wait for them."""
        self.add_senders(1)
        try:
            with sharing_requests(self):
                yield
        finally:
            self.add_senders(-1)

    @around
    def pausing(self) -> Iterator[None]:
        """Within `sending`, send this block's writes alone."""
        self.add_senders(-1)
        try:
            with sharing_requests(None):
                yield
        finally:
            self.add_senders(1)

    def add_senders(self, number: int) -> None:
        if self._is_forked:
            return
        with self._guard:
            self._senders += number
            self._let_go_if_complete()

    @property
    def _is_forked(self) -> bool:
        """Whether this process was forked. A thread in its parent may have held the mutex."""
        return self._process != os.getpid()

    def dispatch(
        self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None
    ) -> dict[str, Any]:
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
        """Send the waiting writes, and wake their threads. They resend a write without a response."""
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
        """Take the writes that fit into the leader's request, one per row."""
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
        """Forget the writes of interrupted threads, and let the others continue.

        Another thread can raise an exception here at any line, even in a `finally` clause.
        """
        with self._guard:
            self._waiting = [each for each in self._waiting if each.present.locked() and each.leader is None]
            self._in_flight = {each for each in self._in_flight if each.present.locked() and not each.is_abandoned}
            if self._leader not in self._waiting:
                self._lead_next()


class _Waiting:
    __slots__ = ("inbox", "is_answered", "leader", "present", "write")

    def __init__(self, write: BatchedWrite) -> None:
        self.write = write
        self.inbox: SimpleQueue[str] = SimpleQueue()
        self.leader: _Waiting | None = None  # its thread sends this write
        self.present = threading.Lock()
        """The thread holds it while it waits. The `with` statement releases it after any exception."""
        self.is_answered = False

    @property
    def is_abandoned(self) -> bool:
        return self.leader is not None and not self.leader.present.locked()

    def next_message(self, seconds: float) -> str | None:
        try:
            return self.inbox.get(timeout=seconds)
        except Empty:
            return _ANSWERED if self.is_abandoned else None
