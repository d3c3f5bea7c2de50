"""The table behind a class with a Meta: its one connection, and the classes that claim its use cases."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pynamodb.connection.base import Connection, MetaTable
from pynamodb.connection.table import TableConnection

from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.exceptions import DefinitionError

if TYPE_CHECKING:
    from pynamodb_tracker.model.row import TaskRow

__all__ = ["Table"]

_CONNECTION_SETTINGS = (
    "region",
    "host",
    "connect_timeout_seconds",
    "read_timeout_seconds",
    "max_retry_attempts",
    "max_pool_connections",
    "extra_headers",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
)


class Table:
    """What the use cases of one table share."""

    def __init__(self, owner: type[TaskRow]) -> None:
        self.owner = owner
        self.use_cases: weakref.WeakValueDictionary[str, type[TaskRow]] = weakref.WeakValueDictionary()
        self._connection: TableConnection | None = None
        self._pid = os.getpid()
        self._guard = threading.RLock()
        self._connect: Callable[..., Connection] = SharedConnection

    def claim(self, name: str, model: type[TaskRow]) -> None:
        """Let `model` be the class of a use case; a second one is a DefinitionError, the same one anew replaces it."""
        other = self.use_cases.get(name)
        if other is not None and not _is_redefinition(other, model):
            del other
            gc.collect()  # a class that went out of scope, local to a test say, lives until its cycles are collected
            other = self.use_cases.get(name)
            if other is not None:
                raise DefinitionError(
                    f"{model.__qualname__}: the use case {name!r} of table {self.owner.__name__} belongs to "
                    f"{other.__module__}.{other.__qualname__}; give this one another name"
                )
        self.use_cases[name] = model

    def connection(self) -> TableConnection:
        """Return the connection that all use cases share, built anew where Meta names another table.

        A forked process builds its own: on a socket of its parent's it could read the answer to another request, and
        a lock that a thread of its parent held would never be free.
        """
        table_name = self.owner.Meta.table_name
        if os.getpid() != self._pid:
            self._guard, self._connection, self._pid = threading.RLock(), None, os.getpid()
        connection = self._connection
        if connection is None or connection.table_name != table_name:
            with self._guard:
                connection = self._connection
                if connection is None or connection.table_name != table_name:
                    connection = self._connection = self._connected(table_name)
        return connection

    def reconnect(self, connect: Callable[..., Connection] = SharedConnection) -> Callable[..., Connection]:
        """Drop the connection and its client, and build the next one by `connect`; return what built it before."""
        with self._guard:
            before, self._connect, self._connection = self._connect, connect, None
            return before

    def _connected(self, table_name: str) -> TableConnection:
        settings = {name: getattr(self.owner.Meta, name, None) for name in _CONNECTION_SETTINGS}
        table = TableConnection(table_name)
        table.connection = self._connect(**settings)
        table.connection.add_meta_table(self._meta_table(table_name))
        return table

    def _meta_table(self, table_name: str) -> MetaTable:
        schema: Any = self.owner._get_schema()  # noqa: SLF001 - what PynamoDB's own connection is given
        indexes = {
            kind: [{"IndexName": index["index_name"], "KeySchema": index["key_schema"]} for index in schema[stored]]
            for kind, stored in (
                ("GlobalSecondaryIndexes", "global_secondary_indexes"),
                ("LocalSecondaryIndexes", "local_secondary_indexes"),
            )
        }
        return MetaTable(
            {
                "TableName": table_name,
                "KeySchema": schema["key_schema"],
                "AttributeDefinitions": schema["attribute_definitions"],
                **indexes,
            }
        )


def _is_redefinition(old: type, new: type) -> bool:
    """Tell whether a notebook's cell or a reload made the same class again."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
