"""What is left to be done, and to be told, when a block has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException

from pynamodb_tracker import transitions
from pynamodb_tracker.exceptions import LockLostError, TrackerError, ValueNotStorableError
from pynamodb_tracker.model.row import TaskRow, changes_of

__all__ = ["broken", "check_after_success", "insist", "note", "recorded"]

log = logging.getLogger("pynamodb_tracker")


def insist(write: Callable[[], None]) -> None:
    """Write how the run ended, once more where an order to end, such as Ctrl-C, cut it short: that leaves then."""
    try:
        write()
    except Exception:
        raise
    except BaseException as interrupt:
        try:
            write()
        except (PynamoDBException, TrackerError) as unrecorded:
            note(interrupt, f"pynamodb_tracker could not record how the block ended: {unrecorded}")
        raise


def recorded(error: BaseException, write: Callable[[], None]) -> bool:
    """Write how the run ended, and tell whether that is on record; where it is not, the error carries a note."""
    try:
        insist(write)
    except (LockLostError, PynamoDBConnectionError) as unrecorded:
        note(error, f"pynamodb_tracker could not record this: {unrecorded}")
        return False
    return True


def note(error: BaseException, told: str) -> None:
    """Let the user's exception carry a note; one that takes none, a frozen dataclass say, leaves as it is."""
    try:
        error.add_note(told)
    except Exception:
        log.exception("%s takes no note: %s", type(error).__name__, told)


def broken(promise: transitions.Promise, task: TaskRow, step: str) -> Exception:
    """Return why a block that ended well has failed: what it caught of its transaction, or that it left that out."""
    told = (
        f"ctx.transaction(succeed=True) of {step} of {type(task).__name__} {task.task_id!r} was not committed, so this "
        "attempt has failed"
    )
    reason, promise.broken_by = promise.broken_by, None
    if isinstance(reason, Exception):
        note(reason, f"pynamodb_tracker: {told}")
        return reason
    error = TrackerError(f"{told}: use it in a with statement, and let that end")
    error.__cause__ = reason
    return error


def check_after_success(task: TaskRow, step: str, error: BaseException | None) -> None:
    """Say what came too late to be recorded: a transaction had recorded the success by then."""
    named = f"{step} of {type(task).__name__} {task.task_id!r}"
    if error is not None:
        note(error, f"pynamodb_tracker: a transaction had recorded the success of {named} by then, and that stands")
        log.error(
            "the block of %s raised after its success was recorded: %r",
            named,
            error,
            extra={"task_id": task.task_id, "step": step},
        )
        return
    try:
        late = list(changes_of(task))
    except ValueNotStorableError as unstorable:
        late = [unstorable.attribute]
    if late:
        log.error("%s of %s changed after its success was recorded, and that is not saved", ", ".join(late), named)
        raise AttributeError(
            f"{', '.join(late)} of {named} changed after a transaction had recorded the success; that is not saved: "
            "change it before the transaction is committed",
            name=late[0],
            obj=task,
        )
