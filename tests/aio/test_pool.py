"""The threads that send the requests of event loops."""

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest

from pynamodb_tracker.aio import pool
from pynamodb_tracker.aio.pool import in_thread
from tests.support.shop import AppTask, Order
from tests.support.through import Dispatch, through
from tests.support.workers import raising

FORKS = """
import asyncio, os, sys, threading
from pynamodb_tracker.aio.pool import in_thread
parent = asyncio.run(in_thread(threading.get_ident))
child = os.fork()
if child == 0:
    asyncio.run(asyncio.wait_for(in_thread(threading.get_ident), 60))
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_there_are_no_more_threads_than_it_may_have() -> None:
    barrier = threading.Barrier(pool.THREADS + 1)

    async def main() -> int:
        waiting = [asyncio.create_task(in_thread(barrier.wait)) for _ in range(pool.THREADS)]
        further = [asyncio.create_task(in_thread(threading.get_ident)) for _ in range(200)]
        await asyncio.to_thread(barrier.wait)
        await asyncio.gather(*waiting)
        return len(set(await asyncio.gather(*further)))

    assert asyncio.run(main()) <= pool.THREADS


@pytest.mark.parametrize("busy", [pool.REQUESTS, pool.RUNS])
def test_heartbeats_do_not_wait_for_requests(busy: pool.Pool) -> None:
    done = threading.Event()
    for _ in range(pool.RUN_THREADS):  # it has no more threads than that
        busy.submit(done.wait)
    try:
        assert asyncio.run(asyncio.wait_for(in_thread(lambda: True, pool.HEARTBEATS), 30))
    finally:
        done.set()


@pytest.mark.parametrize("threads", [pool.RUNS, pool.HEARTBEATS])
def test_one_of_as_many_runs_as_there_are_at_a_time_by_default_does_not_wait_for_the_others(threads: pool.Pool) -> None:
    concurrency = inspect.signature(Order.confirm_payment.arun_all).parameters["concurrency"].default
    done = threading.Event()
    for _ in range(concurrency - 1):
        threads.submit(done.wait)
    try:
        assert asyncio.run(asyncio.wait_for(in_thread(lambda: True, threads), 30))
    finally:
        done.set()


def test_calls_in_all_threads_may_wait_for_calls_of_their_own() -> None:
    all_busy = threading.Barrier(pool.RUN_THREADS)

    def nested() -> bool:
        all_busy.wait(30)
        return asyncio.run(asyncio.wait_for(in_thread(lambda: True, pool.RUNS), 30))

    async def main() -> list[bool]:
        return await asyncio.gather(*(in_thread(nested, pool.RUNS) for _ in range(pool.RUN_THREADS)))

    assert all(asyncio.run(main()))


@pytest.mark.usefixtures("table")
def test_a_run_saves_and_ends_while_the_claims_of_many_others_hang() -> None:
    Order.create_many(["o-1", *(f"late-{number}" for number in range(50))])
    done = threading.Event()

    def hang(send: Dispatch, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if "late" in str(body.get("Key")):
            assert done.wait(30)
        return send(name, body)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            try:
                async with Order.confirm_payment.astart("o-1") as ctx:
                    for number in range(50):
                        group.create_task(Order.confirm_payment.arun(f"late-{number}", nothing))
                    await asyncio.sleep(0)
                    ctx.task.amount = 5
                    await asyncio.wait_for(ctx.save(), 60)
                    await asyncio.wait_for(ctx.extend_lock(), 60)
                async with asyncio.timeout(5):
                    assert (await asyncio.to_thread(Order.get_task, "o-1")).state == Order.ship.pending
            finally:
                done.set()

    with through(AppTask, hang):
        asyncio.run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="it does not fork")
def test_a_forked_process_starts_threads_of_its_own_and_idle_ones_keep_no_process_from_ending() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]  # Python 3.12 warns of any fork
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - this Python
    assert done.stdout == "7\n"


async def nothing(_ctx: object) -> None:
    pass


@pytest.mark.usefixtures("table")
def test_the_loop_does_not_wait_while_a_request_does() -> None:
    ids = [f"o-{number}" for number in range(3)]
    Order.create_many(ids)
    runs: list[bool] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def wait_for_the_loop(send: Dispatch, name: str, body: dict[str, object]) -> dict[str, object]:
            had_its_turn = threading.Event()
            loop.call_soon_threadsafe(had_its_turn.set)
            runs.append(had_its_turn.wait(60))
            return send(name, body)

        with through(AppTask, wait_for_the_loop):
            await asyncio.gather(*(Order.confirm_payment.arun(task_id, nothing) for task_id in ids))

    asyncio.run(main())
    assert runs == [True] * 6


def test_a_stop_iteration_in_a_thread_is_an_error_rather_than_a_wait_without_end() -> None:
    errors: list[str] = []

    def program() -> None:
        with pytest.raises(RuntimeError) as raised:
            asyncio.run(in_thread(lambda: next(iter(""))))
        errors.append(str(raised.value))

    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    thread.join(60)
    assert errors == ["coroutine raised StopIteration"]


def test_an_error_of_a_request_is_raised_and_not_logged_by_asyncio_as_well(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await in_thread(raising(TimeoutError))

    asyncio.run(main())
    gc.collect()
    assert not caplog.records
