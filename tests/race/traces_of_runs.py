"""The traces of claims and finishes: each returns whether a promise was broken."""

import asyncio
import contextlib
from datetime import timedelta

from pynamodb.exceptions import UpdateError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TaskNotStartableError
from tests.engine.actions import PASS, DropResponse, Hold, pass_everything
from tests.support.fixtures import Frozen
from tests.support.orders import LOCK
from tests.support.proxy_rules import arrive
from tests.support.world import OVER, World, fail, scan, taken


def taken_early(world: World) -> bool:
    """Return whether a task is taken before it is due."""
    world.mine.create("o", due_time=world.clock.now() + OVER)
    return taken(world.mine.confirm)


def late_claim_after_another_worker(world: World) -> bool:
    """Return whether a late copy does so after a second worker's failure: a different token need not be a later one."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late)
    fail(world.mine.confirm)
    fail(world.theirs.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.in_progress)


def late_claim_from_another_state(world: World) -> bool:
    """Return whether a late copy of a claim from a further state locks a task that is in this state again."""
    late = Hold()
    ignored = world.mine.confirm.ignored
    world.mine.create("o", state=ignored)
    world.goes_wrong(PASS, late)
    with contextlib.suppress(GiveUp), world.mine.confirm.start("o", also_from=(ignored,)):
        raise GiveUp
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.in_progress)


def postponed_late(world: World) -> bool:
    """Return whether a late copy of a postponement changes a task that another worker holds since."""
    late = Hold()
    world.mine.create("o")
    with contextlib.suppress(RetryLater), world.mine.confirm.start("o"):
        world.goes_wrong(late)
        raise RetryLater(timedelta(0), use_attempt=False)
    world.freeze(world.theirs.confirm, "o")
    arrive(world.proxy, late)
    return bool(world.task.state != world.mine.confirm.in_progress)


def frozen_success(world: World) -> bool:
    """Return whether a success that was never applied counts: its worker was frozen until the task was ignored."""
    world.mine.create("o")
    for _ in range(2):
        fail(world.mine.confirm)
    frozen = world.freeze(world.mine.confirm, "o")
    world.clock.advance(OVER)
    assert not taken(world.theirs.confirm)
    with contextlib.suppress(LockLostError):
        frozen.wake()
        return True
    return False


def taken_over(world: World) -> tuple[Frozen, Frozen]:
    """Return the run of a frozen worker, and that of the worker that took over."""
    world.mine.create("o")
    loser = world.freeze(world.mine.confirm, "o")
    world.clock.advance(OVER)
    return loser, world.freeze(world.theirs.confirm, "o")


def ends_the_next_run(world: World, error: BaseException | None) -> bool:
    """Return whether a frozen worker whose block ends like that ends the run of the worker that took over."""
    loser, _ = taken_over(world)
    with contextlib.suppress(LockLostError if error is None else type(error)):
        loser.wake(error)
    return bool(world.task.state != world.mine.confirm.in_progress)


def woken_surrender(world: World) -> bool:
    """Return whether the last failure of a frozen worker ends the run of the worker that took over."""
    return ends_the_next_run(world, GiveUp())


def woken_extension(world: World) -> bool:
    """Return whether a frozen worker extends the lock of the worker that took over."""
    loser, winner = taken_over(world)
    with contextlib.suppress(LockLostError):
        loser.ctx.extend_lock(2 * LOCK)
    return bool(world.task.lock_expire_time != winner.ctx.lock_expire_time)


def woken_settle(world: World) -> bool:
    """Return whether a save is lost if a worker that lost the lock before finds out what became of an own one."""
    world.mine.create("o")
    loser = world.freeze(world.mine.confirm, "o")
    save_unheard(world, loser, "mine")
    world.clock.advance(OVER)
    winner = world.freeze(world.theirs.confirm, "o")
    with contextlib.suppress(LockLostError):
        loser.ctx.save()
    winner.ctx.task.note = "theirs"
    winner.ctx.save()
    return bool(world.task.note != "theirs")


def save_unheard(world: World, run: Frozen, note: str) -> None:
    """Have a run save a note, and get no answer."""
    world.proxy.rule = lambda target, *_: DropResponse() if target == "UpdateItem" else PASS
    run.ctx.task.note = note
    with contextlib.suppress(UpdateError):
        run.ctx.save()
    world.proxy.rule = pass_everything


def late_extension(world: World) -> bool:
    """Return whether a short extension that arrives after a long one lets another worker take the task."""
    late = Hold()
    world.mine.create("o")
    run = world.freeze(world.mine.confirm, "o")
    world.goes_wrong(late)
    run.ctx.extend_lock(timedelta(minutes=6))
    run.ctx.extend_lock(timedelta(hours=1))
    arrive(world.proxy, late)
    world.clock.advance(2 * OVER)
    return taken(world.theirs.confirm)


def late_save(world: World) -> bool:
    """Return whether the older value wins if the first of two saves arrives after the second."""
    late = Hold()
    world.mine.create("o")
    with world.mine.confirm.start("o") as ctx:
        ctx.task.note = "first"
        world.goes_wrong(late)
        ctx.save()
        ctx.task.note = "second"
        ctx.save()
        arrive(world.proxy, late)
        return bool(world.task.note == "first")


def late_settle(world: World) -> bool:
    """Return whether a late question about the first save lets a late copy of the second one replace the third."""
    question, second = Hold(), Hold()
    world.mine.create("o")
    run = world.freeze(world.mine.confirm, "o")
    save_unheard(world, run, "first")
    world.goes_wrong(question, PASS, second)
    for note in ("second", "third"):
        run.ctx.task.note = note
        run.ctx.save()
    arrive(world.proxy, question)
    arrive(world.proxy, second)
    return bool(world.task.note == "second")


def taker_dies(world: World) -> bool:
    """Return whether attempts exceed the limit if all workers die, even those that find no attempt left."""
    world.mine.create("o")
    for _ in range(5):
        with contextlib.suppress(TaskNotStartableError):
            world.freeze(world.mine.confirm, "o")
        world.clock.advance(OVER)
    return bool(world.task.attempt > world.mine.confirm.max_attempts)


def late_answer(world: World) -> bool:
    """Return whether a block begins after a late answer to its claim, although another worker may take the task."""
    world.mine.create("o")
    world.goes_wrong(lambda: world.clock.advance(OVER))
    world.freeze(world.mine.confirm, "o")
    return taken(world.theirs.confirm)


def late_data(world: World) -> bool:
    """Return whether this happens on an event loop, after the data that is stored off-row was read for long."""
    world.mine.create("o", data=scan("large"))
    world.goes_wrong(lambda: world.clock.advance(OVER), target="BatchGetItem")

    begun = list[bool]()

    async def begin() -> None:
        async with world.mine.confirm.astart("o"):
            begun.append(taken(world.theirs.confirm))

    with contextlib.suppress(LockLostError):
        asyncio.run(begin())
    return begun == [True]


def taken_while_held(world: World) -> bool:
    """Return whether a second worker takes a task that is locked."""
    world.mine.create("o")
    world.freeze(world.mine.confirm, "o")
    return taken(world.theirs.confirm)


def unheard_claim(world: World) -> bool:
    """Return whether a claim without an answer, which arrives after the row was read, locks the task after all."""
    late = Hold()
    world.mine.Meta.max_retry_attempts = 0
    world.mine.create("o")
    world.goes_wrong(late)
    with contextlib.suppress(UpdateError):
        world.mine.confirm.run("o", lambda _: None)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.in_progress)
