"""Several writes that are applied together or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.dynamodb.error_codes import is_passing, is_under_way, is_unheard, was_repeated
from pynamodb_tracker.dynamodb.transport import in_time

__all__ = ["Unapplied", "write_together"]

_TRIES = 6
_REFUSED = "ConditionalCheckFailed"
_CONFLICT = "TransactionConflict"
_PASSING = {_CONFLICT, "ThrottlingError", "ProvisionedThroughputExceeded"}


class Unapplied:
    """A transaction that was not applied, as far as its last answer says."""

    __slots__ = ("error", "refused", "unheard")  # no dataclass: a cold start would pay for the making of it

    def __init__(self, error: TransactWriteError, *, refused: bool, unheard: bool) -> None:
        self.error = error
        """PynamoDB's own error."""
        self.refused = refused
        """Whether the condition of the first write did not hold."""
        self.unheard = unheard
        """Whether a try got no answer: that one may have been applied, or may be yet."""


def write_together(
    table: TableConnection, writes: Sequence[Mapping[str, Any]], *, until: Callable[[], datetime] | None = None
) -> Unapplied | None:
    """Send a transaction, again while it fails for a reason that passes; return None once it is applied.

    With `until`, which tells the end of the lock that it is about, it is tried until then. The same token goes with
    each try, so that one whose answer got lost is not applied twice within ten minutes:
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    request = {"TransactItems": list(writes), "ClientRequestToken": secrets.token_hex(16)}
    unheard = False
    for pause in backoff(tries=_TRIES if until is None else None):
        try:
            in_time(table, until and until()).dispatch("TransactWriteItems", request)
        except (BotoCoreError, ClientError) as cause:
            error = TransactWriteError(f"Failed to write transaction items: {cause}", cause)
            error.__cause__ = cause
            reasons = [reason.code if reason else None for reason in error.cancellation_reasons]
            # What it conflicts with may be another copy of itself.
            conflicts = is_under_way(error) or _CONFLICT in reasons
            unheard = unheard or conflicts or is_unheard(error) or was_repeated(cause)
            refused = reasons[:1] == [_REFUSED]
            passes = is_passing(error) or (_PASSING.intersection(reasons) and _REFUSED not in reasons)
            if refused or not passes or pause is None or _is_over(until, pause):
                return Unapplied(error, refused=refused, unheard=unheard)
            clock.sleep(pause)
        else:
            return None
    raise AssertionError("the last try returns")


def _is_over(until: Callable[[], datetime] | None, pause: float) -> bool:
    return until is not None and clock.now() + timedelta(seconds=pause) >= until()
