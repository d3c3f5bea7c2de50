"""The connection of a table: one botocore client for all use cases on it, and errors that tell a refusal apart."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.client
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import DeleteError, GetError, PutError, PynamoDBConnectionError, UpdateError

from pynamodb_tracker import clock

__all__ = ["Refused", "SharedConnection", "backoff", "is_invalid", "is_passing", "send"]

_ERRORS: dict[str, tuple[type[PynamoDBConnectionError], str]] = {
    "UpdateItem": (UpdateError, "Failed to update item"),
    "PutItem": (PutError, "Failed to put item"),
    "GetItem": (GetError, "Failed to get item"),
    "DeleteItem": (DeleteError, "Failed to delete item"),
}

_CONFLICT = "TransactionConflictException"
_CONFLICT_TRIES = 6

_PASSING = {
    _CONFLICT,
    "InternalServerError",
    "InternalServerErrorException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TransactionInProgressException",
}


class SharedConnection(Connection):
    """PynamoDB's connection, whose client is built once however many threads ask for it first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._building = threading.RLock()

    @property
    def client(self) -> botocore.client.BaseClient:
        """Return the one botocore client of the table."""
        with self._building:
            return super().client


class Refused(Exception):  # noqa: N818 - not an error: the answer of a condition, read by transitions alone
    """The condition of a write did not hold; `repeated` where the SDK sent the request more than once."""

    def __init__(self, *, repeated: bool) -> None:
        super().__init__()
        self.repeated = repeated


def send(table: TableConnection, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request by PynamoDB's connection; raise Refused, or PynamoDB's error of that operation.

    A TransactionConflict, where a write meets a transaction on the same row, is tried again: it says nothing about
    the condition (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html).
    """
    for pause in backoff(tries=_CONFLICT_TRIES):
        try:
            return table.connection.dispatch(operation, {"TableName": table.table_name, **request})
        except (BotoCoreError, ClientError) as error:
            code = _code(error)
            if code == "ConditionalCheckFailedException":
                raise Refused(repeated=_attempts(error) > 0) from None
            if code == _CONFLICT and pause is not None:
                clock.sleep(pause)
                continue
            kind, message = _ERRORS[operation]
            raise kind(f"{message}: {error}", error) from error
    raise AssertionError("the last try returns or raises")


def backoff(*, tries: int | None = None, base: float = 0.05, longest: float = 5.0) -> Iterator[float | None]:
    """Yield the pause before each next try in seconds, with full jitter; None where no further try is allowed."""
    number = 0
    while tries is None or number < tries - 1:
        yield random.uniform(0, min(longest, base * 2**number))  # noqa: S311 - spreads load, guards nothing
        number += 1
    yield None


def is_passing(error: PynamoDBConnectionError) -> bool:
    """Tell whether the same request may well succeed later: throttled, no answer, or the server's own fault."""
    cause = error.cause
    if isinstance(cause, ClientError):
        return _code(cause) in _PASSING or _status(cause) >= 500  # noqa: PLR2004 - HTTP's class of server errors
    return isinstance(cause, HTTPClientError | NoConnectionError)


def is_invalid(error: PynamoDBConnectionError) -> bool:
    """Tell whether DynamoDB refused the values themselves."""
    return error.cause is not None and _code(error.cause) == "ValidationException"


def _response(error: Exception) -> Mapping[str, Any]:
    """Return botocore's own answer: PynamoDB's error keeps the code of it only, and the original as its cause."""
    original = error.__cause__ if isinstance(error.__cause__, ClientError) else error
    return getattr(original, "response", None) or {}  # of a broken connection, botocore's error has None


def _code(error: Exception) -> str:
    return str(_response(error).get("Error", {}).get("Code"))


def _status(error: Exception) -> int:
    return int(_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _attempts(error: Exception) -> int:
    return int(_response(error).get("ResponseMetadata", {}).get("RetryAttempts", 0))
