"""Promises about pauses: the library soon stops starting due tasks of a paused step."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.events import Event
from tests.chaos.runs import History, Run

SOON = 15.0
"""Seconds: five between two reads, two per read, two for a thread that waits for it. Loops and machines hang, too."""
AFTER_A_LOOK = 4.0
"""Seconds within which a thawed worker starts what it looked at before it was frozen."""
SKEW = 2.5
"""Seconds by which clocks may disagree about the end of a pause."""
LATE = 8.0
"""Seconds after which a resume is known to be applied or not."""


@dataclass
class _Pause:
    step: str
    since: float = math.inf
    until: float = 0.0


def paused_steps_stand_still(history: History) -> Iterator[str]:
    """Expect that no worker that was awake, and could read the pause, starts a paused step."""
    pauses = list(_pauses(history))
    for run in history.runs:
        if not run.controlled or _is_excused(history, run):
            continue
        for pause in pauses:
            if pause.step == run.step and pause.since + SOON < run.begun < pause.until:
                yield f"{run} was started {run.begun - pause.since:.1f} s after its step had been paused"


def _pauses(history: History) -> Iterator[_Pause]:
    asked: dict[tuple[str, int], Event] = {}
    resumed = [event for event in history.pauses if event.kind == "resume"]
    for event in history.pauses:
        if event.kind == "pause":
            asked[event.worker, event.run] = event
        elif event.kind == "paused":
            begun = asked[event.worker, event.run]
            step, until = begun.facts["step"], begun.time + begun.facts["seconds"] - SKEW
            ends = [each.time for each in resumed if each.facts["step"] == step and each.time > begun.time - LATE]
            yield _Pause(step, event.time, min([until, *ends]))


def _is_excused(history: History, run: Run) -> bool:
    frozen = any(begin < run.begun < end + AFTER_A_LOOK for begin, end in history.frozen[run.worker])
    unread = (event.time for event in history.pauses if event.kind == "unread" and event.worker == run.worker)
    return frozen or any(time < run.begun < time + SOON for time in unread)


CHECKS = (paused_steps_stand_still,)
