"""TransactWriteItems: several writes that are applied together or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker.dynamodb.backoff import jittered_pause
from pynamodb_tracker.dynamodb.connection import TRIES, connection_until, latest_answer, slept_before
from pynamodb_tracker.dynamodb.error_codes import is_in_progress, is_temporary, is_unheard, was_repeated

REFUSED = "ConditionalCheckFailed"
"""Why DynamoDB cancels a transaction: the condition of a write did not hold."""
CONFLICT = "TransactionConflict"
"""Why DynamoDB cancels a transaction: another write was on one of its items."""


class Deadline(Protocol):
    """The lock that a transaction is about; a heartbeat may extend it meanwhile."""

    @property
    def expire_time(self) -> datetime:
        """When it expires, as known by now."""
        ...


class Unapplied:
    """A transaction that was not applied, as far as its last answer says."""

    __slots__ = ("error", "refused", "unheard")  # no dataclass: building one takes time at every cold start

    def __init__(self, error: TransactWriteError, *, refused: bool, unheard: bool) -> None:
        self.error = error
        self.refused = refused
        """Whether the condition of the first write did not hold."""
        self.unheard = unheard
        """Whether one of the tries got no answer: it may have been applied, or may be applied later."""


def transact_write(
    table: TableConnection,
    writes: Sequence[Mapping[str, Any]],
    *,
    lock: Deadline | None = None,
    until: datetime | None = None,
) -> Unapplied | None:
    """Send a transaction; retry it while its failure is temporary. Return None once it is applied.

    With a `lock` it is retried until that expires, otherwise six times or until `until`, and not after the time of
    `ending_by`. All tries carry the same token, so that one whose answer got lost is not applied twice within ten
    minutes:
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    request = {"TransactItems": list(writes), "ClientRequestToken": os.urandom(16).hex()}
    unheard, retries = False, 0
    while True:
        end = latest_answer(until if lock is None else lock.expire_time)
        connection = table.connection if end is None else connection_until(table, end)
        try:
            connection.dispatch("TransactWriteItems", request)
        except (BotoCoreError, ClientError) as cause:
            error = TransactWriteError(f"Failed to write transaction items: {cause}", cause)
            error.__cause__ = cause
            reasons = [reason.code if reason else None for reason in error.cancellation_reasons]
            # The transaction that it conflicts with may be another copy of itself.
            conflicts = is_in_progress(error) or CONFLICT in reasons
            unheard = unheard or conflicts or is_unheard(error) or was_repeated(cause)
            refused = reasons[:1] == [REFUSED]
            may_retry = not refused and is_temporary(error) and (lock is not None or retries < TRIES - 1)
            if not (may_retry and slept_before(end, jittered_pause(retries))):
                return Unapplied(error, refused=refused, unheard=unheard)
            retries += 1
        else:
            return None
