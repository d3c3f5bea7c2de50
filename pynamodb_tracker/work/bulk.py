"""One operation on many tasks, on threads. A refusal is reported and does not stop the others.

Threads that write at about the same time share requests of up to 25 writes. On one thread, each write is a request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb.batch_execute import MOST
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.work.outcomes import Report
from pynamodb_tracker.work.threads import in_threads

A = TypeVar("A")
T = TypeVar("T", bound=TaskRow)

Outcome = Literal["succeeded", "ignored"]
"""The list of the report that a changed task is added to."""

_READ_TOGETHER = 100
"""Rows that one request reads ahead: as many as it can. Rows that change before their turn are read again."""


def report_of_each(
    tasks: Iterable[tuple[str, A]],
    change: Callable[[str, A], Outcome | None],
    threads: int,
    group_of: Callable[[A], object] = lambda _: None,
) -> Report:
    """Change each task and return the report.

    Args:
        tasks: Task ids, each with an argument for the change.
        change: Changes a task and returns the list of the report to add it to, or None. Errors of the tracker and of
            PynamoDB refuse the task, and all others propagate.
        threads: How many tasks to change at the same time.
        group_of: Returns the group of an argument. Tasks of a group are changed one after another, in order.
    """
    report = Report()

    def change_one(task: tuple[str, A]) -> None:
        try:
            if (outcome := change(*task)) is not None:
                getattr(report, outcome).append(task[0])
        except (PynamoDBException, TrackerError) as error:
            report.refused[task[0]] = error

    in_threads_together(change_one, tasks, threads, lambda task: group_of(task[1]))
    return report


def in_threads_together(
    change: Callable[[A], None],
    items: Iterable[A],
    threads: int,
    group_of: Callable[[A], object] = lambda _: None,
) -> None:
    """Call the function on each item, as `in_threads` does. The threads send their writes together.

    Items of one group, a text, are changed one after another, in order.
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
    def __init__(self, group: object) -> None:
        self.group = group
        self.items: deque[A] = deque()
        self.turn = threading.Lock()


class _InOrder(Generic[A]):
    """Changes the items of each group in order: the thread that has the turn changes the first remaining item."""

    def __init__(self, change: Callable[[A], None], group_of: Callable[[A], object]) -> None:
        self._change = change
        self._group_of = group_of
        self._queues: dict[object, _Queue[A]] = {}
        self._guard = threading.Lock()

    def queue_with(self, item: A) -> _Queue[A]:
        """Put an item into the queue of its group, and return the queue."""
        group = self._group_of(item)
        if not isinstance(group, str):
            group = object()  # it waits for nothing
        with self._guard:
            queue = self._queues.setdefault(group, _Queue(group))
            queue.items.append(item)
        return queue

    def change_next(self, queue: _Queue[A]) -> None:
        """Wait for the queue's turn, and change its first item."""
        with queue.turn:
            try:
                self._change(queue.items.popleft())
            finally:
                with self._guard:
                    if not queue.items:
                        del self._queues[queue.group]


class _Senders:
    """The threads that are about to send a write: all of them, until the items run out."""

    def __init__(self, threads: int) -> None:
        self.batcher = WriteBatcher()
        self.batcher.add_senders(threads)
        self._sending = threads
        self._busy = 0
        self._ended = False
        self._guard = threading.Lock()

    def fed_with(self, items: Iterable[A]) -> Iterator[A]:
        """Yield the items. Each keeps a thread busy until `note_done`."""
        for item in items:
            with self._guard:
                self._busy += 1
            yield item
        with self._guard:
            self._ended = True
            self._release_idle()

    def note_done(self) -> None:
        """Note that a thread has finished its item."""
        with self._guard:
            self._busy -= 1
            self._release_idle()

    def _release_idle(self) -> None:
        if self._ended and self._sending > self._busy:
            self.batcher.add_senders(self._busy - self._sending)
            self._sending = self._busy


def each_once(task_ids: Iterable[str]) -> Iterator[str]:
    """Yield each of these ids once, lazily."""
    seen = set[str]()
    for task_id in task_ids:
        if task_id not in seen:
            seen.add(task_id)
            yield task_id


def with_rows(model: type[T], task_ids: Iterator[str]) -> Iterator[tuple[str, T | None]]:
    """Yield each id with its row, which is read together with the next ones, or with None if that failed."""
    while some := list(islice(task_ids, _READ_TOGETHER)):
        try:
            found = rows(model, some)
        except PynamoDBException:  # then each row is read on its own, and its task is refused if that fails, too
            found = {}
        for task_id in some:
            yield task_id, found.get(task_id)
