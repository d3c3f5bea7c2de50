"""What `run_all` and `todo` take beside the function: which tasks, how fast, and who is told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pynamodb_tracker import ExecutionContext, Report
from tests.contract.orders import Order, Parcel
from tests.contract.recorder import recorded
from tests.contract.workers import Broken, die, fail

if TYPE_CHECKING:
    from pynamodb_tracker.clock import StoppedClock

pytestmark = pytest.mark.usefixtures("table")

STEP = Order.confirm_payment


def nothing(_ctx: ExecutionContext[Any]) -> None:
    """Do what there is to do in a block that only succeeds."""


@pytest.fixture
def mixed(clock: StoppedClock) -> None:
    """Have a task that waits, two that failed, and one whose worker died."""
    Order.create_many(["waits", "throttled", "refused", "dead"])
    fail(STEP, "throttled", Broken("429 Too Many Requests"))
    fail(STEP, "refused", Broken("card refused"))
    die(STEP, "dead")
    clock.advance(timedelta(minutes=6))


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("only", "run"),
    [
        ((), {"waits", "throttled", "refused", "dead"}),
        ((STEP.pending,), {"waits"}),
        ((STEP.failed,), {"throttled", "refused"}),
        ((STEP.in_progress,), {"dead"}),
        ([STEP.pending, STEP.in_progress], {"waits", "dead"}),
    ],
    ids=str,
)
def test_only_some_states_are_looked_at(only: Any, run: set[str]) -> None:
    assert {task.task_id for task in STEP.todo(only=only)} == set(STEP.due_ids(only=only)) == run
    assert set(STEP.run_all(nothing, only=only, dry_run=True).due) == run
    assert set(STEP.run_all(nothing, only=only).succeeded) == run


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("like", "run"),
    [
        ("too many", ["throttled"]),
        ("Broken", ["refused", "throttled"]),
        ("nothing says so", []),
        ("429", ["throttled"]),
    ],
)
def test_only_tasks_whose_last_error_is_like_that(like: str, run: list[str]) -> None:
    assert sorted(task.task_id for task in STEP.todo(error_like=like)) == sorted(STEP.due_ids(error_like=like)) == run
    assert sorted(STEP.run_all(nothing, error_like=like).succeeded) == run


@pytest.mark.usefixtures("mixed")
def test_a_limit_counts_what_is_like_that() -> None:
    assert [task.task_id for task in STEP.todo(error_like="card", limit=1)] == ["refused"]
    assert STEP.run_all(nothing, error_like="card", limit=1).succeeded == ["refused"]


@pytest.mark.usefixtures("mixed")
def test_a_dry_run_runs_nothing_and_tells_what_is_due() -> None:
    with recorded() as requests:
        report = STEP.run_all(lambda _: pytest.fail("it is dry"), dry_run=True, limit=3)
    assert (len(report.due), str(report)) == (3, "3 due")
    assert report == Report(due=report.due)
    assert "UpdateItem" not in requests.operations


@pytest.mark.parametrize("threads", [1, 4])
def test_a_rate_spreads_the_starts(clock: StoppedClock, threads: int) -> None:
    Order.create_many(f"o-{number}" for number in range(21))
    began = clock.now()
    report = STEP.run_all(nothing, rate=10, threads=threads)
    assert len(report.succeeded) == 21
    assert clock.now() - began >= timedelta(seconds=2)
    if threads == 1:
        assert clock.now() - began == timedelta(seconds=2)


def test_progress_is_told_after_each_task() -> None:
    Order.create_many(f"o-{number}" for number in range(5))
    seen: list[int] = []
    STEP.run_all(nothing, progress=lambda report: seen.append(len(report.succeeded)))
    assert seen == [1, 2, 3, 4, 5]


def test_waiting_tasks_are_run_without_reading_their_rows_before() -> None:
    Order.create_many(f"o-{number}" for number in range(5))
    with recorded() as requests:
        STEP.run_all(nothing)
    assert sorted(set(requests.operations)) == ["Query", "UpdateItem"]
    assert requests.operations.count("UpdateItem") == 10


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"only": STEP.failed}, TypeError),
        ({"only": "failed"}, TypeError),
        ({"only": (STEP.succeeded,)}, ValueError),
        ({"only": (STEP.ignored,)}, ValueError),
        ({"only": (Order.ship.failed,)}, ValueError),
        ({"only": (Parcel.sort.pending,)}, ValueError),
        ({"only": (None,)}, ValueError),
        ({"error_like": 429}, TypeError),
        ({"error_like": b"429"}, TypeError),
        ({"rate": 0}, ValueError),
        ({"rate": -1}, ValueError),
        ({"rate": float("nan")}, ValueError),
        ({"rate": "50/s"}, TypeError),
        ({"rate": True}, TypeError),
        ({"dry_run": 1}, TypeError),
        ({"progress": 5}, TypeError),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_before_any_request(wrong: dict[str, Any], error: type[Exception]) -> None:
    with recorded() as requests, pytest.raises(error, match=next(iter(wrong))):
        STEP.run_all(nothing, **wrong)
    assert requests == []
