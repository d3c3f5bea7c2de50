"""Options of `run_all` and `due`: which tasks, how fast, and the report of progress."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast
from unittest import mock
from weakref import WeakKeyDictionary

import pytest

from pynamodb_tracker import AsyncContext, ExecutionContext, Report
from pynamodb_tracker.clock import StoppedClock
from pynamodb_tracker.dynamodb import batch_execute
from pynamodb_tracker.dynamodb.batch_execute import BatchedWrite
from pynamodb_tracker.dynamodb.connection import sharing_requests
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from tests.support.engines import only_dynoxide, only_moto
from tests.support.network import Network, error
from tests.support.recorder import recorded
from tests.support.shop import Order
from tests.support.workers import Broken, die, fail

pytestmark = pytest.mark.usefixtures("table")

STEP = Order.confirm_payment


def nothing(_ctx: ExecutionContext[Any]) -> None:
    """Do what there is to do in a block that only succeeds."""


async def nothing_async(_ctx: AsyncContext[Any]) -> None:
    """Do the same on an event loop."""


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
)
def test_only_some_states_are_looked_at(only: Any, run: set[str]) -> None:
    assert {task.task_id for task in STEP.due(only=only)} == set(STEP.due_ids(only=only)) == run
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
    assert (
        sorted(task.task_id for task in STEP.due(error_contains=like))
        == sorted(STEP.due_ids(error_contains=like))
        == run
    )
    assert sorted(STEP.run_all(nothing, error_contains=like).succeeded) == run


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(("like", "task_id"), [("card", "refused"), ("too many", "throttled")])
def test_a_limit_counts_what_is_like_that(like: str, task_id: str) -> None:
    assert [task.task_id for task in STEP.due(error_contains=like, limit=1)] == [task_id]
    assert STEP.run_all(nothing, error_contains=like, limit=1).succeeded == [task_id]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_rate_spreads_the_starts(clock: StoppedClock, threads: int) -> None:
    Order.create_many(f"o-{number}" for number in range(21))
    began = clock.now()
    assert len(STEP.run_all(nothing, rate=10, threads=threads).succeeded) == 21
    assert clock.now() - began >= timedelta(seconds=2)
    if threads == 1:
        assert clock.now() - began == timedelta(seconds=2)


def test_ctrl_c_while_a_batch_waits_for_its_turn_starts_nothing_more(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    Order.create_many(f"o-{number}" for number in range(21))
    monkeypatch.setattr(clock, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        STEP.run_all(nothing, rate=10, threads=8)
    assert STEP.succeeded.count() == 1


def test_a_clock_that_is_put_back_makes_no_turn_later(clock: StoppedClock) -> None:
    Order.create_many(f"o-{number}" for number in range(3))

    def put_back(_: object) -> None:
        clock.advance(timedelta(hours=-1))

    clock.advance(timedelta(hours=3))
    began = clock.now()
    STEP.run_all(put_back, rate=10, only=(STEP.pending,))
    assert clock.now() == began - timedelta(hours=3)


def test_a_task_is_chosen_when_a_thread_is_free_for_it() -> None:
    Order.create_many(f"o-{number}" for number in range(9))
    chosen: list[str] = []
    start = type(STEP).start
    inside, go = threading.Barrier(4), threading.Event()

    def work(_: object) -> None:
        if not go.is_set():
            inside.wait(30)
            go.wait(30)

    def noted(step: Any, task_id: str, **options: Any) -> Any:
        chosen.append(task_id)
        return start(step, task_id, **options)

    def let_go() -> None:
        inside.wait(30)
        seen.append(len(chosen))
        go.set()

    seen: list[int] = []
    watcher = threading.Thread(target=let_go)
    watcher.start()
    with mock.patch.object(type(STEP), "start", noted):
        report = STEP.run_all(work, threads=3)
    watcher.join(30)
    assert (seen, len(report.succeeded)) == ([3], 9)


def test_progress_is_reported_after_each_task() -> None:
    Order.create_many(f"o-{number}" for number in range(5))
    seen: list[int] = []
    STEP.run_all(nothing, progress=lambda report: seen.append(len(report.succeeded)))
    assert seen == [1, 2, 3, 4, 5]


def test_waiting_tasks_are_run_without_reading_their_rows_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.use_case_id, "pausable", False)  # no request for its pauses
    Order.create_many(f"o-{number}" for number in range(5))
    with recorded() as requests:
        STEP.run_all(nothing)
    assert sorted(set(requests.operations)) == ["Query", "UpdateItem"]
    assert requests.operations.count("UpdateItem") == 10


def test_16_threads_of_one_process_share_requests_where_the_engine_allows_it(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.use_case_id, "pausable", False)  # no request for its pauses
    Order.create_many((f"o-{number}" for number in range(100)), threads=16)
    with recorded() as requests:
        report = STEP.run_all(nothing, threads=16)
    assert len(report.succeeded) == 100
    sent = Counter(requests.operations)
    shared = sent.pop("BatchExecuteStatement", 0)
    if "moto" in request.node.name:
        assert (sent, shared) == ({"UpdateItem": 200, "Query": 3}, 0)
    else:
        assert sent.keys() <= {"UpdateItem", "Query"}
        assert sent.total() + shared < 100
    assert "Connection pool is full" not in caplog.text


def test_what_the_function_writes_waits_for_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = list[tuple[str, str]]()
    dispatch = WriteBatcher.dispatch

    def noted(batcher: WriteBatcher, table: Any, operation: str, request: Any, until: Any) -> Any:
        shared.append((operation, request["Key"]["task_id"]["S"]))
        return dispatch(batcher, table, operation, request, until)

    monkeypatch.setattr(WriteBatcher, "dispatch", noted)
    Order.create("o")

    def function(ctx: ExecutionContext[Any]) -> None:
        ctx.task.data["label"] = "L-1"
        ctx.save()
        Order.create("other")

    assert STEP.run_all(function, threads=2, limit=1).succeeded == ["o"]
    assert shared == [("UpdateItem", "o")] * 2  # the claim and the end


@only_moto
@pytest.mark.parametrize("run", [lambda: STEP.run_all(nothing), lambda: asyncio.run(STEP.arun_all(nothing_async))])
def test_requests_that_fail_are_logged_once_with_the_first_cause(
    run: Callable[..., Report], network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    Order.create_many(["o-1", "o-2", "o-3"])

    def deny(operation: str, _request: Any, send: Callable[[], Any]) -> Any:
        if operation == "Query":
            return send()
        raise error(operation, "AccessDeniedException")

    network.rule = deny
    assert len(run().refused) == 3
    # Beside the denied statements of writes that met in one request, which is a matter of luck.
    [said] = [record for record in caplog.records if " are refused at " in record.getMessage()]
    assert said.levelname == "WARNING"
    assert "3 tasks of order are refused at confirm_payment, because requests failed. The first" in said.getMessage()
    assert "AccessDeniedException" in said.getMessage()
    assert (vars(said)["step"], len(STEP.run_all(nothing, limit=2).refused)) == ("confirm_payment", 2)


class Meeting:
    """Stands for a batcher: each write meets another one, which in threads is a matter of luck."""

    def dispatch(self, *write: Any) -> dict[str, Any]:
        first, second = BatchedWrite(*write), BatchedWrite(*write)
        batch_execute.execute([first, second])
        return first.result()


@only_moto
def test_an_engine_that_does_not_know_shared_requests_is_logged_with_a_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Order.create("o-1")
    monkeypatch.setattr(batch_execute, "_known", WeakKeyDictionary())
    with caplog.at_level("INFO"), sharing_requests(cast("WriteBatcher", Meeting())), STEP.start("o-1"):
        pass
    [said] = [record.getMessage() for record in caplog.records if "one by one" in record.getMessage()]
    assert said.endswith(": an emulator in this process does not know such statements: AssertionError")
    assert Order.get("o-1").state == STEP.succeeded


@only_dynoxide
def test_rows_that_seem_to_be_abandoned_are_read_once_however_often_workers_meet(clock: StoppedClock) -> None:
    Order.create_many(f"held-{number}" for number in range(5))
    held = [STEP.start(f"held-{number}") for number in range(5)]
    for run in held:
        run.__enter__().extend_lock(timedelta(days=1))
    clock.advance(timedelta(hours=1))
    Order.create_many(f"o-{number}" for number in range(200))
    candidates = STEP._definition.candidates(threads=1)
    with recorded() as requests:
        tried = []
        for task_id in candidates:
            if isinstance(task_id, str):  # and not a pause
                tried.append(task_id)
                candidates.window.note_sent()
                candidates.window.note_answer(lost_to_other=len(tried) % 50 == 0)
    assert (len(tried), requests.operations.count("BatchGetItem")) == (200, 1)
    assert requests.operations.count("Query") > 6
    clock.advance(timedelta(days=1))
    for run in held:
        run.__exit__(None, None, None)
