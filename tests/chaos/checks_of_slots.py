"""Promises about a limit's slots: nobody takes a held one, and each one comes back."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.events import Event
from tests.chaos.final import Final
from tests.chaos.runs import History
from tests.chaos.slots import SCALE


@dataclass
class Holding:
    """The time during which a worker relied on a slot."""

    number: int
    worker: str
    token: str
    since: float
    expires: float
    """As of its last renewal."""
    returned: float = math.inf
    """When it was about to be returned."""

    @property
    def until(self) -> float:
        """When nobody relied on it any longer."""
        return min(self.expires, self.returned)

    def __str__(self) -> str:
        return f"slot {self.number} by {self.worker} from {self.since:.2f} until {self.until:.2f}"


def holdings(events: list[Event]) -> list[Holding]:
    """Return who held which slot, by slot and time. A slot with a late response was never held."""
    found: dict[str, Holding] = {}
    for event in sorted(events, key=lambda event: event.time):
        token = event.facts["token"]
        if event.kind == "take":
            expires = event.time + event.facts["left"]
            found[token] = Holding(event.run, event.worker, token, event.time, expires)
        elif token in found and event.kind == "renew":
            found[token].expires = max(found[token].expires, event.time + event.facts["left"])
        elif token in found:
            found[token].returned = event.time
    held = [each for each in found.values() if each.until > each.since]
    return sorted(held, key=lambda each: (each.number, each.since))


def no_slot_is_held_twice(history: History) -> Iterator[str]:
    """Expect that a slot is taken only once its previous holder no longer relied on it."""
    for before, after in pairwise(holdings(history.slots)):
        if before.number == after.number and after.since < before.until:
            yield f"{after}, while {before} was held"


def slots_above_the_number_are_not_taken(history: History) -> Iterator[str]:
    """Expect that only existing slots are taken."""
    for each in holdings(history.slots):
        if each.number >= SCALE.slots:
            yield f"{each}, of {SCALE.slots}"


def slots_come_back(history: History, final: Final) -> Iterator[str]:  # noqa: ARG001 - as all checks of rows
    """Expect that in the end, each slot can be taken, even those that dead workers held."""
    for number in final.lost_slots:
        yield f"slot {number} of {SCALE.name} can be taken by nobody"


CHECKS = (no_slot_is_held_twice, slots_above_the_number_are_not_taken)
OF_FINAL = (slots_come_back,)
