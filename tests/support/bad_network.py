"""A network that loses, repeats and delays, and processes that begin together on it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from tests.engine.actions import PASS, Action, DropRequest, DropResponse, Duplicate, Hold
from tests.engine.proxy import Proxy
from tests.support.processes import Worker

__all__ = ["BadNetwork", "started_together"]

W = TypeVar("W", bound=Worker)

WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
LATE = 0.5
"""Seconds, at most, until a request arrives whose client has given up."""


class BadNetwork:
    """Of a hundred writes, loses three, answers four with nothing, sends three twice, and delivers three late."""

    def __init__(self) -> None:
        self._random = random.Random(12)
        self.late: list[threading.Timer] = []

    def __call__(self, target: str, _body: object, _ordinal: int) -> Action:
        """Say what happens to a request."""
        if target not in WRITES:
            return PASS
        lot = self._random.random()
        if lot < 0.03:
            held = Hold()
            self.late.append(threading.Timer(self._random.uniform(0, LATE), held.event.set))
            self.late[-1].start()
            return held
        if lot < 0.06:
            return DropRequest()
        if lot < 0.1:
            return DropResponse()
        return Duplicate("first" if lot < 0.115 else "second") if lot < 0.13 else PASS

    def arrive(self, proxy: Proxy) -> None:
        """Wait until the server has answered every request, the late ones included."""
        for timer in self.late:
            timer.join()
        proxy.wait_until_idle()


@contextmanager
def started_together(kind: type[W], settings: dict[str, Any], commands: Sequence[list[str]]) -> Iterator[list[W]]:
    """Start a process for each command, let all begin at once, and end them with the test."""
    with ExitStack() as stack:
        started = [kind(settings, *command) for command in commands]
        for each in started:
            stack.callback(each.end)
        for each in started:
            assert each.hear() == "ready"
        for each in started:
            each.go()
        yield started
