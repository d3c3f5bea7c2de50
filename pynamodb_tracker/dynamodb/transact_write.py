"""TransactWriteItems: several writes that are applied together or not at all."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker.dynamodb.connection import connection_until
from pynamodb_tracker.dynamodb.error_codes import is_conflict, is_denied, is_proof, is_temporary, note_lost
from pynamodb_tracker.dynamodb.retries import Tries, end_of_request

REFUSED = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"  # another write was using one of the items


class Unconfirmed:
    """A transaction that was refused or got no response."""

    __slots__ = ("error", "in_doubt", "is_temporary", "refused")  # building a dataclass takes time

    def __init__(self, error: TransactWriteError, *, refused: bool, in_doubt: bool, is_temporary: bool) -> None:
        self.error = error
        self.refused = refused  # the first write's condition failed
        self.in_doubt = in_doubt  # it may have been applied, or may still be
        self.is_temporary = is_temporary  # more time might have helped


def transact_write(
    table: TableConnection,
    writes: Sequence[Mapping[str, Any]],
    *,
    until: datetime | None = None,
    theirs: Sequence[Mapping[str, Any]] = (),
) -> Unconfirmed | None:
    """Send a transaction, with the same retries as `send`. Return None if it was applied.

    A policy may deny `theirs`: the user's writes, or optional ones. All tries share a token, so after a lost response,
    DynamoDB does not apply it twice within ten minutes:
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    request = {"TransactItems": list(writes), "ClientRequestToken": os.urandom(16).hex()}
    tries, in_doubt = Tries(until), False
    while True:
        try:
            connection_until(table, end_of_request(until)).dispatch("TransactWriteItems", request)
        except (BotoCoreError, ClientError) as cause:
            error = TransactWriteError(f"Failed to write transaction items: {cause}", cause)
            error.__cause__ = cause
            refused = [reason.code if reason else None for reason in error.cancellation_reasons][:1] == [REFUSED]
            in_doubt |= is_conflict(cause)  # perhaps with its own earlier copy
            is_final = is_proof(cause) or is_denied(cause, theirs, [write for write in writes if write not in theirs])
            if not tries.failed(cause, is_temporary=is_temporary(error) and not refused, is_final=is_final):
                note_lost(cause, is_lost=tries.is_lost)
                in_doubt |= tries.is_lost
                return Unconfirmed(error, refused=refused, in_doubt=in_doubt, is_temporary=tries.is_temporary)
        else:
            return None
