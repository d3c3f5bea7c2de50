"""An attempt whose worker died leaves a trace: in the log, and among the failures of the task."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import Report, RetryLater, TaskIgnoredError
from pynamodb_tracker.clock import StoppedClock, in_words
from pynamodb_tracker.model.worker_name import working_as
from pynamodb_tracker.query.due import LeftBehind
from tests.support.network import Answer, Network, Request, passing
from tests.support.recorder import recorded
from tests.support.rows import change
from tests.support.shop import Order
from tests.support.workers import Broken, die, fail, succeed

pytestmark = pytest.mark.usefixtures("table")

HOUR = timedelta(hours=1)
MINUTES = timedelta(minutes=5)
"""The lock of the step."""


@pytest.fixture(autouse=True)
def dead(clock: StoppedClock) -> str:
    """Let a worker die with a task, and return what is said of its attempt."""
    Order.create("o-1")
    with working_as("host:1"):
        die(Order.confirm_payment, "o-1")
    expired = clock.now() + MINUTES
    clock.advance(HOUR)
    return f"ended without a result; its lock expired at {in_words(expired)}"


def entries() -> list[tuple[int, str, str, str]]:
    return [(each.attempt, each.worker, each.type, each.message) for each in Order.get_task("o-1").errors]


@pytest.mark.parametrize("end", [None, Broken("no"), KeyboardInterrupt()], ids=repr)
def test_the_end_of_the_next_attempt_stores_what_became_of_it(
    dead: str, end: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded() as requests, suppress(Broken, KeyboardInterrupt), Order.confirm_payment.start("o-1") as ctx:
        assert [each.type for each in ctx.task.errors] == ["abandoned"]
        if end is not None:
            raise end
    of_failure = ["PutItem"]  # its traceback may be too long for the row, depending on the folder of this file
    assert [each for each in requests.operations if [each] != of_failure] == ["UpdateItem", "UpdateItem"]
    assert entries()[0] == (1, "host:1", "abandoned", dead)
    assert [kind for _, _, kind, _ in entries()[1:]] == (["Broken"] if isinstance(end, Broken) else [])
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warnings == [f"confirm_payment of Order 'o-1' (attempt 2): attempt 1 by host:1 {dead}"]


def test_what_is_due_names_the_dead_worker_and_whether_one_attempt_is_left(clock: StoppedClock) -> None:
    definition, found = Order.confirm_payment._definition, []
    for _ in range(2):
        by_scan, by_poll = definition.due().ids(), definition.due_codes_in(0, definition.codes.in_progress)
        for task in (*by_scan, *by_poll.expired_locks({})[0]):
            assert isinstance(task, LeftBehind)
            found.append((task, task.worker, task.is_last))
        with working_as("host:2"):
            die(Order.confirm_payment, "o-1")
        clock.advance(HOUR)
    assert found == [*[("o-1", "host:1", False)] * 2, *[("o-1", "host:2", True)] * 2]


def test_a_task_that_waits_to_run_alone_is_waited_for_as_long_as_it_may_start(clock: StoppedClock) -> None:
    definition = Order.confirm_payment._definition
    Order.create_many(["pending", "damaged"])
    Order.create("later", due_time=timedelta(days=9))
    change(Order, "damaged", attempt={"S": "odd"})
    die(Order.confirm_payment, "pending")
    assert [definition.is_startable(each) for each in ("o-1", "damaged")] == [True, True]
    assert [definition.is_startable(each) for each in ("pending", "later", "gone")] == [False] * 3
    clock.advance(HOUR)
    assert definition.is_startable("pending")


class Waits(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "waits until all others have ended" in record.getMessage():
            self.seen.set()


def run_in_threads(function: Callable[[Any], None]) -> Report:
    return Order.confirm_payment.run_all(function, threads=2)


def run_on_a_loop(function: Callable[[Any], None]) -> Report:
    async def on_loop(ctx: Any) -> None:
        await asyncio.to_thread(function, ctx)

    return asyncio.run(Order.confirm_payment.arun_all(on_loop, concurrency=2))


@pytest.mark.parametrize("run", [run_in_threads, run_on_a_loop])
def test_a_last_attempt_that_may_kill_its_worker_is_released_and_runs_alone(
    clock: StoppedClock, run: Callable[[Callable[[Any], None]], Report]
) -> None:
    """The index does not say that a task that was unlocked was left behind. Its claim does."""
    die(Order.confirm_payment, "o-1")
    Order.create("o-2")
    clock.advance(HOUR)
    Order.confirm_payment.unlock("o-1", reason="the host is gone")
    waits, ran, log = Waits(), list[tuple[str, int]](), logging.getLogger("pynamodb_tracker")
    log.addHandler(waits)

    def work(ctx: Any) -> None:
        if ctx.task.task_id == "o-2":
            assert waits.seen.wait(30)
        ran.append((ctx.task.task_id, ctx.attempt))

    try:
        report = run(work)
    finally:
        log.removeHandler(waits)
    assert (ran, report) == ([("o-2", 1), ("o-1", 3)], Report(succeeded=["o-2", "o-1"]))


def test_if_the_next_worker_dies_as_well_both_attempts_leave_a_trace(clock: StoppedClock, dead: str) -> None:
    with working_as("host:2"):
        die(Order.confirm_payment, "o-1")
    clock.advance(HOUR)
    succeed(Order.confirm_payment, "o-1")
    assert [(attempt, worker, kind) for attempt, worker, kind, _ in entries()] == [
        (1, "", "abandoned"),
        (2, "host:2", "abandoned"),
    ]
    assert entries()[0][3] == dead.partition(";")[0]


def test_an_attempt_that_was_the_last_one_leaves_a_trace_before_the_task_is_ignored(clock: StoppedClock) -> None:
    fail(Order.confirm_payment, "o-1")
    with working_as("host:3"):
        die(Order.confirm_payment, "o-1")
    clock.advance(HOUR)
    with pytest.raises(TaskIgnoredError):
        succeed(Order.confirm_payment, "o-1")
    assert [(attempt, worker, kind) for attempt, worker, kind, _ in entries()[2:3]] == [(3, "host:3", "abandoned")]
    assert [kind for _, _, kind, _ in entries()] == ["abandoned", "Broken", "abandoned", "ignored"]


def test_a_task_that_a_person_has_released_has_the_entry_of_that_alone() -> None:
    Order.confirm_payment.unlock("o-1", reason="its machine is gone", worker="host:1")
    succeed(Order.confirm_payment, "o-1")
    assert [kind for _, _, kind, _ in entries()] == ["unlocked"]


def test_a_claim_whose_response_is_lost_does_not_know_the_name(dead: str, network: Network) -> None:
    def lose(operation: str, request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        if operation == "UpdateItem" and "lock_expire_time" in str(request):
            network.rule = passing
            raise ReadTimeoutError(endpoint_url="of the test")
        return answer

    network.rule = lose
    with pytest.raises(UpdateError):
        succeed(Order.confirm_payment, "o-1")
    succeed(Order.confirm_payment, "o-1")
    assert [(attempt, kind) for attempt, _, kind, _ in entries()] == [(1, "abandoned")]
    assert entries()[0][3] in (dead, dead.partition(";")[0])


def test_an_attempt_without_a_result_is_told_from_an_earlier_one_of_the_same_number(clock: StoppedClock) -> None:
    Order.create("o-2")
    with Order.confirm_payment.start("o-2", skip_error=True):
        raise RetryLater(timedelta(0), "not yet", use_attempt=False)
    for _ in range(2):
        clock.advance(HOUR)
        die(Order.confirm_payment, "o-2")
    clock.advance(HOUR)
    succeed(Order.confirm_payment, "o-2")
    errors = [(each.attempt, each.type) for each in Order.get_task("o-2").errors]
    assert errors == [(1, "RetryLater"), (1, "abandoned"), (2, "abandoned")]


def test_after_a_reopen_attempts_without_a_result_are_told_from_those_of_the_same_numbers(clock: StoppedClock) -> None:
    for _ in range(2):
        die(Order.confirm_payment, "o-1")
        clock.advance(HOUR)
    with pytest.raises(TaskIgnoredError):
        succeed(Order.confirm_payment, "o-1")
    Order.confirm_payment.reopen("o-1")
    for _ in range(2):
        die(Order.confirm_payment, "o-1")
        clock.advance(HOUR)
    succeed(Order.confirm_payment, "o-1")
    told = [(attempt, kind) for attempt, _, kind, _ in entries() if kind == "abandoned"]
    assert told == [(1, "abandoned"), (2, "abandoned"), (3, "abandoned"), (1, "abandoned"), (2, "abandoned")]
