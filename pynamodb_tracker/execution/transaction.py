"""A transaction of a run: PynamoDB's TransactWrite, which is applied only while the run holds the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from pynamodb.connection.table import TableConnection
from pynamodb.transactions import TransactWrite

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions import PendingSuccess

T = TypeVar("T", bound=TaskRow)

Commit = Callable[[list[dict[str, Any]]], None]

_MOST_ACTIONS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""


class TaskTransaction(TransactWrite, Generic[T]):
    """What `ctx.transaction` returns: the user's writes, and one of the task's own row."""

    def __init__(self, table: TableConnection, task: T, commit: Commit, pending: PendingSuccess | None) -> None:
        super().__init__(connection=table.connection)
        self._own_key = table.table_name, task.tracker.key(task.task_id)
        self._task = task
        self._commit_actions = commit
        self._pending = pending
        self._is_committed = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised."""
        try:
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # PynamoDB's
        except BaseException as refused:
            self._note_failure(refused)
            raise
        if error is not None:
            self._note_failure(error)

    def _commit(self) -> None:
        if self._is_committed:
            raise RuntimeError(
                f"this transaction of {self._named} is committed already: call ctx.transaction() for another one"
            )
        actions = list(self._actions())
        self._check(actions)
        self._commit_actions(actions)
        self._is_committed = True
        for model in self._models_for_version_attribute_update:
            model.update_local_version_attribute()

    def _note_failure(self, error: BaseException) -> None:
        if self._pending is not None:
            self._pending.error = error

    def _actions(self) -> Iterator[dict[str, Any]]:
        """Yield the actions in the order in which PynamoDB sends them."""
        yield from ({"ConditionCheck": check} for check in self._condition_check_items)
        yield from ({"Delete": delete} for delete in self._delete_items)
        yield from ({"Put": put} for put in self._put_items)
        yield from ({"Update": update} for update in self._update_items)

    def _check(self, actions: list[dict[str, Any]]) -> None:
        """Refuse too many actions, and one on the row of the task itself."""
        if len(actions) >= _MOST_ACTIONS:
            raise ValueError(
                f"the transaction of {self._named} has {len(actions)} actions: it takes {_MOST_ACTIONS - 1}, "
                "because one more is on the task itself"
            )
        _, own = self._own_key
        for action in actions:
            ((_, request),) = action.items()
            key = request.get("Key") or {name: request["Item"].get(name) for name in own}
            if (request["TableName"], key) == self._own_key:
                raise ValueError(
                    f"the transaction of {self._named} writes the row of the task itself, and DynamoDB allows one "
                    "action per row: assign to ctx.task instead, which is saved with the success, or by ctx.save()"
                )

    @property
    def _named(self) -> str:
        return f"{type(self._task).__name__} {self._task.task_id!r}"
