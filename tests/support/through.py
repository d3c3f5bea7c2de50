"""A way to meddle with the requests of a table, and with their answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pynamodb_tracker import Task
from pynamodb_tracker.testing.tables import OneAtATime

Dispatch = Callable[[str, dict[str, Any]], dict[str, Any]]
Change = Callable[[Dispatch, str, dict[str, Any]], dict[str, Any]]


@contextmanager
def through(table: type[Task], change: Change) -> Iterator[None]:
    """Let every request of a table on moto go through `change`, which is given the means to send it."""

    class Changed(OneAtATime):
        def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
            return change(super().dispatch, operation_name, operation_kwargs)

    before = table.tracker.table.reconnect(Changed)
    try:
        yield
    finally:
        table.tracker.table.reconnect(before)
