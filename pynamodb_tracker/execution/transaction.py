"""The transaction of a run: PynamoDB's TransactWrite, applied only while the run holds the task."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic

from pynamodb.connection.table import TableConnection
from pynamodb.transactions import TransactWrite

from pynamodb_tracker.exceptions import TrackerError, ValueNotStorableError
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.model.row import T
from pynamodb_tracker.transitions import Claim, PendingSuccess

Commit = Callable[[list[dict[str, Any]]], None]
_MOST_ACTIONS = 100  # https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html


class TaskTransaction(TransactWrite, Generic[T]):
    """The user's writes, and one to the task's row."""

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
        try:
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # PynamoDB's
        except BaseException as refused:
            self._note_failure(refused)
            raise
        if error is not None:
            self._note_failure(error)

    def _commit(self) -> None:
        if self._is_committed:
            raise RuntimeError(f"this transaction of {self._named} is committed: call ctx.transaction() for a new one")
        actions = [  # in PynamoDB's order
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
        if len(actions) >= _MOST_ACTIONS:
            raise ValueError(
                f"the transaction of {self._named} has {len(actions)} actions, but it takes "
                f"{_MOST_ACTIONS - 1}, because the task itself needs one"
            )
        for action in actions:
            (request,) = action.values()
            key = request.get("Key") or {name: request["Item"].get(name) for name in self._own_key[1]}
            if (request["TableName"], key) == self._own_key:
                raise ValueError(
                    f"the transaction of {self._named} writes the task's own row, but DynamoDB allows one action per "
                    "row: assign to ctx.task instead. The success saves that, or ctx.save()"
                )

    @property
    def _named(self) -> str:
        return f"{type(self._task).__name__} {self._task.task_id!r}"


def not_committed_error(claim: Claim[T], pending: PendingSuccess) -> Exception:
    """Return the error for a block that did not commit its transaction, or caught its error."""
    message = (
        f"ctx.transaction(succeed=True) of {claim.step} of {type(claim.task).__name__} {claim.task.task_id!r} was not "
        "committed"
    )
    reason = pending.error
    if isinstance(reason, Exception):
        add_note(reason, f"pynamodb_tracker: {message}")
        return reason
    error = TrackerError(f"{message}: use it in a with statement, and let that statement end")
    error.__cause__ = reason
    return error


def check_unchanged(claim: Claim[T], named: str) -> None:
    """Raise an AttributeError if the task changed after a transaction had recorded the success."""
    try:
        late = list(changes_of(claim.task))
    except ValueNotStorableError as unstorable:
        late = [unstorable.attribute]
    if late:
        text = "%s of %s changed after its success was recorded, so the change is not saved"
        log.error(text, ", ".join(late), named, extra=claim.log_fields)
        raise AttributeError(
            f"{', '.join(late)} of {named} changed after a transaction had recorded the success, which is not saved: "
            "change it before the commit",
            name=late[0],
            obj=claim.task,
        )
