"""What an error that leaves the library says about the run: refused, lost, without an answer, or nothing it may say."""

from __future__ import annotations

from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.exceptions import HTTPClientError
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TaskNotStartableError
from tests.chaos.faults import CODES

__all__ = ["Boom", "is_of_the_network", "outcome"]

UNRECORDED = "could not record"
"""What the library notes on an exception of the block that it could not put on record."""
OWN_FAULT = "InternalFailure"
"""What DynamoDB Local calls a fault of its own."""


class Boom(Exception):  # noqa: N818 - what users raise has any name
    """The block failed."""


def outcome(error: BaseException) -> str:
    """Return what the history has for it: ok where the block's own error left, crash where none like it should."""
    match error:
        case TaskNotStartableError():
            return "refused"
        case LockLostError():
            return "lost"
        case PynamoDBConnectionError() if is_of_the_network(error):
            return "unknown"
        case Boom() | GiveUp() | RetryLater() | KeyboardInterrupt() | SystemExit():
            return "unknown" if any(UNRECORDED in note for note in getattr(error, "__notes__", ())) else "ok"
        case _:
            return "crash"


def is_of_the_network(error: PynamoDBConnectionError) -> bool:
    """Tell whether it may come of what is done to requests here: a request that is wrong in itself may not."""
    unheard = isinstance(error.cause, HTTPClientError | NoConnectionError)
    return unheard or error.cause_response_code in {OWN_FAULT, *CODES}
