"""One operation on many tasks: each on its own, on threads; a refusal is reported, and stops none of the others.

What the threads write at about the same time leaves in requests of up to 25 writes. On one thread, each is a request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.batch.batch import Report
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.dynamodb.batch_execute import MOST
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import TaskRow

A = TypeVar("A")
T = TypeVar("T", bound=TaskRow)

Outcome = Literal["succeeded", "ignored"]
"""The list of the report that a changed task is added to."""

_READ_TOGETHER = 100
"""Rows that one request reads ahead, which is as many as one can; those that change meanwhile are read again."""


def report_of_each(
    tasks: Iterable[tuple[str, A]],
    change: Callable[[str, A], Outcome | None],
    threads: int,
    group_of: Callable[[A], object] = lambda _: None,
) -> Report:
    """Change each task, given with its id, and return the report; a task without an outcome is in none of its lists.

    Those of one group, by what is given with them, are changed in their order. An exception that is neither of the
    tracker nor of PynamoDB, such as a TypeError, ends it and propagates.
    """
    report = Report()

    def change_one(task: tuple[str, A]) -> None:
        task_id, given = task
        try:
            outcome = change(task_id, given)
        except (PynamoDBException, TrackerError) as error:
            report.refused[task_id] = error
        else:
            if outcome is not None:
                getattr(report, outcome).append(task_id)

    in_threads_together(change_one, tasks, threads, lambda task: group_of(task[1]))
    return report


def in_threads_together(
    change: Callable[[A], None],
    items: Iterable[A],
    threads: int,
    group_of: Callable[[A], object] = lambda _: None,
) -> None:
    """Call the function on each item, as `in_threads` does; the threads send what it writes together.

    Items of one group, a text, are changed one after another, in their order.
    """
    if threads == 1:
        in_threads(change, items, 1)
        return
    senders, groups = _Senders(min(threads, MOST)), _InOrder(change, group_of)

    def change_together(queue: _Queue[A]) -> None:
        with sharing_requests(senders.batcher):
            try:
                groups.change_next(queue)
            finally:
                senders.note_done()

    in_threads(change_together, senders.fed_with(map(groups.queue_with, items)), threads)


class _Queue(Generic[A]):
    """Items of which one is changed at a time, the first one first."""

    __slots__ = ("group", "items", "turn")

    def __init__(self, group: object) -> None:
        self.group = group
        self.items: deque[A] = deque()
        self.turn = threading.Lock()


class _InOrder(Generic[A]):
    """Changes items of one group in their order: whichever thread has the turn changes the first one that is left."""

    def __init__(self, change: Callable[[A], None], group_of: Callable[[A], object]) -> None:
        self._change = change
        self._group_of = group_of
        self._queues: dict[object, _Queue[A]] = {}
        self._guard = threading.Lock()

    def queue_with(self, item: A) -> _Queue[A]:
        """Return the queue of the item's group, at whose end it is."""
        group = self._group_of(item)
        if not isinstance(group, str):
            group = object()  # it waits for nothing
        with self._guard:
            queue = self._queues.setdefault(group, _Queue(group))
            queue.items.append(item)
        return queue

    def change_next(self, queue: _Queue[A]) -> None:
        """Change the first item of a queue, once nobody changes another one of it."""
        with queue.turn:
            try:
                self._change(queue.items.popleft())
            finally:
                with self._guard:
                    if not queue.items:
                        del self._queues[queue.group]


class _Senders:
    """The threads that are about to send a write: all of them, until there are no further items for them."""

    def __init__(self, threads: int) -> None:
        self.batcher = WriteBatcher()
        self.batcher.add_senders(threads)
        self._sending = threads
        self._busy = 0
        self._ended = False
        self._guard = threading.Lock()

    def fed_with(self, items: Iterable[A]) -> Iterator[A]:
        """Yield the items, each of which keeps a thread busy until `note_done`."""
        for item in items:
            with self._guard:
                self._busy += 1
            yield item
        with self._guard:
            self._ended = True
            self._release_idle()

    def note_done(self) -> None:
        """Note that a thread is done with its item."""
        with self._guard:
            self._busy -= 1
            if self._ended:
                self._release_idle()

    def _release_idle(self) -> None:
        if self._sending > self._busy:
            self.batcher.add_senders(self._busy - self._sending)
            self._sending = self._busy


def each_once(task_ids: Iterable[str]) -> Iterator[str]:
    """Yield each of these ids once, when it is needed."""
    seen = set[str]()
    for task_id in task_ids:
        if task_id not in seen:
            seen.add(task_id)
            yield task_id


def with_rows(model: type[T], task_ids: Iterator[str]) -> Iterator[tuple[str, T | None]]:
    """Yield each id with its row, read together with those of the next ids; None if it could not be read so."""
    while some := list(islice(task_ids, _READ_TOGETHER)):
        try:
            found = rows(model, some)
        except PynamoDBException:  # then each is read on its own, and refused if that fails, too
            found = {}
        for task_id in some:
            yield task_id, found.get(task_id)
