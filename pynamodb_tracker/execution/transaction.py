"""A transaction of a run: PynamoDB's TransactWrite, which only applies while the run holds the task."""

from __future__ import annotations

from collections.abc import Callable
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
    """The transaction of `ctx.transaction`: the user's writes, and one to the task's row."""

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
        actions = [  # in the order of PynamoDB
            *({"ConditionCheck": check} for check in self._condition_check_items),
            *({"Delete": delete} for delete in self._delete_items),
            *({"Put": put} for put in self._put_items),
            *({"Update": update} for update in self._update_items),
        ]
        self._check(actions)
        self._commit_actions(actions)
        self._is_committed = True
        for model in self._models_for_version_attribute_update:
            model.update_local_version_attribute()

    def _note_failure(self, error: BaseException) -> None:
        if self._pending is not None:
            self._pending.error = error

    def _check(self, actions: list[dict[str, Any]]) -> None:
        """Refuse too many actions, and any action on the task's own row."""
        if len(actions) >= _MOST_ACTIONS:
            raise ValueError(
                f"the transaction of {self._named} has {len(actions)} actions: it takes {_MOST_ACTIONS - 1}, "
                "because one more is on the task itself"
            )
        for action in actions:
            (request,) = action.values()
            key = request.get("Key") or {name: request["Item"].get(name) for name in self._own_key[1]}
            if (request["TableName"], key) == self._own_key:
                raise ValueError(
                    f"the transaction of {self._named} writes the row of the task itself, and DynamoDB allows one "
                    "action per row: assign to ctx.task instead, which is saved with the success, or by ctx.save()"
                )

    @property
    def _named(self) -> str:
        return f"{type(self._task).__name__} {self._task.task_id!r}"
