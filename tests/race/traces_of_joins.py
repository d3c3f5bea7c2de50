"""The traces of tasks that wait for others: each returns whether one starts too early, or never."""

import contextlib
from functools import partial
from typing import Any

from pynamodb_tracker import TaskFormatError
from tests.race.traces_of_commands import later_version
from tests.support.world import World

TOGETHER = "TransactWriteItems"


def wait_for(order: Any, *children: str, **options: Any) -> None:
    """Run the first step of the task, and let the second one wait for these tasks."""
    with order.confirm.start("o", **options) as ctx:
        for child in children:
            ctx.create(order, child, wait=True)


def end(order: Any, *children: str) -> None:
    for child in children:
        for step in (order.confirm, order.ship):
            with step.start(child):
                pass


def begin(world: World, *children: str) -> None:
    world.mine.create("o")
    wait_for(world.theirs, *children)


def second_success(world: World) -> bool:
    """Return whether a child whose last step runs again counts again."""
    begin(world, "o/1", "o/2")
    end(world.mine, "o/1")
    with world.mine.ship.start("o/1", also_from=[world.mine.ship.succeeded]):
        pass
    return bool(world.task.blockers is None)


def counted_for_a_later_version(world: World) -> bool:
    """Return whether a child counts for a task that a later version has written since it was read."""
    begin(world, "o/1")
    world.goes_wrong(partial(later_version, world), target=TOGETHER)
    with contextlib.suppress(TaskFormatError):
        end(world.mine, "o/1")
    return "blockers" not in world.theirs.tracker.connection().get_item("o", world.theirs.tracker.use_case.name)["Item"]
