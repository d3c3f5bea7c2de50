"""Faults that the loops before had, each in its own way: variables, exits, forks, limits and frames of a function."""

import asyncio
import contextvars
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import AsyncWorker, ConcurrencyLimit, Report, Step, Tally, Task, UseCase, Worker
from pynamodb_tracker.aws_lambda import retry_handler
from pynamodb_tracker.control import slots
from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import empty_tables, opened
from tests.support.processes import until
from tests.support.workers import Broken
from tests.work.test_polling import Poller

one = ConcurrencyLimit("one", 1)


class FaultTask(Task):
    class Meta:
        table_name = "faults"
        region = "us-east-1"


class Job(FaultTask):
    use_case_id = UseCase("job")

    first = Step(10)
    second = Step(20)


class Limited(FaultTask):
    use_case_id = UseCase("limited")

    work = Step(10, concurrency_limit=one)


engine, faults_clock = opened(FaultTask, scope="module"), empty_tables
posix = pytest.mark.skipif(os.name == "nt", reason="forks")
pytestmark = pytest.mark.usefixtures("faults_clock")

WAIT = 30.0
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

RUNNERS: dict[str, Callable[[Any, Any], object]] = {
    "run_all": lambda step, function: step.run_all(function),
    "run_all on threads": lambda step, function: step.run_all(function, threads=2),
    "arun_all": lambda step, function: asyncio.run(step.arun_all(on_loop(function))),
    "Worker": lambda step, function: Worker({step: function}).run(until_idle=True),
    "AsyncWorker": lambda step, function: asyncio.run(AsyncWorker({step: on_loop(function)}).run(until_idle=True)),
    "retry_handler": lambda step, function: retry_handler(step, function)({}, None),
}
runners = pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)


def on_loop(function: Callable[[Any], object]) -> Callable[[Any], Any]:
    async def call(ctx: Any) -> None:
        function(ctx)

    return call


@runners
def test_a_variable_that_a_function_sets_is_seen_by_no_other_task_and_not_by_the_caller(
    runner: Callable[[Any, Any], object],
) -> None:
    seen: list[str] = []

    def work(ctx: Any) -> None:
        seen.append(variable.get())
        variable.set(ctx.task.task_id)

    Job.create_many(f"j-{number}" for number in range(4))
    token = variable.set("the caller's")
    try:
        runner(Job.first, work)
        assert (seen, variable.get()) == (["the caller's"] * 4, "the caller's")
    finally:
        variable.reset(token)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_what_ends_the_program_is_raised_by_arun_all_and_does_not_end_its_loop(error: BaseException) -> None:
    beside: list[str] = []

    async def work(ctx: Any) -> None:
        if ctx.task.task_id == "j-0":
            raise error
        await asyncio.sleep(0.01)

    async def serve() -> None:
        await asyncio.sleep(0.1)
        beside.append("served")

    async def main() -> None:
        server = asyncio.create_task(serve())
        with pytest.raises(type(error)) as caught:
            await Job.first.arun_all(work)
        assert caught.value is error
        await server

    Job.create_many(["j-0", "j-1"])
    asyncio.run(main())
    assert (beside, Job.first.in_progress.count()) == (["served"], 0)


@posix
@pytest.mark.parametrize("kind", ["run_all", "Worker"])
def test_a_child_that_is_forked_in_a_function_runs_no_other_task_and_leaves_no_slot(kind: str) -> None:
    read, write = os.pipe()
    begun: list[int] = []

    def fork(ctx: Any) -> None:
        begun.append(os.getpid())
        if ctx.task.task_id == "l-0" and (child := os.fork()):
            os.waitpid(child, 0)
            assert slots.slots_of(Limited, one).has_any
        elif ctx.task.task_id != "l-0" and os.getpid() != parent:
            os.write(write, b"a task")

    parent = os.getpid()
    Limited.create("l-0")
    Limited.create("l-1")
    try:
        if kind == "run_all":
            assert len(Limited.work.run_all(fork, threads=2).succeeded) == 2
        else:
            assert Worker({Limited.work: fork}).run(until_idle=True) == {Limited.work: Tally(succeeded=2)}
    finally:
        if os.getpid() != parent:  # a child that has come that far ends here, in silence
            os._exit(0)
        os.close(write)
        ran = os.read(read, 100)
        os.close(read)
    assert (ran, begun) == (b"", [parent] * 2)


