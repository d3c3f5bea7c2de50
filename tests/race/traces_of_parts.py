"""The traces of parts of runs: each returns whether a promise was broken."""

import contextlib
from typing import Any

from pynamodb_tracker import LockLostError
from tests.engine.actions import PASS, DropRequest, Hold, pass_everything
from tests.race.traces_of_runs import taken_over
from tests.support.operations import Boom
from tests.support.proxy_rules import arrive
from tests.support.world import World


def part(ctx: Any, name: str = "charge") -> bool:
    """Run a part, and return whether its function was called."""
    calls: list[str] = []
    ctx.checkpoint(name, lambda: calls.append(name))
    return bool(calls)


def fail_after(step: Any, *names: str) -> None:
    """Fail an attempt that has run these parts."""
    with contextlib.suppress(Boom), step.start("o") as ctx:
        for name in names:
            part(ctx, name)
        raise Boom


def woken_part(world: World) -> bool:
    """Return whether a frozen worker stores a part in the row of the worker that took over."""
    loser, _ = taken_over(world)
    with contextlib.suppress(LockLostError):
        part(loser.ctx)
    return world.task.checkpoints is not None


def late_part(world: World) -> bool:
    """Return whether a part is forgotten if the first of two writes arrives after the second."""
    late = Hold()
    world.mine.create("o")
    run = world.freeze(world.mine.confirm, "o")
    world.goes_wrong(late)
    part(run.ctx, "charge")
    part(run.ctx, "mail")
    arrive(world.proxy, late)
    return "10/mail" not in world.task.checkpoints


def unheard_part(world: World, error: BaseException | None = None) -> bool:
    """Return whether a part is repeated after a failure, because storing its result got no answer."""
    world.mine.create("o")
    with contextlib.suppress(Boom, KeyboardInterrupt), world.mine.confirm.start("o") as ctx:
        world.proxy.rule = lambda target, *_: DropRequest() if target == "UpdateItem" else PASS
        part(ctx)
        world.proxy.rule = pass_everything
        raise error or Boom
    with world.theirs.confirm.start("o") as ctx:
        return part(ctx)


def unheard_part_of_a_released_run(world: World) -> bool:
    """Return whether it is repeated after a release."""
    return unheard_part(world, KeyboardInterrupt())


def asked_as_a_part_was_done(world: World) -> bool:
    """Return whether a request is answered with a part that was done for an earlier one."""
    world.mine.create("o")
    world.goes_wrong(lambda: fail_after(world.theirs.confirm, "charge"))
    world.mine.create_or_merge("o", note="a", merge=lambda task, new: setattr(task, "note", new["note"]))
    return bool(world.task.note == "a")


def asked_as_a_task_with_a_part_ended(world: World) -> bool:
    """Return whether a task has ended that was asked for as it ended."""
    world.mine.create("o")
    fail_after(world.theirs.confirm, "charge")

    def end() -> None:
        world.theirs.confirm.run("o", lambda _: None)
        world.theirs.ship.run("o", lambda _: None)

    world.goes_wrong(end)
    world.mine.create_or_merge("o")
    return bool(world.task.state == world.mine.ship.succeeded)


def part_of_an_earlier_round(world: World) -> bool:
    """Return whether a task that was started over has a part of the round before."""
    world.mine.create("o")
    fail_after(world.mine.confirm, "charge")
    world.mine.ship.run("o", lambda _: None)  # from confirm failed, so the part of that step stays
    world.mine.create_or_merge("o")
    return world.task.checkpoints is not None
