"""The event loop on which threads run async functions."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from pynamodb_tracker.aio.loop_thread import LoopThread, loop_thread

WAIT = 30.0

name: ContextVar[str] = ContextVar("name", default="nobody")


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_calls_of_a_process_share_one_loop_that_goes_on_between_them() -> None:
    first = loop_thread().call(running_loop)
    assert loop_thread().call(running_loop) is first
    assert first.is_running()


def test_a_function_has_the_context_variables_of_its_caller(loop: LoopThread) -> None:
    async def whose() -> str:
        await asyncio.sleep(0)
        return name.get()

    name.set("the caller")
    assert loop.call(whose) == "the caller"


def test_threads_run_functions_at_the_same_time(loop: LoopThread) -> None:
    async def made() -> asyncio.Barrier:
        return asyncio.Barrier(3)

    barrier = loop.call(made)
    threads = [threading.Thread(target=loop.call, args=(barrier.wait,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    loop.call(barrier.wait)
    for thread in threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in threads)


def test_a_call_from_the_loop_itself_is_refused_because_it_would_wait_for_itself(loop: LoopThread) -> None:
    async def nested() -> None:
        loop.call(running_loop)

    with pytest.raises(RuntimeError, match=r"asyncio\.to_thread\(handler"):
        loop.call(nested)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_a_function_raises_is_raised_and_the_loop_goes_on(loop: LoopThread, error: BaseException) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        loop.call(work)
    assert loop.call(running_loop).is_running()


def test_sys_exit_in_a_task_that_a_function_left_behind_does_not_end_the_loop(loop: LoopThread) -> None:
    left: list[asyncio.Task[None]] = []

    async def leave() -> None:
        raise SystemExit(3)

    async def work() -> None:
        left.append(asyncio.create_task(leave()))

    async def is_over() -> bool:
        with pytest.raises(SystemExit):
            await left[0]
        return True

    loop.call(work)
    assert loop.call(is_over)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_cancels_the_function_and_leaves_once_that_has_ended(loop: LoopThread) -> None:
    ended: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cleaned up")
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.call(work)
    assert ended == ["cleaned up"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    loop_thread().call(running_loop)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if loop_thread().call(running_loop).is_running() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_at_the_end_of_the_process_what_is_left_on_the_loop_is_cancelled() -> None:
    program = """
import asyncio
from pynamodb_tracker.aio.loop_thread import loop_thread

left = []

async def clean_up():
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaned up")

async def work():
    left.append(asyncio.create_task(clean_up()))
    await asyncio.sleep(0)

loop_thread().call(work)
"""
    done = subprocess.run(  # noqa: S603 - a program of our own
        [sys.executable, "-W", "error", "-X", "dev", "-c", program], check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("cleaned up\n", "")
