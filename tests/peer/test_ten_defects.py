"""The ten defects of the peer, each as a test that it does not exist here; longer tests are in separate files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import LockLostError, TaskAlreadyExistsError, TaskLockedError, TaskNotStartableError
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import THROTTLED, Action, DropRequest, DropResponse, Fail
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.operations import Boom
from tests.support.processes import Crew, crew, until
from tests.support.proxy_rules import in_turn
from tests.support.world import OVER, fail

LOCK, MARGIN = timedelta(seconds=1.5), timedelta(seconds=0.2)

Freeze = Callable[..., Frozen]


@pytest.fixture
def workers(dynamodb: Engine, table: str, name: str) -> Iterator[Crew]:
    with crew(dynamodb.endpoint, table, name, LOCK, MARGIN) as workers:
        yield workers


@pytest.mark.race
def test_1_a_worker_killed_inside_of_a_run_strands_no_task_and_its_attempt_counts(
    new_worker: Any, dynamodb: Engine, workers: Crew
) -> None:
    order = new_worker(dynamodb.endpoint, lock_for=LOCK, margin=MARGIN)
    order.create("o")
    doomed = workers.start("hold", "o")
    assert doomed.hear() == "ready"
    doomed.go()
    assert doomed.hear() == "inside"
    doomed.end()  # SIGKILL
    locked_until = order.get_task("o").lock_expire_time

    def takes_over() -> Any:
        with contextlib.suppress(TaskLockedError), order.confirm.start("o") as ctx:
            return ctx
        return None

    next_run = until(takes_over)
    assert next_run.task.update_time > locked_until + MARGIN
    assert (next_run.attempt, next_run.task.fence) == (2, 2)
    assert order.get_task("o").state == order.confirm.succeeded


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("detailed", [True, False])
@pytest.mark.parametrize("lost", [1, 3])
def test_2_lost_answers_to_create_claim_and_finish_neither_strand_nor_count_twice(
    order: Any, proxy: Proxy, *, lost: int, detailed: bool
) -> None:
    responses_get_lost = [DropResponse()] * lost
    proxy.rule = in_turn("PutItem", *responses_get_lost)
    order.create("o")

    proxy.rule = in_turn("UpdateItem", *responses_get_lost)
    with contextlib.suppress(Boom), order.confirm.start("o", detailed_error=detailed) as ctx:
        proxy.rule = in_turn("UpdateItem", *responses_get_lost)
        raise Boom
    task = order.get_task("o")
    assert (task.state, task.attempt, task.fence, len(task.errors)) == (order.confirm.failed, 1, 1, 1)

    with order.confirm.start("o", detailed_error=detailed) as ctx:
        assert ctx.attempt == 2
        proxy.rule = in_turn("UpdateItem", *responses_get_lost)
    task = order.get_task("o")
    assert (task.state, task.attempt, task.fence) == (order.confirm.succeeded, 0, 2)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(
    ("kind", "state", "attempt"),
    [
        (KeyboardInterrupt, "confirm pending", 0),
        (SystemExit, "confirm failed", 1),
        (GeneratorExit, "confirm failed", 1),
        (asyncio.CancelledError, "confirm failed", 1),
    ],
)
def test_3_no_exception_leaves_the_lock_behind(rival: Any, kind: type[BaseException], state: str, attempt: int) -> None:
    rival.create("o")

    with pytest.raises(kind), rival.confirm.start("o"):
        raise kind

    task = rival.get_task("o")
    assert (str(task.state), task.attempt) == (state, attempt)
    assert rival.confirm.run("o", lambda ctx: ctx.attempt) == attempt + 1


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(
    "trouble", [THROTTLED, Fail(), Fail(503, "ServiceUnavailable"), DropRequest(), DropResponse()], ids=str
)
def test_4_finished_work_is_recorded_as_soon_as_its_write_gets_through(
    order: Any, proxy: Proxy, trouble: Action
) -> None:
    order.create("o")

    with order.confirm.start("o") as ctx:
        ctx.task.note = "charged"
        proxy.rule = in_turn("UpdateItem", *[trouble] * 13)

    task = order.get_task("o")
    assert (task.state, task.note, task.fence) == (order.confirm.succeeded, "charged", 1)
    assert not task.errors


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("message", ["it broke", "x" * 50_000, "é" * 225_000], ids=["short", "50 KB", "450 KB"])
def test_5_no_failure_and_no_history_of_failures_outgrows_the_row(rival: Any, message: str) -> None:
    rival.create("o", note="n" * 1000)

    for _ in range(30):
        with pytest.raises(ValueError, match=message[:8]), rival.confirm.start("o"):
            raise ValueError(message)
        if rival.get_task("o").state == rival.confirm.ignored:
            rival.confirm.reopen("o")

    task = rival.get_task("o")
    assert task.fence == 30
    assert task.errors[-1].message.startswith(message[:8])


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("state", ["pending", "in_progress", "failed", "succeeded", "ignored"])
def test_6_creating_a_task_again_resets_nothing(rival: Any, freeze: Freeze, state: str) -> None:
    rival.create("o", amount=1)
    if state == "in_progress":
        freeze(rival.confirm, "o")
    elif state == "failed":
        fail(rival.confirm)
    elif state == "succeeded":
        rival.confirm.run("o", lambda _: None)
    elif state == "ignored":
        rival.confirm.ignore("o", reason="cancelled")
    before = rival.get_task("o").attribute_values

    with pytest.raises(TaskAlreadyExistsError):
        rival.create("o", amount=2)

    assert rival.get_task("o").attribute_values == before
    assert rival.get_task("o").state == getattr(rival.confirm, state)


@pytest.mark.parametrize("latest_due_first", [False, True])
def test_7_a_query_is_limited_over_all_shards_in_order_and_of_whole_rows(
    new_worker: Any, dynamodb: Engine, stopped_clock: StoppedClock, *, latest_due_first: bool
) -> None:
    order = new_worker(dynamodb.endpoint, status_shards=5)
    ids = [f"o-{number}" for number in range(30)]
    for task_id in ids:
        stopped_clock.advance(timedelta(seconds=1))
        order.create(task_id, amount=len(task_id), data={"id": task_id})

    found = list(order.confirm.pending.query(limit=10, latest_due_first=latest_due_first))

    assert [task.task_id for task in found] == (ids[:-11:-1] if latest_due_first else ids[:10])
    assert all(task.data == {"id": task.task_id} and task.amount == len(task.task_id) for task in found)


@pytest.mark.usefixtures("stopped_clock")
def test_8_deleting_a_use_case_spares_one_whose_name_begins_with_its_name(
    new_worker: Any, dynamodb: Engine, name: str
) -> None:
    order, longer = (new_worker(dynamodb.endpoint, name=each) for each in (name, f"{name}2"))
    for task_id in ("a", "b"):
        order.create(task_id)
        longer.create(task_id)

    assert sorted(order.delete_use_case().succeeded) == ["a", "b"]

    assert sorted(task.task_id for task in longer.confirm.pending.query()) == ["a", "b"]
    assert order.confirm.pending.count() == 0


@pytest.mark.usefixtures("stopped_clock")
def test_9_a_refusal_is_explained_by_default_and_by_a_consistent_read(order: Any, proxy: Proxy, freeze: Freeze) -> None:
    order.create("o")
    freeze(order.confirm, "o")

    with pytest.raises(TaskLockedError) as error:
        order.confirm.run("o", lambda _: None)

    assert error.value.task is not None
    assert error.value.task.worker
    assert proxy.log[-1].target == "GetItem"
    assert proxy.log[-1].body["ConsistentRead"] is True


@pytest.mark.parametrize("raised", [None, Boom("own")])
def test_10_a_worker_that_outlived_its_lock_gets_an_error_and_keeps_its_own_exception(
    rival: Any, freeze: Freeze, stopped_clock: StoppedClock, raised: Boom | None
) -> None:
    rival.create("o")
    slow = freeze(rival.confirm, "o")
    stopped_clock.advance(OVER)
    rival.confirm.run("o", lambda _: None)

    with pytest.raises(Boom if raised else LockLostError) as error:
        slow.wake(raised)

    assert "was lost" in " ".join([str(error.value), *getattr(error.value, "__notes__", [])])
    assert rival.get_task("o").state == rival.confirm.succeeded


def test_the_base_of_all_refusals_is_raised_only_where_no_detail_was_wanted(rival: Any) -> None:
    with pytest.raises(TaskNotStartableError) as error:
        rival.confirm.run("missing", lambda _: None, detailed_error=False)

    assert type(error.value) is TaskNotStartableError
