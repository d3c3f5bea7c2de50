"""Pauses between two tries of a request, with full jitter."""

from __future__ import annotations

import random
from collections.abc import Iterator


def backoff(*, tries: int | None = None, base: float = 0.05, longest: float = 5.0) -> Iterator[float | None]:
    """Yield the pause before each next try in seconds, with full jitter; None when no further try is allowed."""
    number = 0
    while tries is None or number < tries - 1:
        yield random.uniform(0, min(longest, base * 2 ** min(number, 30)))  # noqa: S311 - spreads load, guards nothing
        number += 1
    yield None
