"""The traces of follow-ups: each returns whether one was created wrongly, or was taken for another task."""

import contextlib
from typing import Any
from unittest import mock

from pynamodb_tracker import LockLostError, TaskAlreadyExistsError
from pynamodb_tracker.features.children import follow_ups
from tests.engine.actions import Action, Hold
from tests.support.proxy_rules import arrive, in_turn
from tests.support.world import OVER, World, fail


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
