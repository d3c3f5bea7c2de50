"""The traces of create, reopen, ignore, delete and spend: each returns whether a promise was broken."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from pynamodb_tracker import TaskAlreadyExistsError, TaskNotFoundError
from tests.engine.actions import PASS, DropAnswer, DropRequest, Hold
from tests.support.operations import Boom
from tests.support.proxy_rules import arrive
from tests.support.world import OVER, World, fail, taken


def late_reopen(world: World) -> bool:
    """Tell whether a reopen that arrives after the task has failed again opens it once more."""
    late = Hold()
    world.mine.create("o")
    fail(world.mine.confirm)
    world.goes_wrong(late)
    world.mine.confirm.reopen("o")
    fail(world.mine.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.pending)


def late_ignore(world: World) -> bool:
    """Tell whether an ignore that arrives after the task was reopened sets it aside once more."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late)
    world.mine.confirm.ignore("o", reason="cancelled")
    world.mine.confirm.reopen("o")
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.ignored)


def reopened_with_an_end(world: World) -> bool:
    """Tell whether retention will delete a task that was set aside and is open again."""
    world.mine.create("o")
    world.mine.confirm.ignore("o", reason="cancelled")
    assert world.task.expire_time is not None
    world.mine.confirm.reopen("o")
    return world.task.expire_time is not None


def run_again_with_an_end(world: World) -> bool:
    """Tell whether retention will delete a finished task while it runs a step once more."""
    world.mine.create("o", state=world.mine.ship.succeeded)
    with world.mine.ship.start("o", also_from=(world.mine.ship.succeeded,)):
        return world.task.expire_time is not None


def finished_meanwhile(world: World) -> bool:
    """Tell whether a late success is set aside by one who had just found its worker dead."""
    world.mine.create("o")
    for _ in range(2):
        fail(world.mine.confirm)
    late = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    world.goes_wrong(PASS, late.wake)
    taken(world.mine.confirm)
    return bool(world.task.state == world.mine.confirm.ignored)


def failed_meanwhile(world: World) -> bool:
    """Tell whether a failure between the two requests of an ignore is gone from the record."""
    world.mine.create("o")
    late = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)

    def fail_late() -> None:
        with contextlib.suppress(Boom):
            late.wake(Boom())

    world.goes_wrong(fail_late)
    world.mine.confirm.ignore("o", reason="cancelled")
    return [failure.type for failure in world.task.errors] != ["Boom", "ignored"]


def deleted_while_held(world: World) -> bool:
    """Tell whether a delete that arrives late removes a task that was claimed since it was looked at."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late, target="DeleteItem")
    world.mine.delete_task("o")
    world.theirs.create("o")  # at the same moment, so that its create_time does not tell the two apart
    world.freeze(world.theirs.confirm, "o")
    arrive(world.proxy, late)
    return is_gone(world)


def deleted_in_its_next_life(world: World) -> bool:
    """Tell whether a delete that arrives late removes a task that was created again since."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late, target="DeleteItem")
    world.mine.delete_task("o")
    world.clock.advance(timedelta(seconds=1))
    world.theirs.create("o")
    arrive(world.proxy, late)
    return is_gone(world)


def is_gone(world: World) -> bool:
    """Tell whether the task is not there."""
    try:
        return world.task is None
    except TaskNotFoundError:
        return True


def created_twice(world: World) -> bool:
    """Tell whether a creator is told that the task exists already, because the answer to its create was lost."""
    world.goes_wrong(DropAnswer(), target="PutItem")
    try:
        world.mine.create("o")
    except TaskAlreadyExistsError:
        return True
    return False


def created_by_another(world: World) -> bool:
    """Tell whether a creator takes the task of another one for its own, because its create was lost."""

    def theirs() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.theirs.create("o", amount=2)

    world.goes_wrong(DropRequest(), theirs, target="PutItem")
    with contextlib.suppress(TaskAlreadyExistsError):
        world.mine.create("o", amount=1)
        return True
    return False
