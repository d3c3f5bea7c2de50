"""Counts of transitions (`count_transitions=True`): how many tasks came, and how their runs ended, by step and hour.

Each process counts by itself, and adds that to one item for each hour: when 60 transitions have gathered, or when one
comes 10 minutes after the first; in Lambda also at the first one of an environment, which may get no other. What is not
sent when a process ends, or gets no response within half a second, is lost: the numbers are about right, and never too
high by more than a repeated request.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from botocore.exceptions import ClientError
from pynamodb.connection.table import TableConnection
from pynamodb.constants import NUMBER, STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, connection_until, get_items
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.overflow import GROUP_OF, item_key
from pynamodb_tracker.model.row import TaskRow

log = logging.getLogger("pynamodb_tracker")

CREATED = "created"
"""What is counted of a new task; of a run, it is its outcome and the number of its step, as in `succeeded#200`."""

LEFT, CAME = "left", "came"
"""Counted besides, with the numbers of both steps, of a success that leads elsewhere than to the next step."""

_MOST, _LONGEST = 60, timedelta(minutes=10)
"""Transitions that gather before they are sent, and how long the first of them waits for the next one."""
_WITHIN = timedelta(seconds=0.5)
_KEPT = timedelta(days=30)
_HOUR = timedelta(hours=1)
_DENIED = ("AccessDenied", "AccessDeniedException")


class _Counts:
    """What this process has counted of a use case, and not sent."""

    def __init__(self, table: TableConnection) -> None:
        self.table = table
        self.is_off = False
        """Whether the process may not write it, so that it sends nothing any more."""
        self._numbers: dict[datetime, Counter[str]] = {}
        self._gathered = 0
        self._since: datetime | None = None
        self._is_first = "AWS_LAMBDA_FUNCTION_NAME" in os.environ
        self._guard = threading.Lock()

    def add(self, names: Iterable[str]) -> dict[datetime, Counter[str]]:
        """Count a transition; return what is to be sent now, by hour: mostly nothing."""
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


_counts: WeakKeyDictionary[type[TaskRow], _Counts] = WeakKeyDictionary()
_guard = threading.Lock()


@in_forked_process
def _forget() -> None:
    """Begin anew in a process that was forked: its parent sends what it has counted."""
    global _guard  # noqa: PLW0603 - one for the process
    _guard = threading.Lock()
    _counts.clear()


def count(model: type[TaskRow], *names: str) -> None:
    """Count a transition of the use case, by all of these names; it may send what has gathered, and never raises."""
    try:
        table = model.tracker.connection()
        with _guard:
            counts = _counts.get(model)
            if counts is None or counts.table is not table:
                counts = _counts[model] = _Counts(table)
        for hour, numbers in counts.add(names).items():
            _send(model, counts, hour, numbers)
    except Exception:  # the transition itself is on record
        fields = log_fields(model.tracker.use_case.name)
        log.debug("the flow of %s was not counted", model.__name__, exc_info=True, extra=fields)


def _send(model: type[TaskRow], counts: _Counts, hour: datetime, numbers: Counter[str]) -> None:
    """Add to the item of an hour, with one try."""
    if counts.is_off:
        return
    names, now = list(numbers), clock.now()
    request = {
        "TableName": counts.table.table_name,
        "Key": _key(model, hour),
        "UpdateExpression": f"SET #mark = :mark, expire_time = :expires ADD "
        f"{', '.join(f'#n{at} :n{at}' for at, _ in enumerate(names))}",
        "ExpressionAttributeNames": {"#mark": GROUP_OF} | {f"#n{at}": name for at, name in enumerate(names)},
        "ExpressionAttributeValues": {
            ":mark": {STRING: model.tracker.use_case.name},
            ":expires": {NUMBER: str(int((hour + _KEPT).timestamp()))},
            **{f":n{at}": {NUMBER: str(numbers[name])} for at, name in enumerate(names)},
        },
    }
    try:
        connection_until(counts.table, now + _WITHIN).dispatch("UpdateItem", request)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _DENIED:
            raise
        counts.is_off = True
        text = "the flow of %s is not counted any more by this process, which may not write it: %s"
        log.warning(text, model.__name__, error, extra=log_fields(model.tracker.use_case.name))


def _key(model: type[TaskRow], hour: datetime) -> Item:
    """Return the key of the item of an hour; of no task, because no use case has a `#` in its name."""
    name = model.tracker.use_case.name
    return item_key(f"{name}#flow", f"#flow#{hour:%Y%m%d%H}")


@dataclass(frozen=True, slots=True)
class Hour:
    """What was counted in an hour, by its names; nothing if nobody counted."""

    begin: datetime
    numbers: dict[str, int]


def read(model: type[TaskRow], hours: int = 24) -> Sequence[Hour]:
    """Return what was counted in the last hours, the oldest first; a request for a read unit of each item there is."""
    last = clock.now().replace(minute=0, second=0, microsecond=0)
    begins = [last - _HOUR * at for at in reversed(range(hours))]
    keys = {_key(model, begin)["use_case_id"][STRING]: begin for begin in begins}
    items = get_items(model.tracker.connection(), [_key(model, begin) for begin in begins])
    found = {keys[item["use_case_id"][STRING]]: _numbers_in(item) for item in items}
    return [Hour(begin, found.get(begin, {})) for begin in begins]


def _numbers_in(item: dict[str, Any]) -> dict[str, int]:
    return {name: int(value[NUMBER]) for name, value in item.items() if name != "expire_time" and NUMBER in value}
