"""A table in memory, on moto, and a stopped clock."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, Protocol, TypeVar
from unittest import mock

from pynamodb_tracker import clock
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.exceptions import INSTALLABLE
from pynamodb_tracker.task.task import Task

T = TypeVar("T", bound=Task)

_SET_ASIDE = ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB")
_SET = {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}

_left_open = ExitStack()
atexit.register(_left_open.close)  # Python is too far gone when it would close them by itself


@contextmanager
def stopped_clock(at: datetime | None = None) -> Iterator[StoppedClock]:
    """Stop the library's clock, at the time now or at `at`, and yield it: `.advance(timedelta)` moves it.

    Only the library's own clock stops, for the whole process. Pauses between retries move it and take no time.

    Examples:
        >>> with stopped_clock() as clock:
        ...     clock.advance(timedelta(days=1))
    """
    stopped = StoppedClock(at)
    before = clock.use(stopped)
    try:
        yield stopped
    finally:
        clock.use(before)


class OneAtATime(SharedConnection):
    """A connection that sends one request at a time: moto does not lock between checking a condition and writing."""

    is_in_memory = True
    _gate = threading.RLock()

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send the request when no other request is in flight."""
        with self._gate:
            return super().dispatch(operation_name, operation_kwargs)


class LocalTable(Protocol):
    """The type of the pytest fixture `local_table`, for the annotation of a test."""

    def __call__(self, table: type[T], *further: type[Task]) -> type[T]:
        """Create these tables, empty and in memory, until the test ends, and return the first one."""
        ...


@contextmanager
def local_table(table: type[T], *further: type[Task]) -> Iterator[type[T]]:
    """Create these tables, or those of these use cases, empty and in memory on moto, until the block ends.

    Endpoints and profiles, in Meta and in the environment, are ignored meanwhile, for the whole process, so enter it in
    one thread. If entered again for the same table, the table keeps its tasks. Needs the extra `local`.

    Examples:
        >>> with local_table(AppTask):
        ...     Order.create("o-5")
    """
    try:
        from moto import mock_aws  # noqa: PLC0415 - an extra: the library works without it
    except ImportError as error:
        raise ImportError(f"local_table needs moto: pip install '{INSTALLABLE}[local]'") from error
    given: list[object] = [table, *further]
    for model in given:
        if not (isinstance(model, type) and issubclass(model, Task)):
            raise TypeError(f"local_table takes a class of tasks, not {model!r}: write local_table(AppTask)")
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, _SET))
        for name in _SET_ASIDE:
            os.environ.pop(name, None)
        os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
        stack.enter_context(mock_aws())
        tables: list[type[Task]] = [table, *further]
        for each in dict.fromkeys(model.tracker.table for model in tables):
            stack.enter_context(mock.patch.object(each.owner.Meta, "host", None))
            stack.callback(each.reconnect, each.reconnect(OneAtATime))
            each.owner.create_table(wait=True)
        yield table


def open_local_table(table: type[T], *further: type[Task]) -> type[T]:
    """Open tables as `local_table` does, until the program ends: for a script, a notebook or an example.

    pytest closes them when it has imported all modules, so that tests begin with empty tables.

    Examples:
        >>> open_local_table(AppTask)
    """
    return _left_open.enter_context(local_table(table, *further))


def close_local_tables() -> None:
    """Close what `open_local_table` has opened."""
    _left_open.close()
