"""The traces of limits: each returns whether more tasks run than there are slots, or a slot is lost to all."""

import contextlib
from datetime import timedelta
from typing import Any

from pynamodb_tracker.control.limit import LIFETIME, StoredSlot, Taken
from tests.engine.actions import Hold
from tests.support.operations import slots_of
from tests.support.orders import MARGIN
from tests.support.proxy_rules import arrive
from tests.support.world import World

SECOND = timedelta(seconds=1)


def take(order: Any) -> StoredSlot | None:
    """Take the only slot; None if somebody else has it."""
    with contextlib.suppress(Taken):
        return slots_of(order, "").take(0)
    return None


def is_lent_twice(world: World, slot: StoredSlot | None) -> bool:
    """Return whether the other process gets the slot while this one believes that it has it."""
    return slot is not None and take(world.theirs) is not None


def taken_while_it_is_used(world: World) -> bool:
    """Return whether a slot is taken that somebody else has."""
    return is_lent_twice(world, take(world.mine))


def taken_by_a_clock_that_is_ahead(world: World) -> bool:
    """Return whether a slot is taken that has not expired by the clock of its holder, which is behind."""
    slot = take(world.mine)
    world.clock.advance(LIFETIME + MARGIN / 2)
    return is_lent_twice(world, slot)


def late_take(world: World) -> bool:
    """Return whether a late copy of a take keeps a slot from all others that was given back since."""
    late = Hold()
    world.goes_wrong(late)
    slot = take(world.mine)
    assert slot is not None
    slots_of(world.mine, "").give_back(0, slot.lock)
    arrive(world.proxy, late)
    return take(world.theirs) is None


def late_return(world: World) -> bool:
    """Return whether a late copy of a return takes the slot from its next holder."""
    slot, late = take(world.theirs), Hold()
    assert slot is not None
    world.goes_wrong(late)
    slots_of(world.mine, "").give_back(0, slot.lock)
    next_one = take(world.mine)
    arrive(world.proxy, late)
    return is_lent_twice(world, next_one)


def late_renewal(world: World) -> bool:
    """Return whether a late copy of a renewal shortens the time that its holder goes by."""
    slot, late = take(world.mine), Hold()
    assert slot is not None
    of_mine = slots_of(world.mine, "")
    world.clock.advance(SECOND)
    world.goes_wrong(late)
    of_mine.renew(0, slot.lock)
    world.clock.advance(LIFETIME / 2)
    of_mine.renew(0, slot.lock)
    arrive(world.proxy, late)
    world.clock.advance(LIFETIME / 2 + MARGIN + 2 * SECOND)
    return is_lent_twice(world, slot)


def asked_for_after_it_was_returned(world: World) -> bool:
    """Return whether a late wish makes the next holder hand on a slot that nobody waits for."""
    slot, late = take(world.theirs), Hold()
    assert slot is not None
    world.goes_wrong(late)
    slots_of(world.mine, "").ask_for(slot)
    slots_of(world.theirs, "").give_back(0, slot.lock)
    next_one = take(world.theirs)
    arrive(world.proxy, late)
    [seen] = slots_of(world.theirs, "").read([0])
    return next_one is not None and seen.is_wanted
