"""A person's commands: reopen a task, ignore it, cancel its run, or free a dead worker's task."""

import random
import traceback
from datetime import timedelta
from typing import Any

from pynamodb_tracker import TaskNotStartableError
from tests.chaos.events import Log
from tests.chaos.outcomes import outcome
from tests.chaos.pipeline import STEPS

RESUMES = 0.2
PAUSE = 25.0, 32.0


def release(log: Log, number: int, step: Any, task_id: str, **held_by: str) -> None:
    """Release a task, and record the released claim, as far as it is known."""
    who = f"{log.worker}/{number}"
    log.tell("release", task_id, number, step=step.name)
    try:
        task = step.unlock(task_id, reason="its worker seems to be dead", by=who, **held_by)
    except TaskNotStartableError:
        log.tell("kept", task_id, number)
        raise
    mine = [entry for entry in task.errors if entry.worker == who]
    if not mine:
        log.tell("kept", task_id, number)
    elif task.errors[-1] == mine[-1] and task.state == step.pending:  # otherwise it was claimed again since
        log.tell("released", task_id, number, fence=task.fence)


def cancel(log: Log, number: int, step: Any, task_id: str) -> None:
    """Ignore a task even if it runs, and record the cancelled claim, as far as it is known."""
    who = f"{log.worker}/{number}"
    log.tell("ignore", task_id, number, step=step.name)
    log.tell("release", task_id, number, step=step.name)
    try:
        task = step.ignore(task_id, reason="a person said so", by=who, even_running=True)
    except TaskNotStartableError:
        log.tell("kept", task_id, number)
        raise
    if task.errors[-1].worker == who and task.fence in task.unfinished:
        log.tell("released", task_id, number, fence=task.fence)
    else:
        log.tell("kept", task_id, number)


def pause(log: Log, number: int, order: Any, draw: random.Random) -> None:
    """Pause a step for some time, or resume it."""
    step = getattr(order, draw.choice(STEPS).name)
    seconds, resumes = draw.uniform(*PAUSE), draw.random() < RESUMES
    try:
        if resumes:
            log.tell("resume", "", number, step=step.name)
            step.resume()
            return
        log.tell("pause", "", number, step=step.name, seconds=seconds)
        step.pause(until=timedelta(seconds=seconds), reason="a person said so")
    except Exception as error:  # noqa: BLE001 - the checker judges it
        if outcome(error) != "unknown":
            log.tell("crash", "", number, trace="".join(traceback.format_exception(error))[-2000:])
        return  # nobody knows whether it is paused
    log.tell("paused", "", number)


def release_all_of(log: Log, number: int, order: Any, pid: int) -> None:
    """Release everything that a dead or frozen worker holds."""
    for rule in STEPS:
        step = getattr(order, rule.name)
        try:
            for task in step.in_progress.query(with_data=False):
                if f":{pid}:" in task.worker:
                    release(log, number, step, task.task_id, worker=task.worker)
        except TaskNotStartableError:
            continue
        except Exception as error:  # noqa: BLE001 - the checker judges it
            if outcome(error) != "unknown":
                log.tell("crash", "", number, trace="".join(traceback.format_exception(error))[-2000:])
