"""Changes a table's requests or their responses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pynamodb_tracker import Task
from pynamodb_tracker.testing.tables import OneAtATime

Dispatch = Callable[[str, dict[str, Any]], dict[str, Any]]
Change = Callable[[Dispatch, str, dict[str, Any]], dict[str, Any]]


@contextmanager
def through(table: type[Task], change: Change) -> Iterator[None]:
    """Send every request to a table on moto through `change`, which gets a function that sends it."""

    class Changed(OneAtATime):
        def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
            return change(super().dispatch, operation_name, operation_kwargs)

    before = table.tracker.table.reconnect(Changed)
    try:
        yield
    finally:
        table.tracker.table.reconnect(before)
