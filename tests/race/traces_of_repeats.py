"""The traces of tasks that repeat: each returns whether one is due at a time that its rule does not have."""

from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import Repeat
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.worker_name import this_worker
from tests.engine.actions import PASS
from tests.race.traces_of_commands import begin_another_life, later_version
from tests.support.fixtures import Frozen
from tests.support.workers import die
from tests.support.world import OVER, World, taken

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def begin(world: World) -> None:
    """Create a task that is due in an hour, and each day after that."""
    world.mine.create("o", repeat=Repeat.every(DAY, start=world.clock.now() + HOUR))


def change_rule(world: World) -> None:
    """Let the task be due at another time of the day."""
    world.theirs.create_or_merge("o", repeat=Repeat.every(DAY, start=world.clock.now() + 2 * HOUR))


def is_off_its_rule(task: Any) -> bool:
    """Return whether a task is due at a time that is no occurrence of its rule."""
    first = task.repeat.first(task.due_time)
    return bool(first.time != task.due_time)


def reopened_out_of_turn(world: World) -> bool:
    """Return whether a task that was disabled runs as soon as it is enabled."""
    begin(world)
    world.theirs.confirm.ignore("o", reason="holidays")
    world.mine.confirm.reopen("o")
    return taken(world.mine.confirm)


def reopened_as_its_rule_changes(world: World) -> bool:
    """Return whether a task that is enabled is due by the rule that it had before."""
    begin(world)
    world.theirs.confirm.ignore("o", reason="holidays")
    world.goes_wrong(PASS, lambda: change_rule(world))
    world.mine.confirm.reopen("o")
    return is_off_its_rule(world.task)


def reopened_in_its_next_life(world: World) -> bool:
    """Return whether a task is due by the rule of the one that was there before, by a clock that is behind."""

    def begin_with_another_rule() -> None:
        begin_another_life(world, repeat=Repeat.every(DAY, start=world.clock.now() + 2 * HOUR))
        world.theirs.confirm.ignore("o", reason="holidays")
        tracker = world.theirs.tracker
        tracker.connection().update_item("o", tracker.use_case.name, actions=[TaskRow.lock.set("0" * 24)])

    begin(world)
    world.theirs.confirm.ignore("o", reason="holidays")
    world.goes_wrong(PASS, begin_with_another_rule)
    world.mine.confirm.reopen("o")
    return is_off_its_rule(world.task)


def skipped_in_its_next_life(world: World) -> bool:
    """Return whether a task without an attempt left goes on by the rule of the one that was there before."""

    def die_three_times() -> None:
        world.clock.advance(2 * HOUR)
        for _ in range(3):
            die(world.theirs.confirm, "o")
            world.theirs.confirm.unlock("o", reason="its worker is dead", worker=this_worker())

    def begin_with_another_rule() -> None:
        begin_another_life(world, repeat=Repeat.every(DAY, start=world.clock.now() + 2 * HOUR))
        die_three_times()

    begin(world)
    die_three_times()
    world.goes_wrong(PASS, begin_with_another_rule)
    return taken(world.mine.confirm) or is_off_its_rule(world.task)


def skipped_as_its_rule_changes(world: World) -> bool:
    """Return whether a task without an attempt left goes on by the rule that it had before."""
    begin(world)
    world.clock.advance(HOUR)
    for _ in range(3):
        die(world.theirs.confirm, "o")
        world.theirs.confirm.unlock("o", reason="its worker is dead", worker=this_worker())
    world.goes_wrong(PASS, lambda: change_rule(world))
    return taken(world.mine.confirm) or is_off_its_rule(world.task)


def at_its_last_attempt(world: World) -> Frozen:
    """Return the run of the last attempt of an occurrence, whose lock has expired."""
    begin(world)
    world.clock.advance(HOUR)
    for _ in range(2):
        die(world.theirs.confirm, "o")
        world.theirs.confirm.unlock("o", reason="its worker is dead", worker=this_worker())
    run = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    return run


def skipped_though_it_succeeded(world: World) -> bool:
    """Return whether an occurrence is skipped for its attempts although its last one has succeeded since."""
    run = at_its_last_attempt(world)
    world.goes_wrong(PASS, run.wake)
    taken(world.mine.confirm)
    return bool(world.task.state != world.mine.ship.pending)


def skipped_while_held(world: World) -> bool:
    """Return whether an occurrence is skipped whose last worker has extended its lock since the row was read."""
    run = at_its_last_attempt(world)
    world.goes_wrong(PASS, run.ctx.extend_lock)
    taken(world.mine.confirm)
    return bool(world.task.state != world.mine.confirm.in_progress)


def skipped_by_an_earlier_version(world: World) -> bool:
    """Return whether an occurrence is skipped although a later version wrote the row after it was read."""
    at_its_last_attempt(world)
    world.goes_wrong(PASS, partial(later_version, world))
    taken(world.mine.confirm)
    return bool(world.task.state != world.mine.confirm.in_progress)
