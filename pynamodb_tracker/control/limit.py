"""A limit on how many tasks run at once in all programs. Its slots are items in the table.

    bank#07, #limit   {lock, lock_expire_time, worker, wanted} -- a free slot has no `lock_expire_time`

The writes to a slot, and their conditions:

    take        IF  no lock, or lock < :token; and no lock_expire_time, or it has passed by more than the margin
    renew       IF  lock = :token, and lock_expire_time is earlier
    give back   IF  lock = :token
    ask for it  IF  lock = :seen, and there is a lock_expire_time

A slot's tokens only grow, and a free slot keeps its last one. This refuses late copies of writes: a late take does not
have a higher token, and other late writes find that the slot is free or another worker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pynamodb.connection.table import TableConnection
from pynamodb.constants import STRING

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, Refused, get_items, send
from pynamodb_tracker.dynamodb.retries import ending_by
from pynamodb_tracker.model.arguments import shown, written_as
from pynamodb_tracker.model.overflow import GROUP_OF, item_key
from pynamodb_tracker.model.serialization import TOKEN
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes.lock import new_token

LIFETIME = timedelta(seconds=30)
"""How long a slot is held without a renewal. After that and the margin, others may take it."""

WITHIN = timedelta(seconds=3)
"""How long a renewal may take, including retries, because other slots wait for it. A return may take twice as long: it
is not repeated, and without it, the slot is taken until it expires.
"""

_RANGE_KEY = "#limit"
_LONGEST_NAME = 255
MOST_SLOTS = 1000

_TRIES = 3

NEVER_TWICE = "(attribute_not_exists(#lock) OR #lock < :token)"
FREE = "(attribute_not_exists(#until) OR #until < :expired)"
MINE = "#lock = :token"
LATER = "#until < :until"
STILL_TAKEN = "#lock = :token AND attribute_exists(#until)"


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """A limit on how many tasks run at the same time, shared by all steps that use it and by all programs.

    Each run takes a slot before it starts its task. Workers, `run_all`, `arun_all` and `retry_handler` wait for one,
    and handlers wait up to 2 seconds. `start` and `run` raise ConcurrencyLimitReachedError instead of waiting. A dead
    worker's slots become free 30 seconds plus the clock margin later.

    Args:
        name: Text of 1 to 255 bytes without `#`. All use cases in a table share the limit with this name.
        slots: How many tasks may run at the same time, from 1 to 1,000. You may change it in any deployment.

    Raises:
        ValueError: The name or the number is outside of these bounds.

    Examples:
        >>> pay = Step(100, concurrency_limit=ConcurrencyLimit("bank", 20))
    """

    name: str
    slots: int

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or "#" in name or not 1 <= len(name.encode(errors="replace")) <= _LONGEST_NAME:
            limits = f"text of 1 to {_LONGEST_NAME} bytes without '#'"
            raise ValueError(f"ConcurrencyLimit({shown(name)}): the name is {limits}")
        if type(self.slots) is not int or not 1 <= self.slots <= MOST_SLOTS:
            given = f"ConcurrencyLimit({name!r}, {shown(self.slots)})"
            raise ValueError(f"{given}: write a number from 1 to {MOST_SLOTS:,}")


ConcurrencyLimit.__init__ = written_as('ConcurrencyLimit("bank", 20)')(ConcurrencyLimit.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class StoredSlot:
    number: int
    lock: str = ""
    until: datetime | None = None
    is_wanted: bool = False
    is_damaged: bool = False  # whether another program has changed it so that nobody can take it
    worker: str = ""

    @classmethod
    def read(cls, number: int, item: Item) -> StoredSlot:
        names = "lock", "lock_expire_time", "worker"
        lock, time, worker = (item[name].get(STRING, "-") if name in item else "" for name in names)
        until = clock.read(time)
        is_damaged = bool((time and until is None) or (lock and TOKEN.fullmatch(lock) is None))
        return cls(number, lock, until, "wanted" in item, is_damaged, worker)

    def is_free(self, margin: timedelta) -> bool:
        """Return whether this process can take it now, by its own clock."""
        return not self.is_damaged and (self.until is None or self.until < clock.now() - margin)


class Taken(Exception):  # noqa: N818 - a response, not an error
    """Another worker has the slot."""


@dataclass(frozen=True, slots=True)
class SlotTable:
    """The requests for one limit's slots. Each write takes one write unit."""

    table: TableConnection
    name: str
    margin: timedelta

    def take(self, number: int) -> StoredSlot:
        """Take a slot. Raise `Taken` if another worker has it."""
        token = new_token()
        for _ in range(_TRIES):
            now = clock.now()  # before sending the request, so that others do not expect an earlier end
            values = {"token": token, "until": clock.stamp(now + LIFETIME), "expired": clock.stamp(now - self.margin)}
            update = "SET #lock = :token, #until = :until, #worker = :worker, #mark = :mark REMOVE #wanted"
            values |= {"worker": this_worker(), "mark": self.name}
            found = self._send_update(number, update, f"{NEVER_TWICE} AND {FREE}", values)
            if found.lock == token:  # an earlier copy of this request may have been applied
                return found
            if not found.is_free(self.margin):
                break
            token = new_token(above=found.lock)  # this clock is behind, or the slot was taken again
        raise Taken

    def renew(self, number: int, token: str) -> StoredSlot:
        """Renew a slot. Raise `Taken` if another worker has it."""
        now = clock.now()
        values = {"token": token, "until": clock.stamp(now + LIFETIME)}
        with ending_by(now + WITHIN):
            found = self._send_update(number, "SET #until = :until", f"{MINE} AND {LATER}", values)
        if found.lock != token or found.until is None:
            raise Taken
        return found

    def give_back(self, number: int, token: str) -> None:
        """Give a slot back, unless another worker already has it."""
        with ending_by(clock.now() + 2 * WITHIN):
            self._send_update(number, "REMOVE #until, #worker, #wanted", MINE, {"token": token})

    def ask_for(self, seen: StoredSlot) -> None:
        values = {"token": seen.lock, "wanted": clock.stamp(clock.now())}
        self._send_update(seen.number, "SET #wanted = :wanted", STILL_TAKEN, values)

    def read(self, numbers: Iterable[int]) -> Iterator[StoredSlot]:
        """Read slots, eventually consistent, at half a read unit each and 100 per request."""
        wanted = {f"{self.name}#{number:02}": number for number in numbers}
        keys = [self._key(number) for number in wanted.values()]
        for item in get_items(self.table, keys, consistent=False):
            yield StoredSlot.read(wanted.pop(item["task_id"][STRING]), item)
        yield from map(StoredSlot, wanted.values())

    def key_text(self, number: int) -> str:
        return f"{self.name}#{number:02}, {_RANGE_KEY}"

    def _key(self, number: int) -> Item:
        return item_key(f"{self.name}#{number:02}", _RANGE_KEY)

    def _send_update(self, number: int, update: str, condition: str, values: dict[str, str]) -> StoredSlot:
        """Return the updated slot, or the current one if the update was refused."""
        names = {"lock": "lock", "until": "lock_expire_time", "worker": "worker", "wanted": "wanted", "mark": GROUP_OF}
        text = f"{update} {condition}"
        request = {
            "Key": self._key(number),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{place}": name for place, name in names.items() if f"#{place}" in text},
            "ExpressionAttributeValues": {f":{n}": {STRING: value} for n, value in values.items() if f":{n}" in text},
            "ReturnValues": "ALL_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            item = send(self.table, "UpdateItem", request)["Attributes"]
        except Refused as refused:
            item = refused.item or {}
        return StoredSlot.read(number, item)
