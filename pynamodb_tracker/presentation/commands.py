"""People's commands, as the terminal and the page give them. Only a command that changes something is recorded."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Pause, in_force
from pynamodb_tracker.control.records import record
from pynamodb_tracker.model.signals import too_late
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import BoundSignal
from pynamodb_tracker.task.task import Task


def send_signal(
    signal: BoundSignal[Any],
    task_id: str,
    value: object,
    *,
    by: str,
    key: str | None = None,
    of_round: str | None = None,
) -> tuple[Task, str]:
    """Send a signal. Return the task and the effect, or raise TaskError if no run will read the signal."""
    began = clock.now()
    sent = signal.send(task_id, value, by=by, key=key, round=of_round)
    if not sent.will_be_read:
        raise too_late(sent.task, signal.name)
    if (sent.task.signals or {})[signal.name].time >= began:  # otherwise, an earlier request has sent it
        record(signal.model, by, f"sent {signal.name} to", task_id, tasks=1)
    return sent.task, sent.effect


def pause(step: BoundStep[Any], until: datetime | None, reason: str, by: str) -> Pause:
    """Pause a step. Return the new pause, or the existing one if that lasts longer."""
    began = clock.now()
    paused = step.pause(until=until, reason=reason, by=by)
    if paused.time >= began:
        record(step.model, by, "paused", step.name, reason=reason)
    return paused


def resume(step: BoundStep[Any], by: str, reason: str = "") -> Sequence[Pause]:
    """Resume a step, and return the pauses that this has ended."""
    ended = [pause for pause in in_force(step.model) if pause.step == step.name]
    step.resume(by=by)
    if ended:
        record(step.model, by, "resumed", step.name, reason=reason)
    return ended
