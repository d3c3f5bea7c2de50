"""A step's settings for failures, and the pause before the next attempt."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeGuard

from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.exceptions import RetryLater
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.failure import add_note
from pynamodb_tracker.transitions import Claim

_LONGEST_FALLBACK = 3600  # seconds
_warned = set[str]()  # the steps that have got the fallback in this process


class RetryPolicy(Protocol):
    retry_delay: timedelta | Callable[[int], timedelta] | None
    give_up_on: Sequence[type[BaseException]]
    give_up_after: timedelta | None


def uses_up_attempt(error: BaseException) -> bool:
    """Return whether a failure counts as an attempt. Only RetryLater(..., use_attempt=False) does not."""
    return not issubclass(type(error), RetryLater) or getattr(error, "use_attempt", True) is not False


def delay_after(policy: RetryPolicy, claim: Claim[Any], error: BaseException) -> timedelta:
    """Return the pause before the next attempt, or a long one if the setting is wrong."""
    if issubclass(type(error), RetryLater):
        delay, source = getattr(error, "delay", None), "the delay of RetryLater is"
    elif callable(policy.retry_delay):
        source = f"retry_delay({claim.attempt}) returned"
        try:
            delay = policy.retry_delay(claim.attempt)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001 - the failure still has to be recorded
            return _fallback(claim, error, f"retry_delay({claim.attempt}) raised {raised!r}", raised)
    else:
        return policy.retry_delay or timedelta(0)
    if is_delay(delay):
        return delay
    return _fallback(claim, error, f"{source} {shown(delay)}, not a timedelta of zero or more")


def is_delay(value: object) -> TypeGuard[timedelta]:
    return isinstance(value, timedelta) and value >= timedelta(0)


def _fallback(claim: Claim[Any], error: BaseException, reason: str, raised: BaseException | None = None) -> timedelta:
    """Return a pause that doubles with each attempt, note the reason on the error, and log it once per step.

    Without a pause, all attempts could fail within seconds.
    """
    longest = min(2 ** min(claim.attempt, 12), _LONGEST_FALLBACK)
    delay = timedelta(seconds=RANDOM.uniform(longest / 2, longest))
    add_note(error, f"{reason}: the next attempt starts at least {delay.total_seconds():.0f} s later")
    step = f"{type(claim.task).__name__}.{claim.step}"
    if step not in _warned:
        _warned.add(step)
        text = "the delay of %s: %s. It pauses up to %d s instead, and this process logs that once per step"
        log.warning(text, step, reason, longest, exc_info=raised, extra=claim.log_fields)
    return delay
