"""A step's limit under fire: each worker records which slots it takes, renews and returns."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from pynamodb_tracker import ConcurrencyLimit, clock
from pynamodb_tracker.control import limit, slots
from pynamodb_tracker.control.limit import SlotTable, StoredSlot, Taken
from pynamodb_tracker.testing import stopped_clock
from tests.chaos.events import Log

SCALE = ConcurrencyLimit("scale", 3)
LIFETIME = timedelta(seconds=2)
"""Short, so that the slots of killed workers return during the chaos."""


@contextmanager
def telling_slots(log: Log) -> Iterator[None]:
    """Shorten the life of slots, and record the use of this process's."""
    take, renew, give_back = SlotTable.take, SlotTable.renew, SlotTable.give_back

    def told(kind: str, slot: StoredSlot) -> StoredSlot:
        at = time.monotonic()  # before the clock is read: a freeze in between must not make it last longer
        assert slot.until is not None
        log.tell(kind, "", slot.number, at=at, token=slot.lock, left=(slot.until - clock.now()).total_seconds())
        return slot

    def returned(table: SlotTable, number: int, token: str) -> None:
        log.tell("return", "", number, token=token)
        give_back(table, number, token)

    patches: list[Any] = [
        mock.patch.object(limit, "LIFETIME", LIFETIME),
        mock.patch.multiple(slots, LIFETIME=LIFETIME, USED_FOR=LIFETIME / 3),
        mock.patch.multiple(
            SlotTable,
            take=lambda table, number: told("take", take(table, number)),
            renew=lambda table, number, token: told("renew", renew(table, number, token)),
            give_back=returned,
        ),
    ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def lost(order: Any) -> list[int]:
    """Return the slots that nobody can take a minute later, when all unrenewed ones have expired."""
    table, found = SlotTable(order.tracker.connection(), SCALE.name, order.tracker.margin), []
    with stopped_clock(clock.now() + timedelta(minutes=1)):
        for number in range(SCALE.slots):
            try:
                table.take(number)
            except Taken:
                found.append(number)
    return found
