"""The traces of claims and finishes: each returns whether a promise was broken."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from pynamodb_tracker import LockLostError, TaskNotStartableError
from tests.engine.actions import DropAnswer, Hold
from tests.support.orders import LOCK
from tests.support.proxy_rules import arrive
from tests.support.world import OVER, World, fail, taken


def late_claim(world: World) -> bool:
    """Return whether a late copy of a claim, whose run has failed since, locks the task without a worker."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late)
    fail(world.mine.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.in_progress and world.task.attempt == 2)


def late_claim_after_another_worker(world: World) -> bool:
    """Return whether a late copy does so after a second worker's failure: a different token need not be a later one."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late)
    fail(world.mine.confirm)
    fail(world.theirs.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.in_progress)


def landed_success(world: World) -> bool:
    """Return whether an applied success counts as lost if its answer was lost and the next step was claimed."""
    world.mine.create("o")
    try:
        with world.mine.confirm.start("o"):
            world.goes_wrong(DropAnswer(), lambda: world.freeze(world.theirs.ship, "o"))
    except LockLostError:
        return True
    return False


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


def woken_loser(world: World) -> bool:
    """Return whether the success of a frozen worker ends the run of the worker that took over."""
    world.mine.create("o")
    frozen = world.freeze(world.mine.confirm, "o")
    world.clock.advance(OVER)
    world.freeze(world.theirs.confirm, "o")
    with contextlib.suppress(LockLostError):
        frozen.wake()
    return bool(world.task.state != world.mine.confirm.in_progress)


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


def short_extension(world: World) -> bool:
    """Return whether an extension by less than the time left lets another worker take the task."""
    world.mine.create("o")
    world.freeze(world.mine.confirm, "o").ctx.extend_lock(timedelta(seconds=1))
    world.clock.advance(LOCK / 2)
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


def taker_dies(world: World) -> bool:
    """Return whether attempts exceed the limit if all workers die, even those that find no attempt left."""
    world.mine.create("o")
    for _ in range(5):
        with contextlib.suppress(TaskNotStartableError):
            world.freeze(world.mine.confirm, "o")
        world.clock.advance(OVER)
    return bool(world.task.attempt > world.mine.confirm.max_attempts)


def inherited_attempts(world: World) -> bool:
    """Return whether a step that starts from another step's failed state inherits that step's attempts."""
    world.mine.create("o")
    for _ in range(2):
        fail(world.mine.confirm)
    with world.mine.ship.start("o") as ctx:
        return bool(ctx.attempt != 1)


def late_answer(world: World) -> bool:
    """Return whether a block begins after a late answer to its claim, although another worker may take the task."""
    world.mine.create("o")
    world.goes_wrong(lambda: world.clock.advance(OVER))
    world.freeze(world.mine.confirm, "o")
    return taken(world.theirs.confirm)


def locked_out(world: World, *, detailed: bool = True) -> bool:
    """Return whether a worker is refused because of its own lock, after the answer to its claim was lost."""
    world.mine.create("o")
    world.goes_wrong(DropAnswer())
    try:
        world.mine.confirm.run("o", lambda _: None, detailed_error=detailed)
    except TaskNotStartableError:
        return bool(world.task.state == world.mine.confirm.in_progress)
    return False


def locked_out_without_detail(world: World) -> bool:
    """Return whether this happens without detailed errors."""
    return locked_out(world, detailed=False)


def taken_while_held(world: World) -> bool:
    """Return whether a second worker takes a task that is locked."""
    world.mine.create("o")
    world.freeze(world.mine.confirm, "o")
    return taken(world.theirs.confirm)
