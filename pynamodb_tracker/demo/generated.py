"""Generated orders: most of them ordinary, some called off, and a few that can never succeed."""

from __future__ import annotations

import random

from pynamodb_tracker.demo.orders import PlacedOrder, Trouble

__all__ = ["generate_orders"]

_SHARES = {Trouble.DECLINED: 0.03, Trouble.SILENT: 0.01, Trouble.CRASHING: 0.005, Trouble.UNKNOWN: 0.02}
"""How many orders have each trouble."""

_CALLED_OFF = 0.02
"""How many orders the customer cancels before the payment."""


def generate_orders(count: int, seed: int) -> list[PlacedOrder]:
    """Return `count` orders, the same ones for the same seed; each trouble comes at least once, where there is room."""
    kinds: list[tuple[str, Trouble | None]] = [("canceled", None)] * _number(_CALLED_OFF, count)
    for trouble, share in _SHARES.items():
        kinds += [("delivered", trouble)] * _number(share, count)
    del kinds[count // 2 :]
    kinds += [("delivered", None)] * (count - len(kinds))
    random.Random(f"orders {seed}").shuffle(kinds)  # noqa: S311 - draws a demo, not a secret
    width = max(4, len(str(count)))
    return [
        PlacedOrder(f"o-{number:0{width}}", status, trouble=trouble)
        for number, (status, trouble) in enumerate(kinds, 1)
    ]


def _number(share: float, count: int) -> int:
    return max(1, round(share * count))
