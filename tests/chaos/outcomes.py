"""What an error of the library says about a run: refused, lost, without an answer, or an error that must not occur."""

from collections.abc import Iterator

from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.exceptions import CredentialRetrievalError, HTTPClientError
from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TaskNotStartableError
from pynamodb_tracker.dynamodb.error_codes import UnexpectedSdkError
from tests.chaos.faults import CODES

UNRECORDED = "could not record"
"""What the library notes on an exception of the block that it could not put on record."""
UNSURE = "may have been applied"
"""What it notes on the error of a transaction of which nobody knows whether it was applied."""
KEPT = "had recorded the success"
"""What it notes on an error that leaves a block whose success a transaction has recorded."""
LOCKED = ("may still be locked", UNRECORDED)
"""What it notes on the error of a claim, or of a release before the block, that may leave the task locked."""
SLOW = "responses take longer than lock_for"
"""What it says if the lock keeps expiring before the block."""
CANCELLED = "TransactionCanceledException"
PASSING = {"TransactionConflict", "ThrottlingError"}
"""Why a transaction may be cancelled here; that a lock is lost is another error, and the ledger has no conditions."""
OWN_FAULT = "InternalFailure"
"""What dynoxide calls a fault of its own."""


class Boom(Exception):  # noqa: N818 - what users raise has any name
    """The block failed."""


def outcome(error: BaseException) -> str:
    """Return what the history has for it: ok where the block's own error left, crash where none like it should."""
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
    """Return what the history has for a write of a block that raised: of a transaction, nothing unless it says so."""
    if _notes(error, UNSURE):
        return "unknown"
    if isinstance(error, LockLostError):
        return "lost"
    return "none" if what == "commit" else "unknown"


def end_after(error: PynamoDBException) -> tuple[str, str]:
    """Return how a run ended that its transaction was to end, and the outcome of that, by what the error tells."""
    if _notes(error, KEPT):
        return "succeed", "ok"
    if not _notes(error, UNRECORDED):
        return "fail", "ok"
    return "succeed" if _notes(error, UNSURE) else "fail", "unknown"


def end_of_interrupted(error: BaseException, what: str, *, logged: bool) -> tuple[str, str]:
    """Return how a run ended from which an exception out of nowhere left, and the outcome of that."""
    if _notes(error, KEPT):
        return "succeed", "ok"
    return what, "unknown" if logged or _notes(error, UNRECORDED) else "ok"


def claim_of_cancelled(error: BaseException) -> tuple[str, bool]:
    """Return what became of a claim that was cancelled, and whether the errors say that the task may be locked."""
    came_upon = error.__cause__
    if came_upon is None:
        return "unknown", is_announced(error)
    came = outcome(came_upon)
    return ("refused" if came == "refused" else "unknown"), is_announced(error) or is_announced(came_upon)


def end_of_cancelled(
    error: BaseException, what: str, unbooked: PynamoDBException | None = None, *, booking: bool = False
) -> tuple[str, str]:
    """Return how a run ended that was cancelled, and the outcome of that, by what the cancel tells.

    With `booking`, the request that the cancel came upon was the transaction of a success, and not of progress.
    If the error of its transaction, `unbooked`, had left the block before that, the cancel changed nothing of its end.
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
    """Return whether the error of a claim says that the task may be locked, with no worker on it."""
    return any(_notes(error, told) for told in LOCKED)


def is_of_the_network(error: PynamoDBException) -> bool:
    """Return whether faults of the network here can cause it; they cannot cause errors about a wrong request."""
    if isinstance(error.cause, HTTPClientError | NoConnectionError | CredentialRetrievalError | UnexpectedSdkError):
        return True
    if error.cause_response_code == CANCELLED:
        reasons = getattr(error.cause, "cancellation_reasons", ())
        return PASSING.issuperset(reason.code for reason in reasons if reason)
    return error.cause_response_code in {OWN_FAULT, *CODES}


def notes_of(error: BaseException | None) -> Iterator[str]:
    """Yield the notes of an exception, and of those that it followed."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__


def _notes(error: BaseException, told: str) -> bool:
    return any(told in note for note in getattr(error, "__notes__", ()))
