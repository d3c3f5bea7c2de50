"""What is recorded when a run on an event loop is cancelled; no request is abandoned."""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any, cast
from unittest import mock

import anyio
import pytest

from pynamodb_tracker import AsyncContext, GiveUp, LockLostError, RetryLater, TaskNotFoundError
from pynamodb_tracker.aio import pool
from pynamodb_tracker.model import hydration
from tests.aio.slow_requests import Held, held
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

FOREVER = 60.0


def state() -> tuple[str, int]:
    task = Order.get_task("o-1")
    return str(task.state), task.attempt


async def cancelled_in_block(block: Callable[[AsyncContext[Order]], Awaitable[object]]) -> None:
    """Run a block, and cancel its task once it has begun."""
    begun = asyncio.Event()

    async def run(ctx: AsyncContext[Order]) -> None:
        begun.set()
        await block(ctx)

    task = asyncio.create_task(Order.confirm_payment.arun("o-1", run))
    await begun.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def nothing(_ctx: object) -> None:
    pass


async def wait_forever(_ctx: object) -> None:
    await asyncio.sleep(FOREVER)


def test_a_run_that_is_cancelled_from_outside_is_released() -> None:
    Order.create("o-1")
    asyncio.run(cancelled_in_block(wait_forever))
    assert state() == ("confirm_payment pending", 0)


def test_ctrl_c_releases_the_run_because_asyncio_makes_it_a_cancel() -> None:
    Order.create("o-1")

    async def main() -> None:
        async with Order.confirm_payment.astart("o-1"):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(FOREVER)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert state() == ("confirm_payment pending", 0)


def test_a_sibling_that_fails_in_a_task_group_releases_the_run() -> None:
    Order.create("o-1")

    async def main() -> None:
        begun = asyncio.Event()

        async def run(_ctx: object) -> None:
            begun.set()
            await asyncio.sleep(FOREVER)

        async def fail() -> None:
            await begun.wait()
            raise KeyError

        async with asyncio.TaskGroup() as group:
            group.create_task(Order.confirm_payment.arun("o-1", run))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())
    assert state() == ("confirm_payment pending", 0)


def test_a_timeout_around_the_run_releases_it_and_one_within_it_is_a_failure() -> None:
    Order.create("o-1")

    async def around() -> None:
        begun = asyncio.Event()
        async with asyncio.timeout(FOREVER) as limit:
            async with Order.confirm_payment.astart("o-1"):
                limit.reschedule(asyncio.get_running_loop().time())
                await begun.wait()

    async def within() -> None:
        async with Order.confirm_payment.astart("o-1"), asyncio.timeout(0):
            await asyncio.sleep(FOREVER)

    with pytest.raises(TimeoutError):
        asyncio.run(around())
    assert state() == ("confirm_payment pending", 0)
    with pytest.raises(TimeoutError):
        asyncio.run(within())
    assert state() == ("confirm_payment failed", 1)


def test_a_cancelled_child_of_the_block_is_a_failure() -> None:
    Order.create("o-1")

    async def block(_ctx: object) -> None:
        child = asyncio.create_task(asyncio.sleep(FOREVER))
        await asyncio.sleep(0)
        child.cancel()
        await child

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Order.confirm_payment.arun("o-1", block))
    assert state() == ("confirm_payment failed", 1)


def test_a_cancel_before_the_run_does_not_count_as_one_of_its_block() -> None:
    Order.create("o-1")

    async def clean_up(_ctx: object) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await Order.confirm_payment.arun("o-1", clean_up)

    async def cancelled() -> None:
        task = asyncio.create_task(main())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert state() == ("confirm_payment failed", 1)


def test_a_cancel_of_the_asyncio_task_that_leaves_a_run_releases_it_whichever_entered_it() -> None:
    Order.create("o-1")

    async def leave(run: Any) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(run)
            await asyncio.sleep(FOREVER)

    async def main() -> None:
        entering: Any = asyncio.current_task()
        entering.cancel()  # asked once, before the run
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        run = Order.confirm_payment.astart("o-1")
        await run.__aenter__()
        leaving = asyncio.create_task(leave(run))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(main())
    assert state() == ("confirm_payment pending", 0)


def test_what_a_block_raises_while_it_is_cancelled_is_what_is_recorded() -> None:
    Order.create("o-1")

    async def block(_ctx: object) -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            raise ValueError("cannot clean up")

    with pytest.raises(ValueError, match="cannot clean up"):
        asyncio.run(cancelled_in_block(block))
    assert state() == ("confirm_payment failed", 1)


async def cancelled_while(request: Held, block: Callable[[Any], Awaitable[object]]) -> asyncio.CancelledError:
    """Cancel a run again and again while this request of it is sent, and return what it raises after the answer."""
    task = asyncio.create_task(Order.confirm_payment.arun("o-1", block))
    await request.sent()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    request.answer()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    return cancelled.value


def cancel_while(number: int, block: Callable[[Any], Awaitable[object]], operation: str = "UpdateItem") -> Any:
    with held(number, operation) as request:
        return asyncio.run(cancelled_while(request, block))


