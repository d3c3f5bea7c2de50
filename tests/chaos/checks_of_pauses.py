"""What must hold of pauses: what the library starts because it is due stands still soon after, until the end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.events import Event
from tests.chaos.runs import History, Run

__all__ = ["CHECKS"]

SOON = 15.0
"""Seconds: five between two reads, two for a read, two for a thread that waits for it; loops hang, and machines."""
SKEW = 2.5
"""Seconds by which the end of a pause may be another one by another clock."""
LATE = 8.0
"""Seconds within which a resume that was sent is known to be applied, or not."""


@dataclass
class _Pause:
    step: str
    since: float = math.inf
    until: float = 0.0


def paused_steps_stand_still(history: History) -> Iterator[str]:
    """Expect no start of a paused step by a worker that was awake, and that could read what is paused."""
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
    since = run.begun - SOON
    frozen = any(begin < run.begun and since < end for begin, end in history.frozen[run.worker])
    unread = (event.time for event in history.pauses if event.kind == "unread" and event.worker == run.worker)
    return frozen or any(since < time < run.begun for time in unread)


CHECKS = (paused_steps_stand_still,)
