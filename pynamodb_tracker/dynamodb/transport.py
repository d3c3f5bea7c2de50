"""Sending a request: again while its failure passes, and in the time that there is for its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import DeleteError, GetError, PutError, PynamoDBConnectionError, UpdateError

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.dynamodb.connection import SharedConnection
from pynamodb_tracker.dynamodb.error_codes import (
    is_answer_that_passes,
    is_refusal,
    is_server_error,
    item_met,
    was_repeated,
)

__all__ = ["Refused", "in_time", "insistently", "send"]

R = TypeVar("R")

_ERRORS: dict[str, tuple[type[PynamoDBConnectionError], str]] = {
    "UpdateItem": (UpdateError, "Failed to update item"),
    "PutItem": (PutError, "Failed to put item"),
    "GetItem": (GetError, "Failed to get item"),
    "DeleteItem": (DeleteError, "Failed to delete item"),
}

_TRIES = 6
"""How often a request is sent whose failure passes; each time the SDK tries as often as the user set it."""


class Refused(Exception):  # noqa: N818 - not an error: the answer of a condition, read by transitions alone
    """The condition of a write did not hold.

    `repeated` where the request was sent more than once, by the SDK or us; `item` is what it met, where it asked.
    """

    def __init__(self, *, repeated: bool, item: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.repeated = repeated
        self.item = item


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
            if is_refusal(error):
                raise Refused(repeated=repeated, item=item_met(error)) from None
            if not (is_answer_that_passes(error) and _waited(pauses, until)):
                kind, message = _ERRORS[operation]
                raise kind(f"{message}: {error}", error) from error
            repeated = repeated or is_server_error(error)  # the one that failed may have been applied


def insistently(read: Callable[[], R]) -> R:
    """Read by PynamoDB's connection, and again where the engine could not do it."""
    for pause in backoff(tries=_TRIES):
        try:
            return read()
        except PynamoDBConnectionError as error:
            if pause is None or not is_answer_that_passes(error.cause):
                raise
            clock.sleep(pause)
    raise AssertionError("the last try returns or raises")


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
