"""Several writes that are applied together or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.connection import Refused, backoff, is_passing

__all__ = ["write_together"]

_TRIES = 6
_REFUSED = "ConditionalCheckFailed"
_PASSING = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}


def write_together(
    table: TableConnection, writes: Sequence[Mapping[str, Any]], *, until: datetime | None = None
) -> None:
    """Send a transaction; raise Refused where the condition of the first write did not hold, else PynamoDB's error.

    The same token goes with each try, so that one whose answer got lost is not applied twice:
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    request = {"TransactItems": list(writes), "ClientRequestToken": secrets.token_hex(16)}
    for pause in backoff(tries=_TRIES):
        try:
            table.connection.dispatch("TransactWriteItems", request)
        except (BotoCoreError, ClientError) as cause:
            error = TransactWriteError(f"Failed to write transaction items: {cause}", cause)
            reasons = [reason.code if reason else None for reason in error.cancellation_reasons]
            if reasons and reasons[0] == _REFUSED:
                raise Refused(repeated=False) from None
            passes = is_passing(error) or (_PASSING.intersection(reasons) and _REFUSED not in reasons)
            if not passes or pause is None or (until is not None and clock.now() >= until):
                raise error from cause
            clock.sleep(pause)
        else:
            return
