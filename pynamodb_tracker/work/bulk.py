"""Changes many tasks on threads, and reports which ones were refused.

Threads that write at about the same time share requests of up to 25 writes.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import count, islice
from typing import Generic, Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb.batch_execute import MOST
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import T
from pynamodb_tracker.work.outcomes import Report
from pynamodb_tracker.work.threads import in_threads

A = TypeVar("A")

_READ_TOGETHER = 100  # rows that one request reads ahead


def report_of_each(
    tasks: Iterable[tuple[str, A]],
    change: Callable[[str, A], Literal["succeeded", "ignored"] | None],
    threads: int,
    group_of: Callable[[A], object] = lambda _: None,
) -> Report:
    """Change each task, with its argument, and return the report. `change` returns the report's list for the task.

    Errors from the tracker and PynamoDB refuse the task, and others propagate.
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
    change: Callable[[A], None], items: Iterable[A], threads: int, group_of: Callable[[A], object] = lambda _: None
) -> None:
    """Like `in_threads`, with shared requests. Items with the same text as their group are changed in order."""
    if threads == 1:
        in_threads(change, items, 1)
        return
    together = _Together(change, group_of, min(threads, MOST))
    in_threads(together.change_next, together.fed_with(items), threads)


class _Together(Generic[A]):
    """Changes each group's items in order: the thread that has the turn changes the first one."""

    def __init__(self, change: Callable[[A], None], group_of: Callable[[A], object], threads: int) -> None:
        self._change = change
        self._group_of = group_of
        self._batcher = WriteBatcher()
        self._batcher.add_senders(threads)
        self._queues: dict[object, tuple[threading.Lock, deque[A]]] = {}  # each group's turn and items
        self._sending = threads
        self._busy = 0
        self._ended = False
        self._guard = threading.Lock()

    def fed_with(self, items: Iterable[A]) -> Iterator[object]:
        """Yield each item's group. It keeps a thread busy until `change_next` has changed an item."""
        for item in items:
            group = self._group_of(item)
            if not isinstance(group, str):
                group = object()  # its own, so that it does not wait
            with self._guard:
                self._queues.setdefault(group, (threading.Lock(), deque()))[1].append(item)
                self._busy += 1
            yield group
        with self._guard:
            self._ended = True
            self._release_idle()

    def change_next(self, group: object) -> None:
        """Wait for the group's turn, and change its first item."""
        turn, items = self._queues[group]
        try:
            with sharing_requests(self._batcher), turn:
                try:
                    self._change(items.popleft())
                finally:
                    with self._guard:
                        if not items:
                            del self._queues[group]
        finally:
            with self._guard:
                self._busy -= 1
                self._release_idle()

    def _release_idle(self) -> None:
        if self._ended and self._sending > self._busy:
            self._batcher.add_senders(self._busy - self._sending)
            self._sending = self._busy


def each_once(task_ids: Iterable[str]) -> Iterator[str]:
    seen = set[str]()
    for task_id in task_ids:
        if task_id not in seen:
            seen.add(task_id)
            yield task_id


def by_number(members: Iterable[tuple[T, datetime | None]]) -> Iterator[tuple[T, datetime | None]]:
    """Yield tasks that return to their groups by number and due time, and the groups in turns."""
    groups = defaultdict[str, list[tuple[T, datetime | None]]](list)
    for member in members:
        groups[member[0].group].append(member)
    ordered = list[tuple[int, T, datetime | None]]()
    for found in groups.values():
        rows = sorted((row for row, _ in found), key=lambda row: row.group_number)
        times = sorted((time for _, time in found), key=lambda time: (time is not None, time))
        ordered += zip(count(), rows, times, strict=False)
    for _, row, time in sorted(ordered, key=lambda each: each[0]):
        yield row, time


def with_rows(model: type[T], task_ids: Iterator[str]) -> Iterator[tuple[str, T | None]]:
    """Yield each id with its row, or with None if the row could not be read."""
    while some := list(islice(task_ids, _READ_TOGETHER)):
        try:
            found = rows(model, some)
        except PynamoDBException:  # the caller reads each row, and refuses the task if that fails, too
            found = {}
        for task_id in some:
            yield task_id, found.get(task_id)
