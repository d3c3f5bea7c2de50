"""Requests that are held until a test lets them go."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.shop import AppTask
from tests.support.through import Dispatch, through

PATIENCE = 30.0


class Held:
    """A request that was sent, and whose answer is not there yet."""

    def __init__(self) -> None:
        self._sent, self._answered = threading.Event(), threading.Event()

    def hold(self) -> None:
        self._sent.set()
        assert self._answered.wait(PATIENCE)

    async def sent(self) -> None:
        """Wait until the request was sent."""
        assert await asyncio.to_thread(self._sent.wait, PATIENCE)

    def answer(self) -> None:
        self._answered.set()


@contextmanager
def held(number: int, operation: str = "UpdateItem") -> Iterator[Held]:
    """Hold back the answer to one request of an operation, counted from 1."""
    request, seen = Held(), 0

    def change(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal seen
        seen += name == operation
        is_held = name == operation and seen == number
        try:
            return send(name, body)
        finally:
            if is_held:
                request.hold()

    with through(AppTask, change):
        try:
            yield request
        finally:
            request.answer()
