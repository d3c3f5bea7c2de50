"""One invocation of a function: who works, how long it can, and how long its locks last."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

__all__ = ["Invocation", "LambdaContext"]

_AFTER_THE_END = timedelta(seconds=1)
"""How much longer than the invocation a lock lasts: the function is ended at its time limit, or a moment later."""


class LambdaContext(Protocol):
    """What is used of the second argument of a handler.

    https://docs.aws.amazon.com/lambda/latest/dg/python-context.html
    """

    @property
    def aws_request_id(self) -> str:
        """The id of the invocation; the same where Lambda tries an event again."""
        ...

    def get_remaining_time_in_millis(self) -> int:
        """Return how many milliseconds are left until the function is ended."""
        ...


class Invocation:
    """What an invocation knows of itself; without a context, as in a test, it has no end and no name."""

    def __init__(self, context: LambdaContext | None) -> None:
        self._context = context
        self._longest = timedelta(0)

    @property
    def request_id(self) -> str | None:
        """Lambda's id of the invocation, which signs as the worker."""
        return None if self._context is None else self._context.aws_request_id

    @property
    def remaining(self) -> timedelta | None:
        """How much time is left; None where there is no end."""
        if self._context is None:
            return None
        return timedelta(milliseconds=self._context.get_remaining_time_in_millis())

    @property
    def lock_for(self) -> timedelta | None:
        """How long a lock that is taken now is to last; None for as long as the step says."""
        remaining = self.remaining
        return None if remaining is None else max(remaining, timedelta(0)) + _AFTER_THE_END

    def took(self, duration: timedelta) -> None:
        """Note how long a task took."""
        self._longest = max(self._longest, duration)

    def has_time_for(self, at_least: timedelta) -> bool:
        """Tell whether another task may be begun: one that takes as long as the longest so far would end in time."""
        remaining = self.remaining
        return remaining is None or remaining >= max(at_least, self._longest)
