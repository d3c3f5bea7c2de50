"""TransactWriteItems: several writes that are applied together or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker.dynamodb.connection import connection_until
from pynamodb_tracker.dynamodb.error_codes import is_conflict, is_denied, is_proof, is_temporary, note_lost
from pynamodb_tracker.dynamodb.retries import Tries, check_time, latest_response

REFUSED = "ConditionalCheckFailed"
"""Why DynamoDB cancels a transaction: the condition of a write did not hold."""
CONFLICT = "TransactionConflict"
"""Why DynamoDB cancels a transaction: another write was on one of its items."""


class Unapplied:
    """A transaction that was not applied, as far as its last response says."""

    __slots__ = ("error", "is_temporary", "refused", "unheard")  # no dataclass: building one takes time at a cold start

    def __init__(self, error: TransactWriteError, *, refused: bool, unheard: bool, is_temporary: bool) -> None:
        self.error = error
        self.refused = refused
        """Whether the condition of the first write did not hold."""
        self.unheard = unheard
        """Whether one of the tries got no response: it may have been applied, or may be applied later."""
        self.is_temporary = is_temporary
        """Whether it might still have been applied, if there had been more time for it."""


def transact_write(
    table: TableConnection,
    writes: Sequence[Mapping[str, Any]],
    *,
    until: datetime | None = None,
    theirs: Sequence[Mapping[str, Any]] = (),
) -> Unapplied | None:
    """Send a transaction; retry it as `send` does. Return None once it is applied.

    `theirs` are those of the writes that a policy may deny although it allows the others: of the user, or optional.
    All tries carry the same token, so that one whose response got lost is not applied twice within ten minutes:
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    request = {"TransactItems": list(writes), "ClientRequestToken": os.urandom(16).hex()}
    tries, unheard = Tries(until), False
    while True:
        end = latest_response(until)
        connection = table.connection if end is None else connection_until(table, end)
        try:
            check_time()
            connection.dispatch("TransactWriteItems", request)
        except (BotoCoreError, ClientError) as cause:
            error = TransactWriteError(f"Failed to write transaction items: {cause}", cause)
            error.__cause__ = cause
            refused = [reason.code if reason else None for reason in error.cancellation_reasons][:1] == [REFUSED]
            unheard = unheard or is_conflict(cause)  # the one that it conflicts with may be another copy of itself
            own = [write for write in writes if write not in theirs]
            is_final = is_proof(cause) or is_denied(cause, theirs, own)
            if not tries.failed(cause, is_temporary=is_temporary(error) and not refused, is_final=is_final):
                note_lost(cause, is_lost=tries.is_lost)
                unheard = unheard or tries.is_lost
                return Unapplied(error, refused=refused, unheard=unheard, is_temporary=tries.is_temporary)
        else:
            return None
