"""What `run`, `status` and `top` do with a limit."""

from collections.abc import Iterator

import pytest

from pynamodb_tracker import ConcurrencyLimit
from pynamodb_tracker.control import slots
from tests.cli.command import read, run
from tests.cli.shop import Order
from tests.support.recorder import recorded

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConcurrencyLimit]:
    slots._forget()
    monkeypatch.setattr(Order.pay._definition.declared, "concurrency_limit", bank := ConcurrencyLimit("bank", 3))
    yield bank
    slots._forget()


def test_run_takes_a_slot_for_what_is_due_and_none_for_tasks_that_are_named(bank: ConcurrencyLimit) -> None:
    Order.create_many(["o-1", "o-2"])
    with recorded(Order) as requests:
        assert run("run", "pay", "tests.cli.shop:charge", "o-1").code == 0
        assert not [
            request for request in requests if "lock_expire_time" in request.written and "wanted" in request.names
        ]
        assert run("run", "pay", "tests.cli.shop:charge").code == 0
    taken = [request for request in requests if request.body.get("Key", {}).get("use_case_id") == {"S": "#limit"}]
    assert len(taken) == 2  # taken, and given back
    assert slots.uses(Order) == [slots.Use("bank", bank.slots, 0)]


def test_status_says_how_many_slots_are_taken(bank: ConcurrencyLimit) -> None:
    Order.create("o-1")
    slots.slots_of(Order, bank).table.take(2)
    assert run("status").lines[1] == "limit bank: 1 of 3 slots are taken"
    assert "limit bank: 1 of 3 slots are taken" in run("top").lines
    assert read("status")["use_cases"][0]["limits"] == [{"limit": "bank", "slots": 3, "taken": 1}]
