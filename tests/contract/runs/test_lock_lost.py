"""How a block finds out that its lock is lost: `ctx.lock_lost`, and LockLostError at once when it is known."""

# ruff: noqa: PT012 - the block that raises is what is tested, whatever it has in it

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import pytest

from pynamodb_tracker import ExecutionContext, LockLostError
from tests.support.network import unreached
from tests.support.paced_clock import PATIENCE, PacedClock, beating_heart, heart, paced
from tests.support.recorder import recorded
from tests.support.rows import change, stored
from tests.support.shop import Order
from tests.support.workers import Broken, die, succeed

pytestmark = pytest.mark.usefixtures("table", "task")

LOCK = timedelta(minutes=5)
THIRD = LOCK / 3
OVER = LOCK + timedelta(seconds=3)
MOMENT = timedelta(microseconds=1)

Ctx = ExecutionContext[Order]
FindOut = Callable[[Ctx], None]
Lose = Callable[[FindOut], AbstractContextManager[Ctx]]


@pytest.fixture
def clock() -> Iterator[PacedClock]:
    with paced() as clock:
        yield clock


def by_saving(ctx: Ctx) -> None:
    ctx.task.amount = 2
    with pytest.raises(LockLostError):
        ctx.save()


def by_extending(ctx: Ctx) -> None:
    with pytest.raises(LockLostError):
        ctx.extend_lock()


def by_a_heartbeat(_: Ctx) -> None:
    if beating := heart():  # otherwise it has found out already, and ended
        beating.join(PATIENCE)


FINDINGS = [by_saving, by_extending, by_a_heartbeat]

each_finding = pytest.mark.parametrize("find_out", FINDINGS)


@pytest.fixture
def lose(clock: PacedClock) -> Lose:
    """Start a block that is frozen while another worker takes the task, and that then finds out."""

    @contextmanager
    def lose(find_out: FindOut) -> Iterator[Ctx]:
        with Order.confirm_payment.start("o-1", heartbeat=find_out is by_a_heartbeat) as ctx:
            with clock.frozen():
                clock.advance(OVER)
                die(Order.confirm_payment, "o-1")
            find_out(ctx)
            yield ctx

    return lose


def test_a_lock_is_not_lost_until_it_expires_and_that_needs_no_request(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1") as ctx, recorded() as requests:
        requests.clear()
        assert not ctx.lock_lost
        clock.advance(LOCK - MOMENT)
        assert not ctx.lock_lost
        clock.advance(MOMENT)
        assert (ctx.lock_lost, requests) == (True, [])


def test_an_expired_lock_is_not_lost_once_it_is_extended(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1") as ctx:
        clock.advance(OVER)
        ctx.extend_lock()
        assert not ctx.lock_lost
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_frozen_worker_sees_that_its_lock_has_expired_before_its_heartbeat_has_run(clock: PacedClock) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1", heartbeat=True) as ctx, clock.frozen():
        clock.advance(OVER)
        assert ctx.lock_lost
        succeed(Order.confirm_payment, "o-1")
        before = stored(Order, "o-1")
        by_saving(ctx)
        assert stored(Order, "o-1") == before


def test_a_frozen_worker_continues_unless_another_worker_took_its_task(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        clock.pause()
        with clock.frozen():
            clock.advance(OVER)
            was_lost = ctx.lock_lost
        clock.pause()
        assert (was_lost, ctx.lock_lost) == (True, False)
        ctx.task.amount = 2
    assert Order.get_task("o-1").amount == 2


@each_finding
def test_a_lock_that_another_worker_has_is_lost_for_good(clock: PacedClock, lose: Lose, find_out: FindOut) -> None:
    with pytest.raises(LockLostError), lose(find_out) as ctx:
        assert ctx.lock_lost
        clock.advance(-OVER)
        assert ctx.lock_lost


@each_finding
def test_operations_on_a_lost_lock_are_refused_at_once_with_the_error_of_the_proof(
    lose: Lose, find_out: FindOut
) -> None:
    with pytest.raises(LockLostError), lose(find_out) as ctx:
        for order in (ctx.save, ctx.extend_lock, ctx.save):
            with unreached(), pytest.raises(LockLostError, match="this run has lost its lock") as caught:
                order()
            assert caught.value.task is not None
            assert (caught.value.task_id, caught.value.task.fence) == ("o-1", 2)


@each_finding
def test_a_success_of_a_lost_lock_is_an_error_without_a_request(lose: Lose, find_out: FindOut) -> None:
    with recorded() as requests:
        with pytest.raises(LockLostError) as caught, lose(find_out):
            requests.clear()
        assert requests == []
    assert caught.value.task is not None
    assert caught.value.task.fence == 2


@each_finding
@pytest.mark.parametrize("end", [Broken, KeyboardInterrupt])
def test_another_exit_after_a_lost_lock_propagates_with_a_note_and_without_a_request(
    lose: Lose, find_out: FindOut, end: type[BaseException]
) -> None:
    with recorded() as requests:
        with pytest.raises(end) as caught, lose(find_out):
            requests.clear()
            raise end
        assert requests == []
    assert "this run has lost its lock" in caught.value.__notes__[0]


def test_the_error_of_a_lost_lock_propagates_from_the_block(lose: Lose) -> None:
    told = list[LockLostError]()
    with pytest.raises(LockLostError) as caught, lose(by_extending) as ctx:
        try:
            ctx.save()
        except LockLostError as error:
            told.append(error)
            raise
    assert told == [caught.value]


def test_a_loss_that_is_found_at_the_end_of_the_block_is_visible_afterwards(clock: PacedClock) -> None:
    with pytest.raises(LockLostError), Order.confirm_payment.start("o-1") as ctx:
        clock.advance(OVER)
        die(Order.confirm_payment, "o-1")
    clock.advance(-OVER)
    assert ctx.lock_lost


def test_a_row_that_moved_on_with_the_token_of_the_run_proves_no_loss(
    clock: PacedClock, caplog: pytest.LogCaptureFixture
) -> None:
    run = Order.confirm_payment.start("o-1", heartbeat=True)
    ctx = run.__enter__()
    change(Order, "o-1", status={"N": str(Order.ship.pending.code)})
    beating = beating_heart()
    clock.advance(THIRD)
    beating.join(PATIENCE)
    assert not beating.is_alive()
    assert not ctx.lock_lost
    assert caplog.records == []


def test_a_run_that_ends_normally_has_not_lost_its_lock(clock: PacedClock) -> None:
    with Order.confirm_payment.start("o-1", heartbeat=True) as ctx:
        ctx.save()
    for order in (ctx.save, ctx.extend_lock):
        with pytest.raises(LockLostError, match="the block has ended"):
            order()
    assert not ctx.lock_lost
    clock.advance(OVER)
    assert not ctx.lock_lost
