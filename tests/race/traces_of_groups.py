"""The traces of groups: each returns whether two tasks of one have the turn, or one gets it that must not."""

from __future__ import annotations

from tests.support.world import World

GROUP = "g"
TRANSACT = "TransactWriteItems"


def entered_at_once(world: World) -> bool:
    """Return whether two tasks that enter an idle group at once both have the turn."""
    world.goes_wrong(lambda: world.theirs.create("p", group=GROUP), target=TRANSACT)
    world.mine.create("o", group=GROUP)
    return all(world.theirs.get_task(task_id).waits is None for task_id in ("o", "p"))


def entered_as_the_turn_ends(world: World) -> bool:
    """Return whether a task that enters a group as its only task ends waits for nobody."""
    world.theirs.create("p", group=GROUP, state=world.theirs.ship.pending)
    world.goes_wrong(lambda: world.theirs.ship.run("p", lambda _: None), target=TRANSACT)
    world.mine.create("o", group=GROUP)
    return world.task.waits is not None
