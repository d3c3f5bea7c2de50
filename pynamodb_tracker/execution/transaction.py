"""A transaction of a run: PynamoDB's TransactWrite, which is applied only while the run holds the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.transactions import TransactWrite

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import Promise

__all__ = ["TaskTransaction"]

T = TypeVar("T", bound=TaskRow)

Commit = Callable[[list[dict[str, Any]]], None]

_MOST_ACTIONS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""


class TaskTransaction(TransactWrite, Generic[T]):
    """What `ctx.transaction` returns: the writes that it is given, and one of the row of the task itself."""

    def __init__(self, table: TableConnection, task: T, commit: Commit, promise: Promise | None) -> None:
        super().__init__(connection=table.connection)
        self._own_key = table.table_name, task.tracker.key(task.task_id)
        self._task = task
        self._commit_actions = commit
        self._promise = promise
        self._is_committed = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless an error leaves."""
        try:
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # PynamoDB's
        except BaseException as refused:
            self._break(refused)
            raise
        if error is not None:
            self._break(error)

    def _commit(self) -> None:
        if self._is_committed:
            raise RuntimeError(f"this transaction of {self._named} is committed: call ctx.transaction() for another")
        self._commit_actions(self._checked(list(self._actions())))
        self._is_committed = True
        for model in self._models_for_version_attribute_update:
            model.update_local_version_attribute()

    def _break(self, error: BaseException) -> None:
        if self._promise is not None:
            self._promise.broken_by = error

    def _actions(self) -> Iterator[dict[str, Any]]:
        """Yield what is to be written, in the order in which PynamoDB sends it."""
        yield from ({"ConditionCheck": check} for check in self._condition_check_items)
        yield from ({"Delete": delete} for delete in self._delete_items)
        yield from ({"Put": put} for put in self._put_items)
        yield from ({"Update": update} for update in self._update_items)

    def _checked(self, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(actions) >= _MOST_ACTIONS:
            raise ValueError(
                f"the transaction of {self._named} has {len(actions)} actions: it takes {_MOST_ACTIONS - 1}, and one "
                "of the task itself"
            )
        _, own = self._own_key
        for action in actions:
            ((_, request),) = action.items()
            key = request.get("Key") or {name: request["Item"].get(name) for name in own}
            if (request["TableName"], key) == self._own_key:
                raise ValueError(
                    f"the transaction of {self._named} writes the row of the task itself, and DynamoDB takes one "
                    "action on a row: assign to ctx.task instead, which is saved with the success, and by ctx.save()"
                )
        return actions

    @property
    def _named(self) -> str:
        return f"{type(self._task).__name__} {self._task.task_id!r}"
