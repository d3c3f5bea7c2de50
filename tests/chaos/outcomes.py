"""What the library's error says about a run: refused, lost, without a response, or one that must not occur."""

from collections.abc import Iterator

from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.exceptions import CredentialRetrievalError, HTTPClientError
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TaskNotStartableError
from pynamodb_tracker.dynamodb.error_codes import UnexpectedSdkError
from tests.chaos.faults import CODES

UNRECORDED = "could not record"
"""Its note on a block's exception that it could not record."""
UNSURE = "may have been applied"
"""Its note on a transaction error that leaves open whether it was applied."""
KEPT = "had recorded the success"
"""Its note on an error from a block with a success that a transaction has recorded."""
LOCKED = ("may still be locked", UNRECORDED)
"""Its note on the error of a claim or an early release that may leave the task locked."""
SLOW = "responses take longer than lock_for"
"""Its text if the lock keeps expiring before the block."""
CANCELLED = "TransactionCanceledException"
PASSING = {"TransactionConflict", "ThrottlingError"}
"""Why a transaction may be cancelled here. A lost lock is another error, and the ledger has no conditions."""
OWN_FAULT = "InternalFailure"
"""dynoxide's name for its own faults."""


class Boom(Exception):  # noqa: N818 - what users raise has any name
    pass


def outcome(error: BaseException) -> str:
    """Return the history's word: ok if the block's own error left, crash for an impossible error."""
    match error:
        case TaskNotStartableError() if SLOW in str(error):
            return "unknown"  # it was claimed, and released unless that failed, too
        case TaskNotStartableError():
            return "refused"
        case LockLostError():
            return "lost"
        case PynamoDBConnectionError() | TransactWriteError() if is_of_the_network(error):
            return "unknown"
        case Boom() | GiveUp() | RetryLater() | KeyboardInterrupt() | SystemExit():
            return "unknown" if _notes(error, UNRECORDED) else "ok"
        case _:
            return "crash"


def of_write(what: str, error: Exception) -> str:
    """Return the history's word for a failed write in a block, or nothing for a transaction that does not say so."""
    if _notes(error, UNSURE):
        return "unknown"
    if isinstance(error, LockLostError):
        return "lost"
    return "none" if what == "commit" else "unknown"


def end_after(error: PynamoDBException) -> tuple[str, str]:
    """Return how a run with a transactional end has ended, and its outcome, according to the error."""
    if _notes(error, KEPT):
        return "succeed", "ok"
    if not _notes(error, UNRECORDED):
        return "fail", "ok"
    return "succeed" if _notes(error, UNSURE) else "fail", "unknown"


def end_of_interrupted(error: BaseException, what: str, *, logged: bool) -> tuple[str, str]:
    """Return how an interrupted run has ended, and its outcome."""
    if _notes(error, KEPT):
        return "succeed", "ok"
    return what, "unknown" if logged or _notes(error, UNRECORDED) else "ok"


def claim_of_cancelled(error: BaseException) -> tuple[str, bool]:
    """Return the outcome of a cancelled claim, and whether the errors say that the task may be locked."""
    came_upon = error.__cause__
    if came_upon is None:
        return "unknown", is_announced(error)
    came = outcome(came_upon)
    return ("refused" if came == "refused" else "unknown"), is_announced(error) or is_announced(came_upon)


def end_of_cancelled(
    error: BaseException, what: str, unbooked: PynamoDBException | None = None, *, booking: bool = False
) -> tuple[str, str]:
    """Return how a cancelled run has ended, and its outcome, according to the cancel.

    With `booking`, the cancel interrupted the transaction of a success, and not one of progress. If its error,
    `unbooked`, had left the block before, the cancel did not change the end.
    """
    if unbooked is not None:
        return end_after(unbooked)
    came_upon = error.__cause__
    if _notes(error, KEPT):
        return "succeed", "ok"
    if isinstance(came_upon, LockLostError):
        return what, "lost"
    if not _notes(error, UNRECORDED) and (came_upon is None or what == "release"):
        return what, "ok"
    is_unsure = _notes(error, UNSURE) or (booking and came_upon is not None and _notes(came_upon, UNSURE))
    return "succeed" if is_unsure else what, "unknown"


def is_announced(error: BaseException) -> bool:
    """Return whether a claim's error says that the task may be locked without a worker."""
    return any(_notes(error, told) for told in LOCKED)


def is_of_the_network(error: PynamoDBException) -> bool:
    """Return whether network faults here can cause it. They cannot cause errors about a wrong request."""
    if isinstance(error.cause, HTTPClientError | NoConnectionError | CredentialRetrievalError | UnexpectedSdkError):
        return True
    if error.cause_response_code == CANCELLED:
        reasons = getattr(error.cause, "cancellation_reasons", ())
        return PASSING.issuperset(reason.code for reason in reasons if reason)
    return error.cause_response_code in {OWN_FAULT, *CODES}


def notes_of(error: BaseException | None) -> Iterator[str]:
    """Yield the notes on an exception and its predecessors."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__


def _notes(error: BaseException, told: str) -> bool:
    return any(told in note for note in getattr(error, "__notes__", ()))
