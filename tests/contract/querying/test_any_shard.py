"""Work begins at any shard, with few requests however many shards there are, and reaches all of them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import Step, UseCase, Worker
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.clock import StoppedClock, stamp
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.query import state_scan
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import AppTask, Parcel
from tests.support.workers import die, fail
from tests.work.test_polling import Poller

pytestmark = pytest.mark.usefixtures("table")

SHARDS = 64
LONGEST = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)


class Leaflet(AppTask):
    use_case_id = UseCase("leaflet", status_shards=SHARDS)

    fold = Step(10)


def in_shard(model: Any, shard: int, number: int = 1) -> list[str]:
    found, last = list[str](), 0
    while len(found) < number:
        if model.tracker.status_key(10, f"t-{last}").endswith(f"#{shard}"):
            found.append(f"t-{last}")
        last += 1
    return found


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let shards take turns from the first to the last."""
    monkeypatch.setattr(RANDOM, "sample", lambda shards, _: list(shards))


def by_run_all(function: Callable[[Any], object]) -> None:
    Leaflet.fold.run_all(function)


def by_worker(function: Callable[[Any], object]) -> None:
    Worker({Leaflet.fold: function}).run()


def by_retry_handler(function: Callable[[Any], object]) -> None:
    retry_handler(Leaflet.fold, function)({}, None)


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("work", [by_run_all, by_worker, by_retry_handler])
def test_the_first_task_of_64_shards_is_at_most_6_requests_away(work: Any) -> None:
    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    Leaflet.create_many(in_shard(Leaflet, 0))
    with recorded() as requests, suppress(KeyboardInterrupt):
        work(stop)
    assert requests.operations.index("UpdateItem") <= 5


@pytest.mark.parametrize("threads", [1, 8])
def test_each_task_of_each_shard_and_state_is_tried_once(clock: StoppedClock, threads: int) -> None:
    ids = [task_id for shard in range(5) for task_id in in_shard(Parcel, shard, 3)]
    Parcel.create_many(ids)
    fail(Parcel.sort, ids[0])
    die(Parcel.sort, ids[-1])
    clock.advance(6 * MINUTE)
    assert sorted(Parcel.sort.run_all(lambda _: None, threads=threads).succeeded) == sorted(ids)


@pytest.mark.usefixtures("in_order")
def test_a_batch_with_a_limit_reads_no_more_than_it_needs() -> None:
    Leaflet.create_many(in_shard(Leaflet, 0, 3))
    with recorded() as requests:
        assert len(Leaflet.fold.run_all(lambda _: None, limit=2).succeeded) == 2
    about_numbers = ["GetItem", "UpdateItem"]
    assert (requests.operations, requests.entries_read) == (about_numbers + ["Query"] * 3 + ["UpdateItem"] * 4, 2)


def test_in_a_shard_the_oldest_is_first_so_that_no_state_keeps_another_from_being_run(clock: StoppedClock) -> None:
    ids = in_shard(Parcel, 0, 6)
    for number, task_id in enumerate(ids):
        Parcel.create(task_id)
        if number % 2:
            fail(Parcel.sort, task_id)
        clock.advance(MINUTE)
    ran: list[str] = []
    Parcel.sort.run_all(lambda ctx: ran.append(ctx.task.task_id))
    assert ran == ids


def test_a_poll_of_an_idle_worker_asks_8_shards_and_each_has_its_turn_within_the_longest_pause(
    clock: StoppedClock,
) -> None:
    poller, asked = Poller(Leaflet.fold._definition), list[str]()
    poller._backoff._next = poller._backoff._longest  # it has been idle for long
    begin = clock.now()
    for _ in range(SHARDS // 8):
        with recorded() as requests:
            assert poller.take() is None
        polls = [request for request in requests if request.operation == "Query"]
        asked += [poll.body["ExpressionAttributeValues"][":0"]["S"] for poll in polls]
        clock.advance(poller.next_look - clock.now())
    assert 0.9 * LONGEST <= clock.now() - begin <= LONGEST
    assert len(asked) == len(set(asked)) == 3 * SHARDS


@pytest.mark.usefixtures("in_order")
def test_a_task_whose_due_time_was_seen_is_found_within_half_a_second_wherever_the_rotation_is(
    clock: StoppedClock,
) -> None:
    due = clock.now() + timedelta(seconds=6)
    Leaflet.create_many({"task_id": task_id, "due_time": due} for task_id in in_shard(Leaflet, 3))
    poller = Poller(Leaflet.fold._definition)
    while poller.take() is None:
        clock.advance(poller.next_look - clock.now())
    assert timedelta(0) <= clock.now() - due <= timedelta(seconds=0.5)


@pytest.mark.usefixtures("in_order")
def test_a_task_that_fails_is_found_as_soon_as_it_is_due_again_wherever_the_rotation_is(clock: StoppedClock) -> None:
    [task_id] = in_shard(Leaflet, 3)
    Leaflet.create(task_id)
    poller = Poller(Leaflet.fold._definition)
    assert poller.take() == task_id
    later = clock.now() + timedelta(seconds=2)
    fail(Leaflet.fold, task_id)
    change(Leaflet, task_id, due_time={"S": stamp(later)})
    poller.ends(
        task_id, "failed", due_time=later, tracker=Leaflet.tracker, status_key=Leaflet.get_task(task_id).status_key
    )
    while poller.take() is None:
        clock.advance(poller.next_look - clock.now())
    assert timedelta(0) <= clock.now() - later <= timedelta(seconds=0.5)


def test_an_extended_lock_is_read_once_in_30_seconds_and_keeps_no_other_shard_from_being_run(
    clock: StoppedClock,
) -> None:
    ids = [task_id for shard in range(5) for task_id in in_shard(Parcel, shard)]
    Parcel.create(ids[0])
    with Parcel.sort.start(ids[0]) as ctx:
        ctx.extend_lock(timedelta(hours=1))
        clock.advance(10 * MINUTE)
        Parcel.create_many(ids[1:])
        poller = Poller(Parcel.sort._definition)
        with recorded() as requests:
            found = [poller.take() for _ in range(10)]
    assert sorted(task_id for task_id in found if task_id is not None) == sorted(ids[1:])
    assert requests.operations.count("BatchGetItem") == 1


def test_a_query_asks_all_shards_at_once_each_for_little_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    def noted(ask: Any, questions: Sequence[Any]) -> list[Any]:
        asked.append(len(questions))
        return side_by_side(ask, questions)

    asked: list[int] = []
    monkeypatch.setattr(state_scan, "side_by_side", noted)
    Parcel.create_many([task_id for shard in range(5) for task_id in in_shard(Parcel, shard, 8)], threads=4)
    with recorded() as requests:
        assert len(list(Parcel.sort.pending.query(limit=40, with_data=False))) == 40
    assert [request.body["Limit"] for request in requests if request.operation == "Query"] == [14] * 5
    assert asked == [5]
