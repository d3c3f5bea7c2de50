"""Stands for the gateway and the carrier: what they did for each order, by step, and how they fail."""

from collections import Counter
from collections.abc import Callable
from typing import Any

Rule = Callable[[str, int], None]
"""Called with the effect, such as `o-1/ship`, and which call for it this is, from 1; what it raises is the answer."""

_ANSWERS = {"charges": "receipt", "labels": "tracking_no", "deliveries": "handed_over"}
_STEPS = {"charges": "confirm_payment", "labels": "ship", "deliveries": "deliver"}


def willing(_effect: str, _call: int) -> None: ...


class Services:
    def __init__(self, does: Callable[[Callable[[], dict[str, Any]]], dict[str, Any]]) -> None:
        """Take how an invocation does something outside of itself."""
        self._does = does
        self.calls: Counter[str] = Counter()
        self.bodies: dict[str, dict[str, Any]] = {}
        """What was done, once for each idempotency key."""
        self.keys: dict[str, str] = {}
        """The key of each effect."""
        self.refuses: Rule = willing
        """Before anything is done."""
        self.loses: Rule = willing
        """After it is done: the answer does not arrive."""

    def post(self, _service: str, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Do it once for each key, and give the same answer each time."""
        return self._does(lambda: self._done(path, key, body))

    def _done(self, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        effect = f"{body['order_id']}/{_STEPS[path]}"
        self.calls[effect] += 1
        self.refuses(effect, self.calls[effect])
        assert self.keys.setdefault(effect, key) == key, f"{effect} came with another key"
        assert self.bodies.setdefault(effect, body) == body, f"{effect} came with another body"
        self.loses(effect, self.calls[effect])
        return {_ANSWERS[path]: f"{path} of {effect}"}
