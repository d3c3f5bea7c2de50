"""One operation on many tasks: each on its own, on threads; a refusal is reported, and stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.batch.batch import Report
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import TaskRow

A = TypeVar("A")
T = TypeVar("T", bound=TaskRow)

Outcome = Literal["succeeded", "ignored"]
"""The list of the report that a changed task is added to."""

_READ_TOGETHER = 25
"""Rows that one request reads ahead: few enough that hardly any is out of date when its turn comes."""


def report_of_each(tasks: Iterable[tuple[str, A]], change: Callable[[str, A], Outcome | None], threads: int) -> Report:
    """Change each task, given with its id, and return the report; a task without an outcome is in none of its lists.

    An exception that is neither of the tracker nor of PynamoDB, such as a TypeError, ends it and propagates.
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

    in_threads(change_one, tasks, threads)
    return report


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
