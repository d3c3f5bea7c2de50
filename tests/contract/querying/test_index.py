"""The index: small entries, whatever the rows hold, and the same shard for an id in every process."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.clock import StoppedClock
from tests.support.rows import client, index_entries, item_bytes, stored
from tests.support.shop import AppTask, Order, Parcel
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table")

KEYS = {"task_id", "use_case_id", "status_key", "due_time"}
PROJECTED = {"status", "attempt", "create_time", "update_time", "last_error"}


def test_an_entry_has_the_keys_and_a_few_small_attributes() -> None:
    Order.create("o-1", amount=5, tracking_no="T-1", data={"a": "x" * 10_000})
    fail(Order.confirm_payment, "o-1")
    (entry,) = index_entries(AppTask)
    assert set(entry) == KEYS | PROJECTED


def test_an_entry_is_small_whatever_the_row_holds() -> None:
    Order.create("o-1", data={"a": "x" * 300_000})
    die(Order.confirm_payment, "o-1")
    (entry,) = index_entries(AppTask)
    assert item_bytes(entry) < 300


def test_an_entry_stays_below_a_write_unit_whatever_the_failure_said() -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken("x" * 450_000))
    (entry,) = index_entries(AppTask)
    assert item_bytes(entry) < 600


def keys_of(described: Any) -> dict[str, str]:
    return {key["KeyType"]: key["AttributeName"] for key in described["KeySchema"]}


def test_the_table_is_on_demand_and_has_one_index() -> None:
    described = client(AppTask).describe_table(TableName=AppTask.Meta.table_name)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert keys_of(described) == {"HASH": "task_id", "RANGE": "use_case_id"}
    (index,) = described["GlobalSecondaryIndexes"]
    assert (index["IndexName"], keys_of(index)) == ("status-index", {"HASH": "status_key", "RANGE": "due_time"})
    assert index["Projection"]["ProjectionType"] == "INCLUDE"
    assert set(index["Projection"]["NonKeyAttributes"]) == PROJECTED


def test_the_table_deletes_by_expire_time() -> None:
    ttl = client(AppTask).describe_time_to_live(TableName=AppTask.Meta.table_name)["TimeToLiveDescription"]
    assert (ttl["AttributeName"], ttl["TimeToLiveStatus"]) == ("expire_time", "ENABLED")


def test_the_key_of_an_entry_is_use_case_code_and_shard() -> None:
    Order.create("o-1")
    assert stored(Order, "o-1")["status_key"] == {"S": "order#10#0"}
    die(Order.confirm_payment, "o-1")
    assert stored(Order, "o-1")["status_key"] == {"S": "order#11#0"}


def test_tasks_spread_over_the_shards() -> None:
    Parcel.create_many(f"p-{number}" for number in range(60))
    assert {entry["status_key"]["S"] for entry in index_entries(AppTask)} == {f"parcel#10#{n}" for n in range(5)}


def test_a_task_keeps_its_shard_from_state_to_state() -> None:
    Parcel.create("p-1")
    before = stored(Parcel, "p-1")["status_key"]["S"].rpartition("#")[2]
    fail(Parcel.sort, "p-1")
    assert stored(Parcel, "p-1")["status_key"]["S"] == f"parcel#12#{before}"


def test_the_shard_of_an_id_is_the_same_in_another_process() -> None:
    program = (
        "from tests.support.shop import Parcel\n"
        "print([Parcel.tracker.status_key(10, f'道-{number}') for number in range(20)])"
    )
    other = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": "7"}
    )
    assert other.stdout.strip() == str([Parcel.tracker.status_key(10, f"道-{number}") for number in range(20)])


def test_an_entry_has_the_last_error_of_a_waiting_task_and_none_of_a_succeeded_one(clock: StoppedClock) -> None:
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", Broken("of the first attempt"))
    (entry,) = index_entries(AppTask)
    assert entry["last_error"] == {"S": "Broken: of the first attempt"}
    clock.advance(timedelta(minutes=1))
    with Order.confirm_payment.start("o-1"):
        pass
    (entry,) = index_entries(AppTask)
    assert "last_error" not in entry
