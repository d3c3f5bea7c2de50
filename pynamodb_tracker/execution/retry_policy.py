"""What a step says about failures, and the pause before the next attempt that follows from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.exceptions import RetryLater
from pynamodb_tracker.execution import recording as ending

__all__ = ["Policy", "delay_after"]

log = logging.getLogger("pynamodb_tracker")


class Policy(Protocol):
    """What a step says about failures."""

    retry_delay: timedelta | Callable[[int], timedelta] | None
    give_up_on: Sequence[type[BaseException]]


def delay_after(policy: Policy, attempt: int, error: BaseException, step: str) -> timedelta:
    """Return the pause before the next attempt; a failure is recorded even if the user's function for it fails."""
    if isinstance(error, RetryLater):
        return _checked(getattr(error, "delay", None), error, "the delay of RetryLater is")
    retry_delay = policy.retry_delay
    if not callable(retry_delay):
        return retry_delay or timedelta(0)
    try:
        delay: object = retry_delay(attempt)
    except KeyboardInterrupt:
        raise
    except BaseException as broken:
        ending.note(error, f"retry_delay({attempt}) raised {broken!r}: no delay was taken")
        log.exception("retry_delay(%s) of step %s failed: no delay is taken", attempt, step)
        return timedelta(0)
    return _checked(delay, error, f"retry_delay({attempt}) returned")


def _checked(delay: object, error: BaseException, told: str) -> timedelta:
    """Return a delay, or none where it is something else, which the error then has as a note."""
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    ending.note(error, f"{told} {shown(delay)}, no timedelta of zero or more: no delay was taken")
    return timedelta(0)
