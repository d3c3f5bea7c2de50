"""Queries by state: each matching task once, whole, in order, within a window of time."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import State, Step, UseCase
from pynamodb_tracker.clock import StoppedClock
from tests.support.engines import only_dynoxide
from tests.support.recorder import recorded
from tests.support.rows import change, client, stored
from tests.support.shop import AppTask, Order, Parcel
from tests.support.workers import die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

MINUTE = timedelta(minutes=1)


class Single(AppTask):
    use_case_id = UseCase("single")

    sort = Step(10)


SHARDS: list[Any] = [pytest.param(Single, id="1 shard"), pytest.param(Parcel, id="5 shards")]
Case = type[Single] | type[Parcel]


def ids(tasks: Iterable[Any]) -> list[str]:
    return [task.task_id for task in tasks]


def create_in_turn(case: Case, clock: StoppedClock, count: int = 12) -> list[str]:
    """Create tasks a minute apart, and return their ids in the order in which they are due."""
    task_ids = [f"t-{number:02}" for number in range(count)]
    for task_id in task_ids:
        case.create(task_id)
        clock.advance(MINUTE)
    return task_ids


@pytest.mark.parametrize("case", SHARDS)
def test_tasks_are_returned_in_the_order_in_which_they_are_due(case: Case, clock: StoppedClock) -> None:
    now = clock.now()
    order = [7, 2, 9, 0, 5, 11, 3, 8, 1, 10, 4, 6]
    for number in order:
        case.create(f"t-{number:02}", due_time=now + number * MINUTE)
    assert ids(case.sort.pending.query()) == sorted(f"t-{number:02}" for number in order)


@pytest.mark.parametrize("case", SHARDS)
@pytest.mark.parametrize("latest_due_first", [False, True])
def test_a_limit_takes_the_first_ones(case: Case, clock: StoppedClock, *, latest_due_first: bool) -> None:
    expected = create_in_turn(case, clock)[:: -1 if latest_due_first else 1]
    for limit in (1, 5, 12, 13):
        assert ids(case.sort.pending.query(limit=limit, latest_due_first=latest_due_first)) == expected[:limit]


@pytest.mark.parametrize("case", SHARDS)
def test_tasks_that_are_due_at_the_same_time_are_each_returned_once(case: Case) -> None:
    task_ids = [f"t-{number}" for number in range(12)]
    case.create_many(task_ids)
    assert sorted(ids(case.sort.pending.query())) == sorted(task_ids)


@pytest.mark.parametrize("case", SHARDS)
def test_tasks_are_returned_whole(case: Case) -> None:
    case.create("t-1", data={"a": [1, {"b": 2}]})
    (task,) = case.sort.pending.query()
    assert isinstance(task, case)
    assert (task.data, task.to_dynamodb_dict()) == ({"a": [1, {"b": 2}]}, case.get_task("t-1").to_dynamodb_dict())


@pytest.mark.parametrize("case", SHARDS)
def test_tasks_in_other_states_and_of_other_use_cases_are_not_returned(case: Case) -> None:
    for task_id in ("done", "failed", "pending"):
        case.create(task_id)
    Order.create("order")
    succeed(case.sort, "done")
    fail(case.sort, "failed")
    assert (ids(case.sort.pending.query()), ids(case.sort.failed.query())) == (["pending"], ["failed"])
    assert ids(case.sort.succeeded.query()) == ["done"]


def test_each_state_of_a_step_can_be_queried(clock: StoppedClock) -> None:
    expected: dict[State[Order], str] = {}
    for state in (Order.ship.pending, Order.ship.failed, Order.ship.ignored, Order.ship.succeeded):
        Order.create(str(state), state=state)
        expected[state] = str(state)
    Order.create("running", state=Order.ship.pending)
    die(Order.ship, "running")
    expected[Order.ship.in_progress] = "running"
    assert {state: ids(state.query()) for state in expected} == {state: [name] for state, name in expected.items()}
    clock.advance(timedelta(days=1))
    assert ids(Order.ship.in_progress.query()) == ["running"]


def test_use_cases_with_a_common_prefix_are_independent() -> None:
    class Sing(AppTask):
        use_case_id = UseCase("sing")

        sort = Step(10)

    Sing.create("x")
    Single.create("y")
    assert (ids(Sing.sort.pending.query()), ids(Single.sort.pending.query())) == (["x"], ["y"])


def test_a_query_reads_nothing_before_it_is_iterated() -> None:
    with recorded() as requests:
        tasks = Single.sort.pending.query()
        assert requests == []
        assert (list(tasks), requests.operations) == ([], ["Query"])


def test_a_query_reads_a_page_at_a_time(clock: StoppedClock) -> None:
    Single.create_many(f"t-{number}" for number in range(120))
    clock.advance(MINUTE)
    with recorded() as requests:
        tasks = Single.sort.pending.query()
        next(tasks)
        assert (requests.operations, len(list(tasks))) == (["Query", "BatchGetItem"], 119)
    assert requests.operations == ["Query", "BatchGetItem", "BatchGetItem"]


def test_whole_rows_are_read_strongly_consistent() -> None:
    Single.create("t-1")
    with recorded() as requests:
        list(Single.sort.pending.query())
    ((table,),) = (requests[-1].body["RequestItems"].values(),)
    assert table["ConsistentRead"] is True


@only_dynoxide
def test_a_query_for_10_of_300_tasks_in_5_shards_takes_at_most_6_requests_and_one_for_all_yields_each_once() -> None:
    expected = write_many(Parcel, 300)
    with recorded() as requests:
        assert ids(Parcel.sort.pending.query(limit=10)) == expected[:10]
    assert len(requests) <= 6
    assert requests.entries_read <= 5 * 10
    assert ids(Parcel.sort.pending.query()) == expected


@only_dynoxide
def test_a_query_of_600_tasks_in_1_shard_yields_each_once_in_order() -> None:
    expected = write_many(Single, 600)
    assert (ids(Single.sort.pending.query()), Single.sort.pending.count()) == (expected, 600)


@only_dynoxide
def test_rows_that_exceed_one_answer_of_dynamodb_are_returned_whole(clock: StoppedClock) -> None:
    text = "x" * 380_000
    for number in range(45):
        Single.create(f"t-{number:02}", data={"text": text})
        clock.advance(timedelta(seconds=1))
    with recorded() as requests:
        tasks = list(Single.sort.pending.query())
    assert ids(tasks) == [f"t-{number:02}" for number in range(45)]
    assert all(task.data == {"text": text} for task in tasks)
    assert requests.operations.count("BatchGetItem") >= 2


def write_many(case: Case, count: int) -> list[str]:
    """Store many pending tasks quickly, due one after the other, and return their ids in that order."""
    task_ids = [f"t-{number:04}" for number in range(count)]
    case.create("model")
    model = stored(case, "model")
    case.delete_task("model")
    writes = []
    for number, task_id in enumerate(task_ids):
        due_time = model["due_time"]["S"][:-11] + f"{number:06}+0000"
        status_key = case.tracker.status_key(10, task_id)
        changed = {"task_id": {"S": task_id}, "status_key": {"S": status_key}, "due_time": {"S": due_time}}
        writes.append({"PutRequest": {"Item": {**model, **changed}}})
    for start in range(0, count, 25):
        client(case).batch_write_item(RequestItems={case.Meta.table_name: writes[start : start + 25]})
    return task_ids


@only_dynoxide
@pytest.mark.parametrize("move", [succeed, fail, die, lambda step, task_id: step.model.delete_task(task_id)])
def test_a_task_that_changed_state_since_the_index_was_read_is_not_returned(move: Any, clock: StoppedClock) -> None:
    Single.create_many(f"t-{number:03}" for number in range(101))
    clock.advance(MINUTE)
    Single.create("last")
    tasks = Single.sort.pending.query()
    next(tasks)  # 102 entries of the index and the first 100 rows are read by now
    move(Single.sort, "last")
    rest = ids(tasks)
    assert len(rest) == 100
    assert "last" not in rest


@only_dynoxide
def test_a_task_that_fails_again_since_the_index_was_read_is_not_returned_twice(clock: StoppedClock) -> None:
    Single.create_many([{"task_id": f"t-{number:03}", "state": Single.sort.failed} for number in range(101)])
    clock.advance(MINUTE)
    came = []
    for task in Single.sort.failed.query():
        came.append(task.task_id)
        if len(came) < 3:
            fail(Single.sort, task.task_id)
    assert sorted(came) == [f"t-{number:03}" for number in range(101)]


def test_a_task_past_its_time_to_live_is_not_returned(clock: StoppedClock) -> None:
    Single.create("t-1", state=Single.sort.succeeded)
    change(Single, "t-1", expire_time={"N": str(int(clock.now().timestamp()) - 1)})
    assert ids(Single.sort.succeeded.query()) == []


def test_two_queries_at_once_do_not_disturb_each_other(clock: StoppedClock) -> None:
    expected = create_in_turn(Single, clock, 3)
    first, second = Single.sort.pending.query(), Single.sort.pending.query()
    assert [(one.task_id, other.task_id) for one, other in zip(first, second, strict=True)] == [
        (task_id, task_id) for task_id in expected
    ]
