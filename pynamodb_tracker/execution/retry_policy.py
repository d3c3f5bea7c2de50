"""A step's settings for failures, and the pause before the next attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from pynamodb_tracker.arguments import shown
from pynamodb_tracker.exceptions import RetryLater
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.transitions import Claim

log = logging.getLogger("pynamodb_tracker")


class RetryPolicy(Protocol):
    """A step's settings for failures."""

    retry_delay: timedelta | Callable[[int], timedelta] | None
    give_up_on: Sequence[type[BaseException]]
    give_up_after: timedelta | None


def uses_up_attempt(error: BaseException) -> bool:
    """Return whether a failure counts as an attempt. Only RetryLater(..., use_attempt=False) does not."""
    return not issubclass(type(error), RetryLater) or getattr(error, "use_attempt", True) is not False


def delay_after(policy: RetryPolicy, claim: Claim[Any], error: BaseException) -> timedelta:
    """Return the pause before the next attempt. It is zero if the user's function for it fails."""
    if issubclass(type(error), RetryLater):
        return _checked_delay(getattr(error, "delay", None), error, "the delay of RetryLater is")
    retry_delay = policy.retry_delay
    if not callable(retry_delay):
        return retry_delay or timedelta(0)
    attempt = claim.attempt
    try:
        delay: object = retry_delay(attempt)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        add_note(error, f"retry_delay({attempt}) raised {raised!r}: the next attempt may start at once")
        text = "retry_delay(%s) of step %s failed: the next attempt may start at once"
        log.exception(text, attempt, claim.step, extra=claim.log_fields)
        return timedelta(0)
    return _checked_delay(delay, error, f"retry_delay({attempt}) returned")


def _checked_delay(delay: object, error: BaseException, source: str) -> timedelta:
    """Return a valid delay. For an invalid one, return zero and add a note to the error."""
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    add_note(error, f"{source} {shown(delay)}, no timedelta of zero or more: the next attempt may start at once")
    return timedelta(0)
