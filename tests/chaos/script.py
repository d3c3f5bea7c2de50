"""The script of a run, drawn from the seed before the run, so that a replay does the same."""

import random
from dataclasses import dataclass, replace

from tests.chaos import forks
from tests.chaos.interrupts import Interrupt
from tests.chaos.pipeline import is_fatal
from tests.chaos.settings import Settings

_ENDINGS = {"succeed": 71, "boom": 12, "later": 4, "postpone": 6, "give_up": 2, "interrupt": 3, "exit": 2}
_SIZES = {(10, 200): 845, (2_000, 60_000): 150, (550_000, 700_000): 5}
"""Bytes of text: in the row, in one overflow chunk, and in several."""
_LARGE = 2_000
PARTS = ("charge", "mail", "log")
PARTED = 0.3
INTERRUPTED, FORKED = 0.25, 0.08
"""One run in this many is interrupted by an unexpected exception, or forks."""


@dataclass(frozen=True)
class Deed:
    kind: str
    amount: float = 0
    """Bytes of a record's text, seconds of a rest or an extension, the kind of a fork, or the number of a part."""


@dataclass(frozen=True)
class Script:
    """How a run starts, its block, and its end."""

    deeds: tuple[Deed, ...]
    ending: str
    """succeed, boom, later, postpone, give_up, interrupt, exit, or die."""
    detailed: bool = True
    skip_error: bool = False
    heartbeat: bool = False
    interrupt: Interrupt | None = None

    @property
    def has_large_record(self) -> bool:
        """Whether a record does not fit into the row."""
        return any(deed.kind == "record" and deed.amount > _LARGE for deed in self.deeds)


def script(settings: Settings, draw: random.Random) -> Script:
    """Draw one. Most are short and succeed, some outlast their lock."""
    ending = draw.choices(list(_ENDINGS), list(_ENDINGS.values()))[0]
    deeds = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        deeds += [Deed("rest", draw.uniform(0, 0.2)), _record(draw)]
        deeds += [Deed("save")] if draw.random() < 0.4 else []
        deeds += [Deed("commit")] if draw.random() < 0.25 else []
        deeds += [Deed("part", draw.randrange(len(PARTS)))] if draw.random() < PARTED else []
        deeds += [Deed("extend", settings.lock_seconds * draw.uniform(0.2, 2))] if draw.random() < 0.15 else []
    if draw.random() < settings.long_runs / 100:
        longer = settings.lock_seconds + settings.margin_seconds + draw.uniform(0.3, 3)
        deeds.insert(draw.randrange(len(deeds) + 1), Deed("rest", longer))
    if draw.random() < FORKED:
        deeds.insert(draw.randrange(len(deeds) + 1), Deed("fork", draw.randrange(len(forks.KINDS))))
    return Script(
        tuple(deeds),
        ending,
        detailed=draw.random() < 0.8,
        skip_error=draw.random() < 0.2,
        heartbeat=draw.random() < 0.3,
        interrupt=Interrupt.drawn(draw) if draw.random() < INTERRUPTED else None,
    )


def healthy(draw: random.Random) -> Script:
    """Draw one that succeeds."""
    return Script((Deed("part"), _record(draw), Deed("save"), Deed("commit"), _record(draw)), "succeed")


def fated(plan: Script, task_id: str, *, dies: bool) -> Script:
    """Return the fate of a plan: a fatal task's worker dies, or postpones it."""
    if not is_fatal(task_id):
        return plan
    return replace(plan, deeds=(), ending="die" if dies else "postpone", heartbeat=False, interrupt=None)


def _record(draw: random.Random) -> Deed:
    return Deed("record", draw.randint(*draw.choices(list(_SIZES), list(_SIZES.values()))[0]))
