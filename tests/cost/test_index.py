"""What the index has of a task: little, and the same for a large one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.engine import Engine

pytestmark = pytest.mark.usefixtures("stopped_clock")

ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"

PROJECTED = {
    "task_id",
    "use_case_id",
    "status_key",
    "due_time",
    "status",
    "attempt",
    "create_time",
    "update_time",
    "last_error",
}


def entry(order: Any, state: Any) -> dict[str, dict[str, str]]:
    (key,) = order.tracker.use_case.status_keys(state.code)
    (item,) = order.tracker.connection().query(key, index_name="status-index")["Items"]
    entry: dict[str, dict[str, str]] = item
    return entry


def size(item: dict[str, dict[str, str]]) -> int:
    """Return the bytes of an entry, all values as text, which is what DynamoDB counts or a little more."""
    return sum(len(name) + sum(len(text.encode()) for text in value.values()) for name, value in item.items())


def test_an_entry_has_the_keys_and_a_few_small_attributes(rival: Any) -> None:
    rival.create(ID, data={"scan": "x" * 100_000})
    with pytest.raises(ZeroDivisionError):
        rival.confirm.run(ID, lambda _: 1 / 0)

    assert entry(rival, rival.confirm.failed).keys() == PROJECTED


def test_an_entry_takes_about_285_bytes(rival: Any) -> None:
    rival.create(ID, data={"scan": "x" * 100_000}, note="n" * 1000)

    assert size(entry(rival, rival.confirm.pending)) <= 285


def test_an_entry_of_a_task_that_failed_with_a_long_message_stays_far_below_1_kb(rival: Any) -> None:
    rival.create(ID)
    with pytest.raises(ValueError, match="é"), rival.confirm.start(ID):
        raise ValueError("é" * 100_000)

    assert size(entry(rival, rival.confirm.failed)) <= 285 + 220


def test_the_trackers_own_attributes_take_about_300_bytes(rival: Any) -> None:
    rival.create(ID)

    with rival.confirm.start(ID):
        item = rival.tracker.connection().get_item(ID, rival.tracker.use_case.name, consistent_read=True)["Item"]

    own = {name: value for name, value in item.items() if name not in {"task_id", "unfinished"}}
    assert size(own) <= 330


@pytest.mark.parametrize("shards", [1, 5])
def test_every_shard_is_a_hash_key_of_its_own(new_worker: Any, dynamodb: Engine, shards: int) -> None:
    order = new_worker(dynamodb.endpoint, status_shards=shards)
    order.create_many([f"o-{number}" for number in range(50)])

    keys = {task.status_key for task in order.confirm.pending.query()}

    assert keys == set(order.tracker.use_case.status_keys(10))
    assert len(keys) == shards
