"""Stands for the gateway and the carrier: what they did, by idempotency key, and how they fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["Services"]

Rule = Callable[[str, int], None]
"""Called with the key, and with which call for it this is, from 1; what it raises is the answer."""

_ANSWERS = {"charges": "receipt", "labels": "tracking_no", "deliveries": "handed_over"}


def willing(_key: str, _call: int) -> None:
    """Let every call through."""


class Services:
    """Both of them."""

    def __init__(self, does: Callable[[Callable[[], dict[str, Any]]], dict[str, Any]]) -> None:
        """Take how an invocation does something outside of itself."""
        self._does = does
        self.calls: Counter[str] = Counter()
        self.bodies: dict[str, dict[str, Any]] = {}
        """What was done, once for each key."""
        self.refuses: Rule = willing
        """Before anything is done."""
        self.loses: Rule = willing
        """After it is done: the answer does not arrive."""

    def post(self, _service: str, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Do it once for each key, and give the same answer each time."""
        return self._does(lambda: self._done(path, key, body))

    def _done(self, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls[key] += 1
        self.refuses(key, self.calls[key])
        first = self.bodies.setdefault(key, body)
        assert first == body, f"{key} came with another body"
        self.loses(key, self.calls[key])
        return {_ANSWERS[path]: f"{path} of {key}"}
