"""What becomes of each try of a request within the SDK, whose error tells only of the last one."""

from __future__ import annotations

import threading
from typing import Any

from pynamodb_tracker.dynamodb.error_codes import SERVER_ERROR, is_lost, note_lost
from pynamodb_tracker.dynamodb.retries import deadline, is_stopped


class Flight(threading.local):
    """The request that this thread makes with the client of a connection."""

    def __init__(self) -> None:
        self._client: object = None
        """The client that is watched."""
        self._is_sent = False
        """Whether a try has left that nobody has answered yet."""
        self._is_lost = False
        """Whether a try may have been applied, because its response was lost."""

    def watched(self, client: Any) -> Any:
        """Watch the tries of a client, and return it."""
        if client is not self._client:
            events = client.meta.events
            events.register_last("before-send.dynamodb", self._note_sent, "pynamodb_tracker before-send")
            events.register_first("needs-retry.dynamodb", self._note_outcome, "pynamodb_tracker needs-retry")
            self._client = client
        return client

    def begin(self) -> None:
        """Begin another request."""
        self._is_sent = self._is_lost = False

    def end(self, error: Exception) -> None:
        """Note on the error of the request whether one of its tries may have been applied."""
        note_lost(error, is_lost=self._is_sent or self._is_lost)

    def _note_sent(self, **_: object) -> None:
        self._is_sent = True

    def _note_outcome(
        self, response: Any = None, caught_exception: Exception | None = None, **_: object
    ) -> bool | None:
        """Note what became of a try; return False if the SDK is not to retry it, else None.

        The SDK knows no deadline, and pauses up to 5 seconds longer if a response asks for it by x-amz-retry-after.
        """
        self._is_sent, asks_for_pause = False, False
        if caught_exception is not None:
            self._is_lost = self._is_lost or is_lost(caught_exception)
        elif response is not None:
            self._is_lost = self._is_lost or response[0].status_code >= SERVER_ERROR
            asks_for_pause = "x-amz-retry-after" in response[0].headers
        return False if is_stopped() or (asks_for_pause and deadline() is not None) else None
