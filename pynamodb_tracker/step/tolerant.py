"""Reading for people, who are shown what can be read of each task: one that is damaged hides no other one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

from pynamodb_tracker import query
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.query import StateScan
from pynamodb_tracker.step.state import State, window

T = TypeVar("T", bound=TaskRow)


def leniently(
    state: State[T],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    latest: datetime | None = None,
    latest_first: bool = False,
    limit: int | None = None,
    with_data: bool = False,
) -> Iterator[T]:
    """Return what `query` does, and what it refuses as far as that can be read: no task hides the others.

    `latest` is the last due time that is of interest. Where data that lies beside a row is not whole, the rest comes
    without data.
    """
    scan = StateScan(
        state.model, state.code, window(since, until), latest_first=latest_first, latest=latest, with_data=with_data
    )
    return scan.rows(limit)


def everything(model: type[T]) -> Iterator[T]:
    """Return every task of a use case once, strongly consistent, as `leniently` does; reads the whole table."""
    return query.tasks(model)
