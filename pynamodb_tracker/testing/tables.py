"""Opens tables in memory on moto, or on a local server, and stops the clock."""

import atexit
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast
from unittest import mock

from pynamodb_tracker import clock
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.exceptions import INSTALLABLE
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.testing.server import serving

T = TypeVar("T", bound=Task)

_SET_ASIDE = ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
_ANY_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}

_left_open = ExitStack()
atexit.register(_left_open.close)  # during interpreter shutdown would be too late


@contextmanager
def stopped_clock(at: datetime | None = None) -> Iterator[StoppedClock]:
    """Stop the library's clock in this process, now or `at` a time, and yield it. Move it with `.advance(timedelta)`.

    Pauses between retries do not sleep, but move the clock.

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
    """Sends one request at a time, because moto does not lock between condition and write."""

    is_in_memory = True
    _gate = threading.RLock()

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        with self._gate:
            return super().dispatch(operation_name, operation_kwargs)


class LocalTable(Protocol):
    """The type of the pytest fixture `local_table`."""

    def __call__(self, table: type[T], *further: type[Task]) -> type[T]:
        """Create these tables, empty and in memory, until the test ends. Return the first one."""


class LocalServer(Protocol):
    """The type of the pytest fixture `local_server`."""

    def __call__(
        self, table: type[Task], *further: type[Task], path: str | os.PathLike[str] | None = None, port: int = 0
    ) -> str:
        """Run a server with these tables until the test ends. Return its address."""


@contextmanager
def local_table(table: type[T], *further: type[Task]) -> Iterator[type[T]]:
    """Create these tables, or these use cases' tables, empty and in memory on moto, until the block ends.

    Until then, the whole process ignores endpoints and profiles, so enter this in one thread only. If you enter it
    again for the same table, the table keeps its tasks. It needs the extra `local`.

    Examples:
        >>> with local_table(AppTask):
        ...     Order.create("o-5")
    """
    try:
        from moto import mock_aws  # noqa: PLC0415 - an extra: the library works without it
    except ImportError as error:
        raise ImportError(f"local_table needs moto: pip install '{INSTALLABLE}[local]'") from error
    models = _check_classes("local_table", [table, *further])
    with ExitStack() as stack:
        _set_environment(stack, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"})
        stack.enter_context(mock_aws())
        _connect(stack, models, None, OneAtATime)
        yield table


@contextmanager
def local_server(
    table: type[Task], *further: type[Task], path: str | os.PathLike[str] | None = None, port: int = 0
) -> Iterator[str]:
    """Run a DynamoDB for all processes on this machine until the block ends, and yield its address.

    It starts dynoxide, creates missing tables, and connects their classes. Processes that the block starts find the
    server in their environment. The server ends with this process, even if that is killed.

    Args:
        table: Your table, or one of its use cases.
        further: More tables or use cases.
        path: A file for the tables. Without one, they are in memory, and lost at the end.
        port: The port on 127.0.0.1, or 0 for any free one.

    Raises:
        ValueError: `port` is not a port number.
        LocalServerError: dynoxide is neither on the PATH nor in the variable DYNOXIDE, the port is in use, dynoxide
            did not write the file, or another process has it open.

    Examples:
        >>> with local_server(AppTask, path="orders.sqlite"):
        ...     Order.create("o-5")
    """
    models = _check_classes("local_server", [table, *further])
    with ExitStack() as stack:
        endpoint = stack.enter_context(serving(path=path, port=port))
        _set_environment(stack, {"AWS_ENDPOINT_URL_DYNAMODB": endpoint, **_ANY_CREDENTIALS})
        _connect(stack, models, endpoint, SharedConnection)
        yield endpoint


def _check_classes(function: str, given: Sequence[object]) -> list[type[Task]]:
    for model in given:
        if not (isinstance(model, type) and issubclass(model, Task)):
            raise TypeError(f"{function} takes a class of tasks, not {model!r}: write {function}(AppTask)")
    return cast("list[type[Task]]", given)


def _set_environment(stack: ExitStack, values: Mapping[str, str]) -> None:
    stack.enter_context(mock.patch.dict(os.environ))
    for name in _SET_ASIDE:
        os.environ.pop(name, None)
    os.environ.update(values)
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")


def _connect(
    stack: ExitStack, models: Sequence[type[Task]], host: str | None, connection: type[SharedConnection]
) -> None:
    """Create these classes' tables on a host, and connect them until the stack is closed."""
    for each in dict.fromkeys(model.tracker.table for model in models):
        stack.enter_context(mock.patch.object(each.owner.Meta, "host", host))
        stack.callback(each.reconnect, each.reconnect(connection))
        each.owner.create_table(wait=True)


def open_local_table(table: type[T], *further: type[Task]) -> type[T]:
    """Open tables like `local_table` until the program ends, for a script or a notebook.

    pytest closes them after importing all modules, so tests begin with empty tables.

    Examples:
        >>> open_local_table(AppTask)
    """
    return _left_open.enter_context(local_table(table, *further))


def close_local_tables() -> None:
    _left_open.close()
