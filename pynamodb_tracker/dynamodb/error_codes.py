"""What a failed request means: it is temporary, may have been applied, has invalid values, or settings are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
)
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

_OF_ANOTHER_SCHEMA = (
    "does not have the specified index",
    "Invalid index",  # as moto says it
    "backfilling",  # the index is being created
    "key element does not match the schema",
    "Missing the key",
    "Type mismatch for key",
    "Type mismatch for Index Key",
    "Query condition missed key schema element",
    "number of query conditions",  # more than the index has key attributes
    "Condition parameter type does not match schema type",
    "does not project",  # an attribute of a filter
    "required keys was not given",  # as DynamoDB Local says it
)
"""Parts of DynamoDB's messages about keys and indexes that the table does not have."""


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


def is_of_another_schema(error: ClientError) -> bool:
    """Return whether the server answered that the table lacks a key or an index of the request."""
    answer = error.response.get("Error", {})
    is_about_tables = answer.get("Code") in ("ValidationException", "ResourceNotFoundException")  # the latter by moto
    return is_about_tables and any(part in str(answer.get("Message")) for part in _OF_ANOTHER_SCHEMA)


def is_condition_failure(error: Exception) -> bool:
    """Return whether the condition of a write did not hold."""
    return code_of(error) == "ConditionalCheckFailedException"


def item_met(error: Exception) -> dict[str, Any] | None:
    """Return the item that failed the condition, if the request asked for it and the engine returns it."""
    return response_of(error).get("Item") or None


def is_server_error(error: Exception) -> bool:
    """Return whether the server failed, perhaps after it had applied the request."""
    return _metadata(error, "HTTPStatusCode") >= _SERVER_ERROR


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


def was_repeated(error: Exception) -> bool:
    """Return whether the SDK sent the request more than once, so that an earlier copy may have been applied."""
    return _metadata(error, "RetryAttempts") > 0


def _metadata(error: Exception, name: str) -> int:
    return int(response_of(error).get("ResponseMetadata", {}).get(name, 0))


def advise(error: BotoCoreError | ClientError, where: str) -> bool:
    """Add to the message of an error what to do, and which table it is about; False if settings did not cause it.

    The error keeps its type: programs catch it by that, and retries are decided by it.
    """
    if isinstance(error, ClientError):
        return _advise_on_answer(error, where)
    if isinstance(error, NoRegionError):
        text = "no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION"
    elif isinstance(error, NoCredentialsError):
        text = "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    elif isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        text = f"cannot connect{_reason(error)}: check host and region in its Meta, AWS_ENDPOINT_URL, and the network"
    else:
        return False
    error.args = (f"{where}: {text}",)
    return True


def _advise_on_answer(error: ClientError, where: str) -> bool:
    if not is_of_another_schema(error):
        return False
    answer = error.response["Error"]
    text = f"{where} is not as its class declares it: pynamodb-tracker doctor says what differs, and what to do"
    answer["Message"] = f"{answer['Message']}; {text}"
    error.args = (f"{error}; {text}",)
    return True


def _reason(error: BaseException) -> str:
    """Return why a connection failed in the words of the operating system, if it did not just take too long."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f" ({cause.strerror})"
        cause = cause.__cause__ or cause.__context__
    return ""
