"""What a failed request means: whether it is temporary, may have been applied, or has invalid values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError
from pynamodb.exceptions import PynamoDBException, TransactWriteError

_SERVER_ERROR = 500
"""The first of HTTP's status codes for errors of the server."""

_TEMPORARY = {
    "InternalServerError",
    "InternalServerErrorException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
}

_TEMPORARY_REASONS = {"ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"}
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""


def is_temporary(error: PynamoDBException) -> bool:
    """Return whether the same request may succeed later: it was throttled, got no answer, or met a server error.

    A transaction may also have been cancelled for a conflict, or because one of its writes was throttled.
    """
    return is_retryable_answer(error.cause) or _got_no_answer(error.cause) or _was_cancelled_for_now(error.cause)


def _was_cancelled_for_now(error: Exception | None) -> bool:
    """Return whether all reasons why a transaction was cancelled are temporary."""
    reasons = {reason.code for reason in getattr(error, "cancellation_reasons", ()) if reason is not None}
    return bool(reasons) and reasons <= _TEMPORARY_REASONS


def is_in_progress(error: PynamoDBException) -> bool:
    """Return whether a transaction was refused because one with the same token is still in progress."""
    return error.cause is not None and code_of(error.cause) == "TransactionInProgressException"


def is_unheard(error: PynamoDBException) -> bool:
    """Return whether the request may have been applied although its success was not answered."""
    cause = error.cause
    return _got_no_answer(cause) or (isinstance(cause, ClientError) and is_server_error(cause))


def is_invalid(error: PynamoDBException) -> bool:
    """Return whether DynamoDB found the values themselves invalid."""
    if isinstance(error, TransactWriteError) and any(
        reason is not None and reason.code == "ValidationError" for reason in error.cancellation_reasons
    ):
        return True
    return error.cause is not None and code_of(error.cause) == "ValidationException"


def is_missing_table(error: Exception | None) -> bool:
    """Return whether the server answered that it has no such table, or that it is not active yet.

    moto answers the same of a missing index.
    """
    if error is None or code_of(error) != "ResourceNotFoundException":
        return False
    return "Invalid index" not in str(response_of(error).get("Error", {}).get("Message"))


def is_condition_failure(error: Exception) -> bool:
    """Return whether the condition of a write did not hold."""
    return code_of(error) == "ConditionalCheckFailedException"


def item_met(error: Exception) -> dict[str, Any] | None:
    """Return the item that failed the condition, if the request asked for it and the engine returns it."""
    return response_of(error).get("Item") or None


def is_server_error(error: Exception) -> bool:
    """Return whether the server failed, perhaps after it had applied the request."""
    return _status(error) >= _SERVER_ERROR


def is_retryable_answer(error: Exception | None) -> bool:
    """Return whether the server answered that it cannot do this now."""
    return isinstance(error, ClientError) and (code_of(error) in _TEMPORARY or is_server_error(error))


def _got_no_answer(error: Exception | None) -> bool:
    """Return whether there was no answer, after all retries of the SDK."""
    return isinstance(error, HTTPClientError | NoConnectionError)


def response_of(error: Exception) -> Mapping[str, Any]:
    """Return the response in botocore's error; PynamoDB's keeps only its code, and has the original as its cause."""
    original = error.__cause__ if isinstance(error.__cause__, ClientError) else error
    return getattr(original, "response", None) or {}  # botocore's error of a broken connection has None


def code_of(error: Exception) -> str:
    """Return DynamoDB's code of the error; "None" if there was no answer."""
    return str(response_of(error).get("Error", {}).get("Code"))


def _status(error: Exception) -> int:
    return int(response_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def was_repeated(error: Exception) -> bool:
    """Return whether the SDK sent the request more than once, so that an earlier copy may have been applied."""
    return int(response_of(error).get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0
