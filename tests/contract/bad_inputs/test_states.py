"""States: of this use case, and not in progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import State, Status
from tests.contract.odd_values import STATE, STEP, Level, columns, nothing, refuses
from tests.support.shop import Order, Parcel

pytestmark = pytest.mark.usefixtures("table")

NO_STATES: list[Any] = [
    *("pending", Status.PENDING, 10, NotImplemented, Level.HIGH, b"", object(), State, STEP, (STATE,)),
    *(STEP.in_progress, Parcel.sort.pending, State(Order, "pack", Status.PENDING, 15)),
]

ALSO_FROM: list[Any] = [
    ((Order.ship.pending, None), "also_from has None, which is no state of Order"),
    ((Order.ship,), "also_from has <Step Order.ship .20.>, which is no state of Order"),
    (STATE, r"also_from is a sequence of states, not one: write also_from=\("),
    ("pending", "also_from is a sequence of states, not "),
    *(
        (value, r"also_from is a sequence of states.*write also_from=\(ship.failed,\)")
        for value in (Order.ship, None, 20, "")
    ),
]


@columns("state")(NO_STATES)
def test_what_is_no_state_to_begin_in_is_refused(state: Any) -> None:
    refuses(lambda: Order.create("o-1", state=state), "is no state of Order|cannot be created as")
    refuses(lambda: Order.create_many([{"task_id": "o-1", "state": state}]), "state|in_progress")


@columns("state")(NO_STATES)
def test_what_is_no_state_to_start_from_is_refused(state: Any) -> None:
    refuses(lambda: STEP.start("o-1", also_from=[state]), "also_from has ")
    refuses(lambda: STEP.run("o-1", nothing, also_from=(state,)), "also_from has ")


@columns("also_from", "message")(ALSO_FROM)
def test_what_is_no_sequence_of_states_is_refused(also_from: Any, message: str) -> None:
    refuses(lambda: STEP.start("o-1", also_from=also_from), message)
    refuses(lambda: STEP.run("o-1", nothing, also_from=also_from), message)


@pytest.mark.parametrize("kind", [tuple, list, set, iter, dict.fromkeys])
def test_any_collection_of_states_will_do(kind: Callable[[Any], Any]) -> None:
    Order.create("o-1", state=Order.ship.failed)
    with STEP.start("o-1", also_from=kind([Order.ship.failed])) as ctx:
        assert ctx.attempt == 1
