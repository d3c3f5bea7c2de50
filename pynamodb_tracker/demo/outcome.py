"""The outcome: where each order should be by what is known of it, where the table says it is, and what it took."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pynamodb_tracker import State, Status
from pynamodb_tracker.demo.orders import STEPS, PlacedOrder
from pynamodb_tracker.demo.pipeline import Order, state_of

__all__ = ["Outcome", "Takeover", "goals", "read_outcome"]

_TRIES = 20
_PAUSE = 0.25
"""Seconds: the index of a real server lags behind for a moment."""


def goals(orders: Iterable[PlacedOrder]) -> dict[str, int]:
    """Return how many orders each step will be through with at the end, in the order of the steps."""
    started = Counter(step for order in orders for step in order.steps_started)
    return {step: started[step] for step in STEPS}


@dataclass(frozen=True, slots=True)
class Takeover:
    """A run that went on with an order whose last worker died."""

    order_id: str
    step: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the table says in the end, beside what the orders say."""

    orders: Sequence[PlacedOrder]
    rows: Mapping[str, Order]
    counts: Mapping[State[Order], int]
    """What `Order.counts()` returned."""

    @property
    def expected(self) -> Counter[State[Order]]:
        """How many orders should be in each state."""
        return Counter(state_of(*order.end) for order in self.orders)

    @property
    def differences(self) -> list[str]:
        """A line for each order that is not where it should be, and for each count that is not that of the rows."""
        lines = []
        for order in self.orders:
            row, should = self.rows.get(order.order_id), state_of(*order.end)
            if row is None or row.state != should:
                lines.append(f"{order.order_id} is {row.state if row else 'missing'}, and should be {should}")
        for state, number in self.counts.items():
            if number != self.expected[state]:
                lines.append(f"{state}: {number} counted, and {self.expected[state]} expected")
        return lines

    @property
    def ignored(self) -> dict[str, list[str]]:
        """The ids of the ignored orders by reason, the commonest first."""
        by_reason = defaultdict(list)
        for row in self.rows.values():
            if row.state.status is Status.IGNORED:
                by_reason[f"{row.state.step}: {row.errors[-1].message}"].append(row.task_id)
        return dict(sorted(by_reason.items(), key=lambda entry: (-len(entry[1]), entry[0])))

    @property
    def unfinished(self) -> int:
        """How many runs never finished, because their worker died or was too late."""
        return sum(len(row.unfinished or ()) for row in self.rows.values())

    @property
    def takeovers(self) -> list[Takeover]:
        """The runs that took over."""
        return [
            Takeover(row.task_id, **entry) for row in self.rows.values() for entry in row.data.get("taken_over", ())
        ]

    @property
    def runs(self) -> int:
        """How many runs there were: every claim has its own fence."""
        return sum(row.fence for row in self.rows.values())

    @property
    def retries(self) -> int:
        """How many of the runs were not the first one of their step."""
        return self.runs - sum(len(order.steps_started) for order in self.orders)


def read_outcome(orders: Sequence[PlacedOrder]) -> Outcome:
    """Read the counts and every row, by its state."""
    for pause in [_PAUSE] * _TRIES:
        outcome = _read(orders)
        if not outcome.differences:
            return outcome
        time.sleep(pause)
    return _read(orders)


def _read(orders: Sequence[PlacedOrder]) -> Outcome:
    counts = Order.counts()
    rows = {row.task_id: row for state, number in counts.items() if number for row in state.query()}
    return Outcome(orders, rows, counts)
