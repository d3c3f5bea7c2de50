"""The network of a run: what becomes of each request, decided by the seed and the request's number alone."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any

from tests.chaos.settings import Settings
from tests.engine.actions import (
    PASS,
    THROTTLED,
    Action,
    Delay,
    DropAnswer,
    DropRequest,
    Duplicate,
    Exchange,
    Fail,
    Hold,
)
from tests.engine.proxy import Proxy

__all__ = ["Faults", "Wire", "drawn"]

READS = {"GetItem", "BatchGetItem", "Query", "Scan"}


class Wire(Proxy):
    """A proxy that keeps no log: a long run would fill the memory with its requests."""

    requests = 0

    def begin(self, target: str, payload: bytes) -> Exchange:
        """Ask the rule what to do with a request."""
        try:
            body = json.loads(payload)
        except ValueError:
            raise ConnectionResetError("the client was killed while it sent a request") from None
        with self._lock:
            self.requests += 1
            return Exchange(target, body, self.rule(target, body, self.requests))


class After(threading.Event):
    """An event that sets itself after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._due = time.monotonic() + seconds

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, and tell whether it is set."""
        return time.monotonic() >= self._due or super().wait(timeout)


class Faults:
    """The rule of a proxy: requests fail at the given rates until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._stopped = False

    def stop(self) -> None:
        """Let everything pass from now on; what is held still arrives."""
        self._stopped = True

    def __call__(self, target: str, _: dict[str, Any], ordinal: int) -> Action:
        """Return what becomes of a request."""
        if self._stopped:
            return PASS
        kind, action = drawn(self._settings, target, ordinal)
        if kind:
            self.counts[f"{kind} {target}"] += 1
        return action


def drawn(settings: Settings, target: str, ordinal: int) -> tuple[str, Action]:
    """Return what becomes of the request of that number, and its name."""
    draw, rates = settings.drawn("request", ordinal), settings.rates
    at = draw.random() * (3 if target in READS else 1)
    later, held = draw.uniform(0.05, 2.0), draw.uniform(0.1, settings.longest_hold)
    actions: dict[str, tuple[float, Action]] = {
        "dropped request": (rates.drop_request, DropRequest()),
        "dropped answer": (rates.drop_answer, DropAnswer()),
        "duplicate": (rates.duplicate, Duplicate(draw.choice(("first", "second")))),
        "held": (rates.hold, Hold(After(held))),
        "delayed": (rates.delay, Delay(later)),
        "error 500": (rates.server_error, Fail()),
        "throttled": (rates.throttle, THROTTLED),
        "conflict": (rates.conflict, Fail(400, "TransactionConflictException")),
    }
    for kind, (rate, action) in actions.items():
        if at < rate:
            return kind, action
        at -= rate
    return "", PASS
