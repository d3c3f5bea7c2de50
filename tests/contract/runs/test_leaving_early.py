"""Blocks that end by something else than an Exception: Ctrl-C gives the attempt back, the rest counts as a failure."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pynamodb_tracker import TaskIgnoredError
from pynamodb_tracker.clock import StoppedClock
from tests.contract.odd_errors import StrError
from tests.support.blocking import only_blocking
from tests.support.engines import only_dynoxide
from tests.support.shop import Order, created
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("client", "table", "task")


ENDS = [SystemExit(3), GeneratorExit(), asyncio.CancelledError()]


def exit_now(*_: object) -> None:
    sys.exit(0)


def exit_once(signum: int, _frame: object) -> None:
    signal.signal(signum, signal.SIG_IGN)
    exit_now()


class Service:
    def end(self, *_: object) -> None:
        exit_now()

    def __call__(self, _signum: int, _frame: object) -> None:
        exit_now()


@pytest.fixture
def handle() -> Iterator[Callable[[int, Any], object]]:
    """Return signal.signal, whose effects end with the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    yield signal.signal
    for number, handler in before.items():
        signal.signal(number, handler)


@only_blocking  # on an event loop, asyncio itself handles signals
@pytest.mark.parametrize(
    "handler", [exit_now, exit_once, Service().end, Service()], ids=["function", "once", "method", "object"]
)
def test_an_exit_by_the_programs_own_handler_of_sigterm_releases_the_task(
    handle: Callable[[int, Any], object], handler: Any
) -> None:
    handle(signal.SIGTERM, handler)
    with pytest.raises(SystemExit), Order.confirm_payment.start("o-1"):
        signal.raise_signal(signal.SIGTERM)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors) == (Order.confirm_payment.pending, 0, [])


@only_blocking
def test_an_exit_by_a_handler_of_another_signal_is_a_failure(handle: Callable[[int, Any], object]) -> None:
    handle(signal.SIGTERM, lambda *_: None)
    handle(signal.SIGALRM, exit_now)
    with pytest.raises(SystemExit), Order.confirm_payment.start("o-1"):
        signal.raise_signal(signal.SIGALRM)
    assert Order.get_task("o-1").state == Order.confirm_payment.failed


def test_ctrl_c_releases_the_attempt_at_once_and_records_no_error(clock: StoppedClock) -> None:
    fail(Order.confirm_payment, "o-1")
    fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
    task = Order.get_task("o-1")
    assert (task.state, task.due_time, task.attempt) == (Order.confirm_payment.pending, clock.now(), 1)
    assert [failure.type for failure in task.errors] == ["Broken"]


@created(amount=1)
def test_ctrl_c_saves_nothing_that_the_block_assigned() -> None:
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1") as ctx:
        ctx.task.amount = 2
        raise KeyboardInterrupt
    assert Order.get_task("o-1").amount == 1


@only_dynoxide
def test_a_task_that_is_released_again_and_again_counts_its_attempts_at_last() -> None:
    attempts = []
    for _ in range(23):
        fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
        attempts.append(Order.get_task("o-1").attempt)
    assert attempts == [0] * 20 + [1, 2, 3]
    with pytest.raises(TaskIgnoredError, match="3 of 3 attempts are used"):
        Order.confirm_payment.start("o-1").__enter__()
    Order.confirm_payment.reopen("o-1")
    fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
    assert Order.get_task("o-1").attempt == 0


@only_dynoxide
def test_a_task_that_was_run_many_times_can_still_be_released_without_counting_the_attempt() -> None:
    for _ in range(21):
        Order.confirm_payment.run("o-1", lambda _: None, also_from=(Order.confirm_payment.succeeded,))
    fail(Order.ship, "o-1", KeyboardInterrupt())
    task = Order.get_task("o-1")
    assert (task.attempt, task.release_count) == (0, 1)
    Order.ship.run("o-1", lambda _: None)
    assert Order.get_task("o-1").release_count is None


def test_ctrl_c_while_the_message_of_a_failure_is_read_leaves_after_the_failure_is_recorded() -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1"):
        raise StrError(interrupted)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors[-1].type) == (Order.confirm_payment.failed, 1, "StrError")


def test_the_row_in_the_context_shows_the_release_afterwards() -> None:
    with pytest.raises(KeyboardInterrupt), Order.confirm_payment.start("o-1") as ctx:
        raise KeyboardInterrupt
    assert (ctx.task.state, ctx.task.attempt) == (Order.confirm_payment.pending, 0)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_another_exit_is_recorded_as_a_failure_that_counts(end: BaseException) -> None:
    fail(Order.confirm_payment, "o-1", end)
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors[-1].type) == (Order.confirm_payment.failed, 1, type(end).__name__)


@pytest.mark.parametrize("end", [*ENDS, KeyboardInterrupt()], ids=lambda end: type(end).__name__)
def test_another_exit_propagates_even_if_errors_are_skipped(end: BaseException) -> None:
    with pytest.raises(type(end)), Order.confirm_payment.start("o-1", skip_error=True):
        raise end
    step = Order.confirm_payment
    assert Order.get_task("o-1").state == (step.pending if isinstance(end, KeyboardInterrupt) else step.failed)


def test_a_generator_that_is_closed_inside_of_the_block_fails_the_attempt() -> None:
    def halfway() -> Iterator[str]:
        with Order.confirm_payment.start("o-1"):
            yield "in the block"

    generator = halfway()
    next(generator)
    generator.close()  # type: ignore[attr-defined]  # an Iterator to the annotation, a generator in fact
    assert Order.get_task("o-1").errors[-1].type == "GeneratorExit"


@only_blocking
@pytest.mark.parametrize("is_from_outside", [True, False])
def test_a_coroutine_that_is_cancelled_in_the_block_releases_the_task_if_that_came_from_outside(
    *, is_from_outside: bool
) -> None:
    async def hang() -> None:
        with Order.confirm_payment.start("o-1"):
            if not is_from_outside:
                raise asyncio.CancelledError
            await asyncio.Event().wait()

    async def cancel() -> None:
        task = asyncio.create_task(hang())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    state, attempt = ("pending", 0) if is_from_outside else ("failed", 1)
    task = Order.get_task("o-1")
    assert (str(task.state), task.attempt) == (f"confirm_payment {state}", attempt)


@only_blocking
def test_a_forgotten_with_is_an_error_that_says_so() -> None:
    ctx: Any = Order.ship.start("o-1")
    with pytest.raises(
        AttributeError, match=r"write `with Order\.ship\.start\('o-1'\) as ctx:`, and in its block ctx\.task"
    ):
        ctx.task.data["a"] = 1
    with pytest.raises(AttributeError, match="a run has no attribute 'tsak'"):
        ctx.tsak()
    runs = [ctx]
    del ctx
    with pytest.warns(ResourceWarning, match=r"^Order.ship.start\('o-1'\) was never entered"):
        runs.clear()
