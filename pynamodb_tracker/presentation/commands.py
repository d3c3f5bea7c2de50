"""People's commands, as the terminal and the page give them. Only a command that changes something is recorded."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control.item import Pause, in_force
from pynamodb_tracker.control.records import record
from pynamodb_tracker.model.signals import too_late
from pynamodb_tracker.presentation.task_facts import is_only_due_later, steps_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import BoundSignal
from pynamodb_tracker.task.task import Task


def note(model: type[Task], by: str, did: str, about: str, tasks: int, *, reason: str = "", before: int = 0) -> None:
    """Record a command on tasks, unless it has changed none. If it continues, it had changed `before` tasks."""
    if tasks > before:
        record(model, by, did, about, tasks=tasks, reason=reason, before=before)


def send_signal(
    signal: BoundSignal[Any],
    task_id: str,
    value: object,
    *,
    by: str,
    key: str | None = None,
    of_round: str | None = None,
) -> tuple[Task, str, bool]:
    """Send a signal. Return the task, the effect, and whether it is new. Raise TaskError if no run will read it."""
    began = clock.now()
    sent = signal.send(task_id, value, by=by, key=key, round=of_round)
    if not sent.will_be_read:
        raise too_late(sent.task, signal.name)
    is_new = (sent.task.signals or {})[signal.name].time >= began  # otherwise, an earlier request has sent it
    note(signal.model, by, f"sent {signal.name} to", task_id, int(is_new))
    return sent.task, sent.effect, is_new


def run_now(task: Task | None) -> Task | None:
    """Make a task due now and return it. Return None, without a change, if it is missing or not only due later."""
    if task is None or not is_only_due_later(task):
        return None
    return steps_of(type(task))[0]._definition.make_due(task)


def pause(step: BoundStep[Any], until: datetime | None, reason: str, by: str) -> tuple[Pause, bool]:
    """Pause a step. Return the new pause and True, or the existing one and False if that lasts longer."""
    began = clock.now()
    paused = step.pause(until=until, reason=reason, by=by)
    if is_new := paused.time >= began:
        record(step.model, by, "paused", step.name, reason=reason)
    return paused, is_new


def resume(step: BoundStep[Any], by: str, reason: str = "") -> Sequence[Pause]:
    """Resume a step, and return the pauses that this has ended."""
    ended = [pause for pause in in_force(step.model) if pause.step == step.name]
    step.resume(by=by)
    if ended:
        record(step.model, by, "resumed", step.name, reason=reason)
    return ended
