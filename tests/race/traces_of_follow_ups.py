"""The traces of follow-ups: each returns whether one was created wrongly, or was taken for another task."""

import contextlib
from typing import Any
from unittest import mock

from pynamodb_tracker import LockLostError, TaskAlreadyExistsError
from pynamodb_tracker.features.children import follow_ups
from tests.engine.actions import Action, Hold
from tests.support.proxy_rules import arrive, in_turn
from tests.support.world import OVER, World, fail


def succeed_with_child(world: World, **options: Any) -> None:
    """Run the task, with a follow-up."""
    with world.mine.confirm.start("o", **options) as ctx:
        ctx.create(world.mine, "child")


def created_over_one_that_ran(world: World) -> bool:
    """Return whether the second success of a step creates a follow-up that has run since the first one."""
    world.mine.create("o")
    succeed_with_child(world)
    world.theirs.confirm.run("child", lambda _: None)
    succeed_with_child(world, also_from=(world.mine.ship.pending,))
    return bool(world.theirs.get_task("child").state != world.theirs.ship.pending)


def taken_for_a_follow_up(world: World) -> bool:
    """Return whether a success is recorded whose follow-up has the id of another task."""
    world.theirs.create("child")
    world.mine.create("o")
    with contextlib.suppress(TaskAlreadyExistsError):
        succeed_with_child(world)
    return bool(world.task.state == world.mine.ship.pending)


def taken_for_one_of_this_life(world: World) -> bool:
    """Return whether a success is recorded whose follow-up was created by a task of the same id, deleted since."""
    world.mine.create("o")
    succeed_with_child(world)
    world.theirs.delete_task("o")
    world.mine.create("o")
    with contextlib.suppress(TaskAlreadyExistsError):
        succeed_with_child(world)
    return bool(world.task.state == world.mine.ship.pending)


def created_without_the_lock(world: World) -> bool:
    """Return whether a worker that was frozen creates what comes before its success, after another one has failed."""
    world.mine.create("o")
    with mock.patch.object(follow_ups, "_MOST_WITH_SUCCESS", 1):
        run = world.freeze(world.mine.confirm, "o")
        for number in range(2):
            run.ctx.create(world.mine, f"child-{number}")
        world.clock.advance(OVER)
        fail(world.theirs.confirm)
        with contextlib.suppress(LockLostError):
            run.wake()
    return [task.task_id for task in world.theirs.confirm.pending.query()] != []


def failed_although_it_succeeded(world: World) -> bool:
    """Return whether a run fails because of a foreign follow-up, and the late copy of its success is recorded."""
    late, failed = Hold(), False
    world.mine.create("o")

    def arrives() -> None:
        world.theirs.delete_task("child")
        arrive(world.proxy, late)

    transactions = in_turn("TransactWriteItems", late, lambda: world.theirs.create("child"))
    updates = in_turn("UpdateItem", arrives)

    def rule(target: str, body: dict[str, Any], ordinal: int) -> Action:
        return (updates if target == "UpdateItem" else transactions)(target, body, ordinal)

    try:
        with world.mine.confirm.start("o") as ctx:
            ctx.create(world.mine, "child")
            world.proxy.rule = rule
    except TaskAlreadyExistsError:
        failed = True
    return bool(failed == (world.task.state == world.mine.ship.pending))
