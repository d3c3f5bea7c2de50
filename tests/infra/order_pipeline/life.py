"""How an invocation dies: from some moment on, nothing of it gets out any more, whatever its code still does.

That is what a kill is to the outside. An exception alone would be none: the code would record it as a failure.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

R = TypeVar("R")


class KilledError(BaseException):
    """The process of the invocation is gone; no code of it catches this."""


class Life:
    """Stands between the code of an invocation and everything else; other code is let through."""

    def __init__(self) -> None:
        self.moments = 0
        """Passed by the invocation so far: one before, and one after, each thing that it does outside of itself."""
        self.requests: list[str] = []
        """Of the last invocation, to AWS."""
        self.breaks: Callable[[str], bool] = lambda _operation: False
        """Which requests fail, while the invocation lives on."""
        self._ends_at: int | None = None
        self._is_over: Callable[[], bool] = lambda: False
        self._runs = False
        self._dead = False

    def live(self, function: Callable[[], R], *, ends_at: int | None, is_over: Callable[[], bool]) -> R:
        """Call the function as an invocation; KilledError when it dies, at that moment or once its time has passed."""
        self.moments, self._ends_at, self._is_over = 0, ends_at, is_over
        self.requests.clear()
        self._runs, self._dead = True, False
        try:
            answer = function()
            self._pass()
        finally:
            self._runs = False
        return answer

    def does(self, act: Callable[[], R]) -> R:
        """Do something outside of the invocation, if it lives; it may die before and after."""
        if not self._runs:
            return act()
        self._pass()
        done = act()
        self._pass()
        return done

    def _pass(self) -> None:
        self._dead = self._dead or self.moments == self._ends_at or self._is_over()
        if self._dead:
            raise KilledError
        self.moments += 1

    def api_call(self) -> Callable[[BaseClient, str, dict[str, Any]], Any]:
        """Return what is to stand for botocore's method by which each request goes out."""
        original = BaseClient._make_api_call

        def call(client: BaseClient, operation: str, request: dict[str, Any]) -> Any:
            if self._runs:
                self.requests.append(operation)
            if self._runs and self.breaks(operation):
                raise EndpointConnectionError(endpoint_url=client.meta.endpoint_url)
            return self.does(lambda: original(client, operation, request))

        return call