def test_a_cancel_during_the_claim_waits_for_it_and_releases_the_task() -> None:
    Order.create("o-1")
    cancel_while(1, wait_forever)
    assert (*state(), Order.get_task("o-1").fence) == ("confirm_payment pending", 0, 1)


def test_a_cancel_during_a_claim_that_is_refused_is_raised_with_a_note() -> None:
    cancelled = cancel_while(1, wait_forever, "GetItem")
    assert TaskNotFoundError.__name__ in cancelled.__notes__[0]
    assert isinstance(cancelled.__cause__, TaskNotFoundError)


def test_a_cancel_during_the_end_records_the_end_and_is_raised() -> None:
    Order.create("o-1")
    cancel_while(2, nothing)
    assert state() == ("ship pending", 0)


@pytest.mark.parametrize("error", [None, RetryLater(timedelta(0)), GiveUp("no use")], ids=repr)
def test_a_cancel_during_an_end_that_is_refused_is_raised_with_a_note(error: Exception | None) -> None:
    async def lose(_ctx: object) -> None:
        await Order.confirm_payment.aignore("o-1", reason="wrong", even_running=True)
        if error is not None:
            raise error

    Order.create("o-1")
    cancelled = cancel_while(3, lose)  # after the claim and the ignore
    assert "wrong" in cancelled.__notes__[0]
    assert isinstance(cancelled.__cause__, LockLostError)
    assert state() == ("confirm_payment ignored", 1)


class EmptyError(ValueError):
    """Is false."""

    def __len__(self) -> int:
        return 0


def test_a_cancel_during_an_end_has_the_error_of_that_as_its_cause_even_if_it_is_false() -> None:
    async def catch(ctx: AsyncContext[Order]) -> None:
        with suppress(EmptyError):
            async with ctx.transaction(succeed=True):
                raise EmptyError

    Order.create("o-1")
    assert isinstance(cancel_while(2, catch).__cause__, EmptyError)


def test_a_cancel_while_a_claim_is_undone_is_raised_once_the_task_is_released() -> None:
    Order.create("o-1", data={"scan": "x" * 500_000})
    with mock.patch.object(hydration, "fill", side_effect=OSError("no network")):
        cancel_while(2, wait_forever)
    assert state() == ("confirm_payment pending", 0)


def test_a_second_cancel_does_not_interrupt_the_release() -> None:
    Order.create("o-1")

    async def main() -> None:
        begun = asyncio.Event()

        async def block(_ctx: object) -> None:
            begun.set()
            await asyncio.sleep(FOREVER)

        with held(2) as release:
            task = asyncio.create_task(Order.confirm_payment.arun("o-1", block))
            await begun.wait()
            task.cancel()
            await release.sent()
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
            release.answer()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert state() == ("confirm_payment pending", 0)


def test_a_cancel_during_a_save_waits_for_it() -> None:
    async def block(ctx: AsyncContext[Order]) -> None:
        ctx.task.amount = 5
        await ctx.save()
        pytest.fail("it was cancelled meanwhile")

    Order.create("o-1")
    cancel_while(2, block)
    assert (*state(), Order.get_task("o-1").amount) == ("confirm_payment pending", 0, 5)


def test_a_claim_that_no_thread_has_begun_is_not_sent() -> None:
    Order.create("o-1")
    done = threading.Event()

    async def main() -> None:
        for _ in range(pool.THREADS):
            pool.REQUESTS.submit(done.wait)
        task = asyncio.create_task(Order.confirm_payment.arun("o-1", wait_forever))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        done.set()

    asyncio.run(main())
    assert Order.get_task("o-1").fence == 0


def test_a_scope_of_anyio_does_not_spin_while_a_request_ends() -> None:
    Order.create("o-1")

    async def main() -> None:
        cancels = list[int]()

        def answer(task: asyncio.Task[Any]) -> None:
            cancels.append(task.cancelling())
            release.answer()

        with held(2) as release:
            with anyio.CancelScope() as scope:
                async with Order.confirm_payment.astart("o-1"):
                    scope.cancel()
                    asyncio.get_running_loop().call_later(
                        0.05, answer, cast("asyncio.Task[Any]", asyncio.current_task())
                    )
                    await anyio.sleep(FOREVER)
            assert scope.cancelled_caught
        assert cancels[0] < 5  # otherwise it is cancelled at each turn of the loop

    asyncio.run(main())
    assert state() == ("confirm_payment pending", 0)


def test_cancels_without_end_count_as_attempts_like_ctrl_c(caplog: pytest.LogCaptureFixture) -> None:
    Order.create("o-1")

    async def main() -> None:
        for _ in range(22):
            await cancelled_in_block(wait_forever)

    with caplog.at_level(logging.WARNING, "pynamodb_tracker"):
        asyncio.run(main())
    assert state() == ("confirm_payment pending", 2)
    assert [after in caplog.text for after in ("after 19 earlier", "after 20 earlier", "after 21 earlier")] == [
        *(False, True, True)
    ]
