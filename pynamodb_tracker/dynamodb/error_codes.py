"""What a failed request means: whether it passes, whether it may have been applied, whether its values are to blame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError
from pynamodb.exceptions import PynamoDBException

__all__ = [
    "is_answer_that_passes",
    "is_invalid",
    "is_passing",
    "is_refusal",
    "is_server_error",
    "is_under_way",
    "is_unheard",
    "item_met",
    "was_repeated",
]

_SERVER_ERROR = 500
"""HTTP's class of errors that are the server's own fault."""

_PASSING = {
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


def is_passing(error: PynamoDBException) -> bool:
    """Tell whether the same request may well succeed later: throttled, no answer, or the server's own fault."""
    return is_answer_that_passes(error.cause) or _is_of_network(error.cause)


def is_under_way(error: PynamoDBException) -> bool:
    """Tell whether a transaction was refused because one with its token is being carried out."""
    return error.cause is not None and _code(error.cause) == "TransactionInProgressException"


def is_unheard(error: PynamoDBException) -> bool:
    """Tell whether the request may have been applied though no answer says so."""
    cause = error.cause
    return _is_of_network(cause) or (isinstance(cause, ClientError) and is_server_error(cause))


def is_invalid(error: PynamoDBException) -> bool:
    """Tell whether DynamoDB refused the values themselves."""
    return error.cause is not None and _code(error.cause) == "ValidationException"


def is_refusal(error: Exception) -> bool:
    """Tell whether the condition of a write did not hold."""
    return _code(error) == "ConditionalCheckFailedException"


def item_met(error: Exception) -> dict[str, Any] | None:
    """Return the item that made a condition fail, where the request asked for it and the engine tells."""
    return _response(error).get("Item") or None


def is_server_error(error: Exception) -> bool:
    """Tell whether the server failed, after it may have carried the request out."""
    return _status(error) >= _SERVER_ERROR


def is_answer_that_passes(error: Exception | None) -> bool:
    """Tell whether the server answered that it cannot do it now."""
    return isinstance(error, ClientError) and (_code(error) in _PASSING or is_server_error(error))


def _is_of_network(error: Exception | None) -> bool:
    """Tell whether there was no answer; the SDK has tried again by then."""
    return isinstance(error, HTTPClientError | NoConnectionError)


def _response(error: Exception) -> Mapping[str, Any]:
    """Return botocore's own answer: PynamoDB's error keeps the code of it only, and the original as its cause."""
    original = error.__cause__ if isinstance(error.__cause__, ClientError) else error
    return getattr(original, "response", None) or {}  # of a broken connection, botocore's error has None


def _code(error: Exception) -> str:
    return str(_response(error).get("Error", {}).get("Code"))


def _status(error: Exception) -> int:
    return int(_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def was_repeated(error: Exception) -> bool:
    """Tell whether the SDK sent the request more than once: what it did not hear of may have been applied."""
    return int(_response(error).get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0
