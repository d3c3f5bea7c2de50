"""The traces of groups: each returns whether two tasks of one have the turn, or one gets it that must not."""

import contextlib
from functools import partial

from pynamodb_tracker import TaskFormatError, TaskNotFoundError
from pynamodb_tracker.model.row import TaskRow
from tests.race.traces_of_commands import begin_another_life, later_version
from tests.support.operations import row
from tests.support.world import World

GROUP = "g"
TRANSACT = "TransactWriteItems"


def ignored_in_another_group(world: World) -> bool:
    """Return whether a task is ignored that was created again, in another group, after the earlier one was read."""
    world.mine.create("o", group=GROUP)
    world.goes_wrong(lambda: begin_another_life(world, group="h"), target=TRANSACT)
    with contextlib.suppress(TaskNotFoundError):
        world.mine.confirm.ignore("o", reason="cancelled")
    return bool(world.task.state == world.mine.confirm.ignored)


def woken_for_a_later_version(world: World) -> bool:
    """Return whether a task gets its turn that a later version has written."""
    world.mine.create("o", group=GROUP)
    world.mine.create("p", group=GROUP)
    world.goes_wrong(partial(later_version, world, "p"), target=TRANSACT)
    with contextlib.suppress(TaskFormatError):
        world.mine.confirm.ignore("o", reason="cancelled")
    return "turn_due_time" not in (row(world.theirs, "p") or {})


def entered_in_its_next_life(world: World) -> bool:
    """Return whether a task of another group enters the one that its id was in before, by a clock that is behind."""

    def begin() -> None:
        begin_another_life(world, group="h")
        world.theirs.confirm.ignore("o", reason="cancelled")
        tracker = world.theirs.tracker
        tracker.connection().update_item("o", tracker.use_case.name, actions=[TaskRow.lock.set("0" * 24)])

    world.mine.create("o", group=GROUP)
    world.theirs.confirm.ignore("o", reason="cancelled")
    world.goes_wrong(begin, target=TRANSACT)
    world.mine.confirm.reopen("o")
    return bool(world.theirs.group(GROUP).turn == "o")
