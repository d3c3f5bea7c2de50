"""The connection of a table: one botocore client for all use cases on it, and errors that tell a refusal apart."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import botocore.client
import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import DeleteError, GetError, PutError, PynamoDBConnectionError, PynamoDBException, UpdateError

from pynamodb_tracker import clock

__all__ = [
    "Refused",
    "SharedConnection",
    "backoff",
    "in_time",
    "is_invalid",
    "is_passing",
    "is_unheard",
    "send",
    "was_repeated",
]

_ERRORS: dict[str, tuple[type[PynamoDBConnectionError], str]] = {
    "UpdateItem": (UpdateError, "Failed to update item"),
    "PutItem": (PutError, "Failed to put item"),
    "GetItem": (GetError, "Failed to get item"),
    "DeleteItem": (DeleteError, "Failed to delete item"),
}

_TRIES = 6
"""How often a request is sent whose failure passes; each time the SDK tries as often as the user set it."""

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

_SHORTEST = 0.5
"""Seconds below which no timeout is cut: also a finish after the end of its lock is worth an honest try."""

_TRIES_OF_SDK = {"legacy": 10, "standard": 4, "adaptive": 4}
"""How often the SDK sends a request to DynamoDB in each retry mode, where nobody set a number."""


class SharedConnection(Connection):
    """PynamoDB's connection, whose client is built once however many threads ask for it first.

    Timeouts are a client's own, so what is sent shortly before the end of a lock goes by a hurried connection: one with
    the same settings, retries included, and shorter timeouts. Its client is built when it is first needed.
    """

    def __init__(self, *, like: SharedConnection | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.building: threading.RLock = like.building if like else threading.RLock()
        self._settings = settings
        self._session: botocore.session.Session | None = like.session if like else None
        self._measured: tuple[float, list[tuple[float, SharedConnection]]] | None = None

    @property
    def session(self) -> botocore.session.Session:
        """Return the session of all clients of the table: with it, a further client takes 3 ms instead of 70."""
        with self.building:
            if self._session is None:
                self._session = super().session
            return self._session

    @property
    def client(self) -> botocore.client.BaseClient:
        """Return the one botocore client of the table, or of those requests that are in the same hurry."""
        with self.building:
            return super().client

    def within(self, seconds: float) -> SharedConnection:
        """Return the connection by which a request has its answer or none in that time, the SDK's tries included.

        It is this one while there is time, and the quickest where there is too little for any.
        """
        longest, hurried = self._measured or self._measure()
        if seconds >= longest or not hurried:
            return self
        return next((quick for longest, quick in hurried if seconds >= longest), hurried[-1][1])

    def _measure(self) -> tuple[float, list[tuple[float, SharedConnection]]]:
        """Find out how long a request can take; halve the timeouts as often as that leaves an honest try."""
        with self.building:
            if self._measured is not None:
                return self._measured
            config = self.client.meta.config
            tries = config.retries.get("total_max_attempts") or _TRIES_OF_SDK[config.retries["mode"]]
            connect, read, hurried = config.connect_timeout, config.read_timeout, []
            longest = tries * (connect + read)
            while max(connect, read) >= 2 * _SHORTEST:
                connect, read = (min(each, max(each / 2, _SHORTEST)) for each in (connect, read))
                timeouts = {"connect_timeout_seconds": connect, "read_timeout_seconds": read}
                hurried.append((tries * (connect + read), type(self)(like=self, **{**self._settings, **timeouts})))
            self._measured = longest, hurried
            return self._measured


class Refused(Exception):  # noqa: N818 - not an error: the answer of a condition, read by transitions alone
    """The condition of a write did not hold; `repeated` where the request was sent more than once, by the SDK or us."""

    def __init__(self, *, repeated: bool) -> None:
        super().__init__()
        self.repeated = repeated


def send(
    table: TableConnection, operation: str, request: Mapping[str, Any], *, until: datetime | None = None
) -> dict[str, Any]:
    """Send a request by PynamoDB's connection; raise Refused, or PynamoDB's error of that operation.

    `until` is when its answer becomes worthless: the end of the lock that it is about. What passes is tried again, with
    full jitter: throttling, the server's own faults, and a TransactionConflict, where a write meets a transaction on
    the same row, which says nothing about the condition
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html).
    """
    pauses, repeated = backoff(tries=_TRIES), False
    while True:
        try:
            return in_time(table, until).dispatch(operation, {"TableName": table.table_name, **request})
        except (BotoCoreError, ClientError) as error:
            repeated = repeated or was_repeated(error)
            if _code(error) == "ConditionalCheckFailedException":
                raise Refused(repeated=repeated) from None
            if not (_is_answer_that_passes(error) and _waited(pauses, until)):
                kind, message = _ERRORS[operation]
                raise kind(f"{message}: {error}", error) from error
            repeated = repeated or _status(error) >= _SERVER_ERROR  # the one that failed may have been applied


def in_time(table: TableConnection, until: datetime | None) -> Connection:
    """Return the connection by which a request is over at that time, or soon after."""
    connection = table.connection
    if until is None or not isinstance(connection, SharedConnection):
        return connection
    return connection.within(clock.seconds_until(until))


def _waited(pauses: Iterator[float | None], until: datetime | None) -> bool:
    """Wait for the next try, and tell whether there is one: none after the last pause, and none after `until`."""
    pause = next(pauses)
    if pause is None or (until is not None and clock.now() + timedelta(seconds=pause) >= until):
        return False
    clock.sleep(pause)
    return True


def backoff(*, tries: int | None = None, base: float = 0.05, longest: float = 5.0) -> Iterator[float | None]:
    """Yield the pause before each next try in seconds, with full jitter; None where no further try is allowed."""
    number = 0
    while tries is None or number < tries - 1:
        yield random.uniform(0, min(longest, base * 2 ** min(number, 30)))  # noqa: S311 - spreads load, guards nothing
        number += 1
    yield None


def is_passing(error: PynamoDBException) -> bool:
    """Tell whether the same request may well succeed later: throttled, no answer, or the server's own fault."""
    return _is_answer_that_passes(error.cause) or _is_of_network(error.cause)


def is_unheard(error: PynamoDBException) -> bool:
    """Tell whether the request may have been applied though no answer says so."""
    cause = error.cause
    return _is_of_network(cause) or (isinstance(cause, ClientError) and _status(cause) >= _SERVER_ERROR)


def is_invalid(error: PynamoDBConnectionError) -> bool:
    """Tell whether DynamoDB refused the values themselves."""
    return error.cause is not None and _code(error.cause) == "ValidationException"


def _is_answer_that_passes(error: Exception | None) -> bool:
    """Tell whether the server answered that it cannot do it now."""
    return isinstance(error, ClientError) and (_code(error) in _PASSING or _status(error) >= _SERVER_ERROR)


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
