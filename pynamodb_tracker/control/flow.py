"""Counts transitions (`count_transitions=True`): how many tasks arrived, and how their runs ended, per step and hour.

Each process adds its numbers to one item per hour: after 60 transitions, or at the first one 10 minutes later. A Lambda
environment sends its first transition immediately. Numbers are approximate: counts get lost when a process ends or a
request is slow, and a repeated request counts twice.
"""

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, connection_until
from pynamodb_tracker.dynamodb.forking import PerConnection
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.overflow import GROUP_OF, RowKey, item_key, key_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.writes.lock import Journal

CREATED = "created"  # counts new tasks. Runs are counted by outcome and step number, as in `succeeded#200`
LEFT, CAME = "left", "came"  # for a success that does not lead to the next step, counts with both step numbers
TOOK = "took"  # counts a step's successes by duration. The suffix is the first bound that is not less
BOUNDS = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600)  # seconds. They separate 12 buckets
_MOST, _LONGEST = 60, timedelta(minutes=10)
_WITHIN = timedelta(seconds=0.5)
_KEPT = timedelta(days=30)
_HOUR = timedelta(hours=1)
_HOURS = 24
DENIED = ("AccessDenied", "AccessDeniedException")


class _Counts:
    def __init__(self, table: TableConnection) -> None:
        self.table = table
        self.is_off = False
        self._numbers: dict[datetime, Counter[str]] = {}
        self._gathered = 0
        self._since: datetime | None = None
        self._is_first = "AWS_LAMBDA_FUNCTION_NAME" in os.environ
        self._guard = threading.Lock()

    def add(self, names: Iterable[str]) -> dict[datetime, Counter[str]]:
        """Count a transition. Return the counts to send now, by hour, usually none."""
        now = clock.now()
        hour = now.replace(minute=0, second=0, microsecond=0)
        with self._guard:
            self._since = self._since or now
            self._gathered += 1
            self._numbers.setdefault(hour, Counter()).update(names)
            if not self._is_first and self._gathered < _MOST and now - self._since < _LONGEST:
                return {}
            numbers, self._numbers = self._numbers, {}
            self._gathered, self._since, self._is_first = 0, None, False
            return numbers


_counts = PerConnection(_Counts)  # a parent of this process sends its own


def quantile(buckets: Sequence[int], share: float) -> timedelta | None:
    """Return about how long this share of counted successes took at most."""
    left = share * sum(buckets)
    bounds = (BOUNDS[0] / 3, *BOUNDS, BOUNDS[-1] * 3)
    for number, low, high in zip(buckets, bounds, bounds[1:], strict=False):
        if number and left <= number:
            return timedelta(seconds=low * (high / low) ** (left / number))
        left -= number
    return None


def count(model: type[TaskRow], *names: str) -> None:
    """Count a transition under these names, and send the counts if it is time. This never raises."""
    try:
        counts = _counts.of(model)
        for hour, numbers in counts.add(names).items():
            _send(model, counts, hour, numbers)
    except Exception:  # the transition itself is on record
        fields = log_fields(model.tracker.use_case.name)
        log.debug("the flow of %s was not counted", model.__name__, exc_info=True, extra=fields)


def count_end(journal: Journal[Any], *, has_created: bool) -> None:
    """Count the end of a run, and the tasks that it has created."""
    outcome, codes, model = journal.outcome, journal.claim.statements.codes, journal.claim.statements.model
    if outcome in (None, "released") or journal.postponed:
        return
    names = [f"{outcome}#{codes.pending}", *([CREATED] if has_created else [])]
    if outcome == "succeeded":
        if journal.next_code != codes.succeeded:
            names += [f"{LEFT}#{codes.pending}", f"{CAME}#{journal.next_code}"]
        if journal.claim.start_time is not None:
            took = (clock.now() - journal.claim.start_time).total_seconds()
            names.append(f"{TOOK}{bisect_left(BOUNDS, took)}#{codes.pending}")
    count(model, *names)
    follow_ups = journal.additions.get("follow_ups")
    for created in follow_ups.made_due() if follow_ups and outcome == "succeeded" else ():
        if created.model.tracker.use_case.count_transitions:
            count(created.model, CREATED)


def _send(model: type[TaskRow], counts: _Counts, hour: datetime, numbers: Counter[str]) -> None:
    if counts.is_off:
        return
    names, now = list(enumerate(numbers)), clock.now()
    added = ", ".join(f"#n{at} :n{at}" for at, _ in names)
    request = {
        "TableName": counts.table.table_name,
        "Key": _hour_key(model, hour),
        "UpdateExpression": f"SET #mark = :mark, expire_time = :expires ADD {added}",
        "ExpressionAttributeNames": {"#mark": GROUP_OF} | {f"#n{at}": name for at, name in names},
        "ExpressionAttributeValues": {
            ":mark": {STRING: model.tracker.use_case.name},
            ":expires": {NUMBER: str(int((hour + _KEPT).timestamp()))},
            **{f":n{at}": {NUMBER: str(numbers[name])} for at, name in names},
        },
    }
    try:
        connection_until(counts.table, now + _WITHIN).dispatch("UpdateItem", request)
    except ClientError as error:
        if error.response["Error"]["Code"] not in DENIED:
            raise
        counts.is_off = True
        text = "this process stops counting the flow of %s, because it lacks permission: %s"
        log.warning(text, model.__name__, error, extra=log_fields(model.tracker.use_case.name))


def _hour_key(model: type[TaskRow], hour: datetime) -> Item:
    name = model.tracker.use_case.name
    return item_key(f"{name}#flow", f"#flow#{hour:%Y%m%d%H}")


@dataclass(frozen=True, slots=True)
class Hour:
    begin: datetime
    numbers: dict[str, int]


def keys_of(model: type[TaskRow], now: datetime) -> list[Item]:
    """Return the keys for 24 hours, oldest first."""
    last = now.replace(minute=0, second=0, microsecond=0)
    return [_hour_key(model, last - _HOUR * at) for at in reversed(range(_HOURS))]


def hours_in(model: type[TaskRow], now: datetime, found: Mapping[RowKey, Item]) -> Sequence[Hour]:
    """Return the counts for 24 hours, oldest first, from these items."""
    last = now.replace(minute=0, second=0, microsecond=0)
    hours = []
    for at, key in enumerate(keys_of(model, now)):
        item = found.get(key_of(key), {}).items()
        numbers = {name: int(each[NUMBER]) for name, each in item if name != "expire_time" and NUMBER in each}
        hours.append(Hour(last - _HOUR * (_HOURS - 1 - at), numbers))
    return hours
