"""How long the end of a run is tried to be recorded: until the lock ends, with full jitter between two tries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.dynamodb.error_codes import is_invalid, is_passing
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.lock import Lock

__all__ = ["patiently"]

T = TypeVar("T", bound=TaskRow)
R = TypeVar("R")

log = logging.getLogger("pynamodb_tracker")


def patiently(lock: Lock[T], codes: Codes, code: int, send: Callable[[], R]) -> R:
    """Send what is to end the run in `code`, again while it fails for a reason that passes, until the lock ends.

    At least one try: a finish after the end of the lock is good while nobody else has taken the task.
    """
    pauses = backoff()
    while True:
        try:
            return send()
        except PynamoDBConnectionError as error:
            pause, left = next(pauses) or 0, (lock.expire_time - clock.now()).total_seconds()
            if is_invalid(error):
                raise
            if not is_passing(error) or left <= pause:
                _leave(lock, codes, code, error)
                raise
            clock.sleep(pause)


def _leave(lock: Lock[T], codes: Codes, code: int, error: PynamoDBConnectionError) -> None:
    """Say what a finish without an answer means: it may have been applied, and nobody knows."""
    task = lock.task
    what = (
        "the work was done, but not recorded" if code == codes.succeeded else "how the attempt ended was not recorded"
    )
    told = (
        f"{what}: the end of {codes.step} of {type(task).__name__} {task.task_id!r} (attempt {lock.attempt}) got no "
        f"answer that says it was recorded as code {code}; it may still be. If not, the task is taken over after "
        f"{lock.expire_time}"
    )
    error.add_note(told)
    log.error("%s: %s", told, error, extra={"task_id": task.task_id, "step": codes.step, "attempt": lock.attempt})
