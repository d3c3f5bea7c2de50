"""Limits: never do more blocks run than there are slots, unless one has outlived its slot; and no slot is wasted."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pynamodb_tracker import ConcurrencyLimit, clock
from pynamodb_tracker.control import limit, slots
from pynamodb_tracker.control.slots import LimitSlots, Slot
from tests.search.protocol import BASE, TICK, Faults, Program, Protocol, State, attempt, note, table, value
from tests.search.table import loaded

MARGIN = TICK
LIFETIME = 3 * TICK / 2
"""A slot expires between two ticks, whichever clock is asked."""

NEVER = BASE - 9 * TICK
LATE = Faults(late=1)
BOUNDED = [
    ("aa", LATE),
    ("a", Faults(ticks=3)),
    ("2aab", Faults()),
    ("bb", Faults(twice=1)),
    ("sa", LATE),
    ("ss", Faults(twice=1)),
    ("sB", Faults(ticks=1)),
    ("wa", LATE),
    ("wb", Faults()),
]
COMPLETE = [
    ("aB", Faults(ticks=3)),
    ("wb", Faults(ticks=1)),
    ("wB", Faults(ticks=1)),
    ("ws", LATE),
    ("sB", Faults(ticks=3)),
    ("bB", Faults(ticks=3, late=1)),
    ("bB", Faults(ticks=4, lost=1)),
    ("ab", Faults(ticks=4, twice=1, deaths=1)),
    ("aab", Faults(late=1, ticks=1)),
    ("2abB", Faults(ticks=1)),
]
"""How many slots there are, one if nothing is said, and the programs: each takes a slot, runs a block, and gives the
slot back; b renews it twice meanwhile, s starts its task by id, w does so, too, and pauses once if it has to wait, and
renews it once, and the clock of a capital letter is behind by the margin."""

MANY = "more blocks run than there are slots"
WASTED = "a slot that was given back is taken again"
KEPT = "a slot is kept after the reply"
AFTER = "a block begins after its slot has expired"
ASKED = "a free slot is asked for"


def _left_out(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(limit, name, "attribute_not_exists(nothing)")


def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slot, "is_held", True)


def _left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slot, "give_back", Slot.leave)


def _without_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MARGIN", timedelta(0))


GUARDS = {
    ("a take is not later than its own token", _left_out("NEVER_TWICE")): ("aa", LATE, WASTED),
    ("only a free slot is taken", _left_out("FREE")): ("aa", Faults(), MANY),
    ("others wait for the margin", _without_margin): ("aB", Faults(ticks=3), MANY),
    ("a renewal and a return are of the holder", _left_out("MINE")): ("aaa", LATE, MANY),
    ("a renewal is later", _left_out("LATER")): ("aB", Faults(ticks=2, late=1), MANY),
    ("a run gives its slot back before it replies", _left_for_later): ("s", Faults(), KEPT),
    ("a block begins in a slot that is held", _unchecked): ("a", Faults(ticks=3), AFTER),
    ("only a slot that is taken is asked for", _left_out("STILL_TAKEN")): ("wa", Faults(), ASKED),
}


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do."""
    number = int(who[0]) if who[0].isdigit() else 1
    bank, connection = ConcurrencyLimit("bank", number), table().tracker.connection()

    def run(name: str, *, renewals: int, by_id: bool, wait: timedelta) -> None:
        with _in_model():
            of_process = LimitSlots(limit.SlotTable(connection, "bank", MARGIN))
            slot = of_process.take_within(bank, name, wait) if by_id else of_process.take(bank, name)
            if slot is None or not slot.is_held:
                return
            note(f"{name} has {clock.stamp(slot.until)}" if clock.now() < slot.until else f"{name} begins late")
            for _ in range(renewals):
                of_process.renew(slot)
                note(f"{name} has {clock.stamp(slot.until)}")
            list(of_process.table.read([0]))  # its block needs a while
            note(f"{name} gives {slot.token} back")
            if by_id:
                slot.give_back()
                note(f"{name} replies, and has had {slot.token}")
            else:
                slot.leave()
                of_process.give_back(at_once=True)
            note(f"{name} returned {slot.token}")

    programs = []
    for place, letter in enumerate(who.lstrip("123")):
        name = f"{letter}{place}"
        renewals, wait = {"b": 2, "w": 1}.get(letter.lower(), 0), TICK * (letter == "w")
        call = partial(run, name, renewals=renewals, by_id=letter in "sw", wait=wait)
        programs.append(Program(name, (partial(attempt, call),), behind=int(letter.isupper())))
    return Protocol(programs, faults, partial(_broken, programs, number, faults))


_FIRST = SimpleNamespace(sample=lambda found, most: found[:most], choice=lambda found: found[0], uniform=max)


@contextmanager
def _in_model() -> Iterator[None]:
    """Let slots live for a few ticks, without a thread and by no chance, and let a wait have one pause."""
    paused = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit, "LIFETIME", LIFETIME)
        patch.setattr(slots, "RANDOM", _FIRST)
        patch.setattr(slots, "_keepers", ())
        patch.setattr(slots, "is_stopped", paused.is_set)
        patch.setattr(clock, "sleep_unless", lambda *_: paused.set())
        yield


def _broken(programs: list[Program], number: int, faults: Faults, state: State) -> str | None:
    found: list[dict[str, Any]] = [loaded(item) for _, item in state.rows]
    taken = [item for item in found if "lock_expire_time" in item]
    if any("wanted" in item for item in found if item not in taken):
        return ASKED
    if any(each.endswith("begins late") for each in state.notes):
        return AFTER
    running = 0
    for program, actor in zip(programs, state.actors, strict=True):
        notes = [each for each in state.notes if each.startswith(f"{program.name} ")]
        until = max((clock.read(each.split()[-1]) or BASE for each in notes if " has " in each), default=NEVER)
        is_over = actor.request is None or any(each.endswith(" back") for each in notes)
        running += not is_over and BASE + (state.now - program.behind) * TICK < until
    if running > number:
        return MANY
    had = {each.split()[-1] for each in state.notes if " replies, " in each}
    if not faults.lost and any(value(item, "lock") in had for item in taken):
        return KEPT
    returned = {each.split()[-1] for each in state.notes if " returned " in each}
    is_over = all(actor.request is None and actor.call for actor in state.actors)
    if is_over and not faults.lost and any(value(item, "lock") in returned for item in taken):
        return WASTED
    return None