@pytest.mark.parametrize("kind", ["Worker", "AsyncWorker"])
def test_an_idle_worker_begins_the_next_step_and_a_new_task_without_a_poll(
    faults_clock: StoppedClock, kind: str
) -> None:
    """The clock stands still, so that no pause between two polls ever ends."""
    done: list[str] = []
    idle = threading.Event()

    def work(ctx: Any) -> None:
        done.append(ctx.task.task_id)
        idle.set()

    functions: Any = {Job.first: work, Job.second: work}
    worker: Any = Worker(functions)
    if kind == "AsyncWorker":
        worker = AsyncWorker({step: on_loop(work) for step in functions})
    runs = threading.Thread(target=worker.run if kind == "Worker" else lambda: asyncio.run(worker.run()))
    runs.start()
    try:
        names = {"pynamodb_tracker finder 1", "pynamodb_tracker worker 1"}
        until(lambda: bool(names & {thread.name for thread in threading.enumerate()}))
        faults_clock.advance(timedelta(seconds=4))
        Job.create("j-1")
        until(lambda: done == ["j-1", "j-1"])
        Job.create("j-2")
        until(lambda: done[2:] == ["j-2", "j-2"])
    finally:
        worker.stop()
        runs.join(WAIT)


def test_a_scheduled_handler_keeps_to_a_limit() -> None:
    running, most, guard = 0, 0, threading.Lock()

    def work(_ctx: Any) -> None:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.1)
        running -= 1

    Limited.create_many(f"l-{number}" for number in range(4))
    done = retry_handler(Limited.work, work, threads=4)({}, None)
    assert (done["succeeded"], most) == (4, 1)


@posix
def test_a_process_that_is_forked_by_a_function_of_a_worker_ends_at_a_sigterm() -> None:
    ends: list[int | None] = []

    def work(_ctx: Any) -> None:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(WAIT,))
        child.start()
        child.terminate()
        child.join(WAIT / 2)
        ends.append(child.exitcode)

    Job.create("j-1")
    Worker({Job.first: work}).run(until_idle=True)
    assert ends == [-signal.SIGTERM]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="references are counted")
@runners
def test_a_failed_attempt_keeps_nothing_that_only_the_garbage_collector_could_free(
    runner: Callable[[Any, Any], object],
) -> None:
    class Local:
        """What a function has on its stack."""

    left: list[weakref.ref[Local]] = []

    def work(_ctx: Any) -> None:
        local = Local()
        left.append(weakref.ref(local))
        raise Broken

    Job.create_many({"task_id": f"j-{number}", "state": Job.first.pending} for number in range(5))
    gc.collect()
    gc.disable()
    try:
        runner(Job.first, work)
        assert len(left) >= 5
        assert [each() for each in left if each() is not None] == []
    finally:
        gc.enable()


def test_claims_that_fail_for_good_end_a_batch_after_four_in_a_row(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from botocore.exceptions import ClientError  # noqa: PLC0415
    from pynamodb.exceptions import UpdateError  # noqa: PLC0415

    def denied(_task_id: str, **_options: object) -> object:
        response: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
        raise UpdateError("it failed", ClientError(response, "UpdateItem"))

    Job.create_many(f"j-{number}" for number in range(9))
    monkeypatch.setattr(Job.first, "start", denied)
    report: Report = Job.first.run_all(lambda _: None)
    assert len(report.refused) == 4
    assert "No more tasks were tried" in caplog.text


def test_a_worker_takes_tasks_over_when_their_locks_expire_one_after_another(faults_clock: StoppedClock) -> None:
    began, ends, late = faults_clock.now(), dict[str, float](), list[float]()
    for number in range(6):
        task_id, lock_for = f"j-{number}", timedelta(seconds=30 + 4 * number)
        Job.create(task_id)
        Job.first.start(task_id, lock_for=lock_for).__enter__()
        ends[task_id] = (lock_for + FaultTask.tracker.margin).total_seconds()
    poller = Poller(Job.first._definition, timedelta(seconds=2))
    while ends and faults_clock.now() < began + timedelta(minutes=5):
        if poller.is_ready(faults_clock.now()) and (found := poller.take()) is not None:
            late.append((faults_clock.now() - began).total_seconds() - ends.pop(found))
        faults_clock.advance(timedelta(seconds=0.1))
    assert len(late) == 6
    assert 0 < min(late) <= max(late) <= 2
