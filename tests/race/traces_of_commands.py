"""The traces of create, reopen, ignore, delete and spend: each returns whether a promise was broken."""

import contextlib
from functools import partial
from typing import Any

from pynamodb.exceptions import UpdateError

from pynamodb_tracker import LockLostError, TaskFormatError, TaskLockedError, TaskNotFoundError
from pynamodb_tracker.dynamodb.connection import Refused
from pynamodb_tracker.model.row import LATEST_FORMAT, TaskRow
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.transitions.reopening import build_reopen
from tests.engine.actions import PASS, DropRequest, DropResponse, Hold
from tests.support.operations import Boom, row
from tests.support.proxy_rules import arrive
from tests.support.world import OVER, World, ends_of_chunks, fail, scan, taken


def late_reopen(world: World) -> bool:
    """Return whether a late reopen, which arrives after the task has failed again, reopens it once more."""
    late = Hold()
    world.mine.create("o")
    fail(world.mine.confirm)
    world.goes_wrong(late)
    world.mine.confirm.reopen("o")
    fail(world.mine.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.pending)


def late_reopen_of_an_ended_task(world: World) -> bool:
    """Return whether this happens to a task that had a time to live."""
    late = Hold()
    world.mine.create("o")
    world.mine.confirm.ignore("o", reason="cancelled")
    world.goes_wrong(PASS, late)
    world.mine.confirm.reopen("o")
    fail(world.mine.confirm)
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.pending)


def late_reopen_that_was_refused(world: World) -> bool:
    """Return whether a late reopen, which was refused as long as the task was held, undoes a later ignore."""
    late = Hold()
    world.mine.create("o")
    run = world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(late)
    with contextlib.suppress(TaskLockedError):
        world.mine.confirm.reopen("o")
    with contextlib.suppress(Boom):
        run.wake(Boom())
    world.hire().confirm.ignore("o", reason="cancelled")  # without a time to live, which reopen would look for
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.pending)


def urgent_task_reopened(world: World) -> bool:
    """Return whether a reopen that has not read the task takes it out of the lane of urgent tasks."""
    world.mine.create("o", urgent=True)
    fail(world.mine.confirm)
    world.mine.confirm.reopen("o")
    return not world.task.status_key.endswith("#u")


def late_hurry(world: World) -> bool:
    """Return whether a late reopen makes the next task urgent that has this id."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(PASS, late)
    world.mine.confirm.reopen("o", urgent=True)
    world.mine.delete_task("o")
    world.mine.create("o")
    arrive(world.proxy, late)
    return bool(world.task.urgent)


def reopened_while_held(world: World) -> bool:
    """Return whether a task is reopened that a worker holds."""
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    with contextlib.suppress(TaskLockedError):
        world.mine.confirm.reopen("o")
    return bool(world.task.state == world.mine.confirm.pending)


def reopened_with_chunks_that_end(world: World) -> bool:
    """Return whether overflow chunks of a task that was ignored and reopened have a time to live."""
    world.mine.create("o", data=scan("text"))
    world.mine.confirm.ignore("o", reason="cancelled")
    world.mine.confirm.reopen("o")
    return ends_of_chunks(world) != [None]


def late_ignore(world: World) -> bool:
    """Return whether a late ignore, which arrives after the task was reopened, ignores it once more."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late)
    world.mine.confirm.ignore("o", reason="cancelled")
    world.mine.confirm.reopen("o")
    arrive(world.proxy, late)
    return bool(world.task.state == world.mine.confirm.ignored)


def late_release(world: World) -> bool:
    """Return whether a late release, which arrives after the next worker has claimed the task, releases that one."""
    late = Hold()
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(late)
    world.mine.confirm.unlock("o", reason="its worker died", worker=this_worker())
    world.freeze(world.theirs.confirm, "o")
    arrive(world.proxy, late)
    return bool(world.task.state != world.mine.confirm.in_progress)


def refused_claim_after_a_release(world: World) -> bool:
    """Return whether a late copy of a claim that was refused locks a task that was released since."""
    late = Hold()
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(late)
    assert not taken(world.mine.confirm)
    world.theirs.confirm.unlock("o", reason="its worker died", worker=this_worker())
    arrive(world.proxy, late)
    return bool(world.task.state != world.mine.confirm.pending)


def released_worker(world: World) -> bool:
    """Return whether a worker that was released, although it lives, records its success."""
    world.mine.create("o")
    lives = world.freeze(world.theirs.confirm, "o")
    world.mine.confirm.unlock("o", reason="its worker died", worker=this_worker())
    with contextlib.suppress(LockLostError):
        lives.wake()
    return bool(world.task.state != world.mine.confirm.pending)


def cancelled_in_its_next_life(world: World) -> bool:
    """Return whether a task is cancelled that was created again after it was read."""

    def begin() -> None:
        world.theirs.delete_task("o")
        world.theirs.create("o")

    world.mine.create("o")
    world.goes_wrong(begin)
    with contextlib.suppress(TaskNotFoundError):
        world.mine.cancel("o", reason="by phone")
    return world.task.cancelled is not None


def cancelled_by_an_earlier_version(world: World) -> bool:
    """Return whether a running task is ignored although a later version wrote it after it was read."""
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(partial(later_version, world))
    with contextlib.suppress(TaskFormatError):
        world.mine.confirm.ignore("o", reason="cancelled", even_running=True)
    return bool(world.task.state != world.mine.confirm.in_progress)


def unheard_release(world: World) -> bool:
    """Return whether a release whose answer was lost reports that it was refused, because the next worker came."""
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(DropResponse(), lambda: world.freeze(world.theirs.confirm, "o"))
    try:
        world.mine.confirm.unlock("o", reason="its worker died", worker=this_worker())
    except TaskLockedError:
        return True
    assert world.task.state == world.mine.confirm.in_progress
    return False


def finished_meanwhile(world: World) -> bool:
    """Return whether a late success is replaced by ignored, because its worker had been found dead before."""
    world.mine.create("o")
    for _ in range(2):
        fail(world.mine.confirm)
    late = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    world.goes_wrong(PASS, late.wake)
    taken(world.mine.confirm)
    return bool(world.task.state == world.mine.confirm.ignored)


def reopened_meanwhile(world: World) -> bool:
    """Return whether a task is set aside for its attempts though a person has given it fresh ones since it was read."""
    patient = world.hire(max_attempts=4)
    world.mine.create("o")
    for _ in range(3):
        fail(patient.confirm)
    world.goes_wrong(PASS, lambda: patient.confirm.reopen("o"))
    taken(world.mine.confirm)
    return bool(world.task.state == world.mine.confirm.ignored)


def spent_while_held(world: World) -> bool:
    """Return whether a task is set aside whose last worker has extended its lock since the row was read."""
    world.mine.create("o")
    for _ in range(2):
        fail(world.mine.confirm)
    run = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    world.goes_wrong(PASS, run.ctx.extend_lock)
    taken(world.mine.confirm)
    return bool(world.task.state == world.mine.confirm.ignored)


def ignored_while_held(world: World) -> bool:
    """Return whether a task is ignored whose worker has extended its lock since the row was read."""
    world.mine.create("o")
    run = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    world.goes_wrong(run.ctx.extend_lock)
    with contextlib.suppress(TaskLockedError):
        world.mine.confirm.ignore("o", reason="cancelled")
    return bool(world.task.state == world.mine.confirm.ignored)


def failed_meanwhile(world: World) -> bool:
    """Return whether a failure that is recorded between the two requests of an ignore is lost."""
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
    """Return whether a task is deleted that was claimed after it was read."""
    world.mine.create("o")
    world.goes_wrong(lambda: world.freeze(world.theirs.confirm, "o"), target="DeleteItem")
    with contextlib.suppress(TaskLockedError):
        world.mine.delete_task("o")
    return is_gone(world)


def deleted_after_an_extension(world: World) -> bool:
    """Return whether a task is deleted whose worker has extended its lock since the row was read."""
    world.mine.create("o")
    run = world.freeze(world.theirs.confirm, "o")
    world.clock.advance(OVER)
    world.goes_wrong(run.ctx.extend_lock, target="DeleteItem")
    with contextlib.suppress(TaskLockedError):
        world.mine.delete_task("o")
    return is_gone(world)


def deleted_in_its_next_life(world: World) -> bool:
    """Return whether a late delete removes a task that was created again since."""
    late = Hold()
    world.mine.create("o")
    world.goes_wrong(late, target="DeleteItem")
    world.mine.delete_task("o")
    world.theirs.create("o")
    arrive(world.proxy, late)
    return is_gone(world)


def ignored_in_its_next_life(world: World) -> bool:
    """Return whether a task is ignored that was created again after the earlier one was read."""
    world.mine.create("o")
    world.goes_wrong(partial(begin_another_life, world))
    with contextlib.suppress(TaskNotFoundError):
        world.mine.confirm.ignore("o", reason="cancelled")
    return bool(world.task.state == world.mine.confirm.ignored)


def spent_in_its_next_life(world: World) -> bool:
    """Return whether the row of a task that has no attempt left gets the failures of the one that was there before."""
    patient = world.hire(max_attempts=4)

    def fail_three_times(message: str) -> None:
        for _ in range(3):
            fail(patient.confirm, message)

    def begin() -> None:
        begin_another_life(world)
        fail_three_times("of this task")

    world.mine.create("o")
    fail_three_times("of the other task")
    world.goes_wrong(PASS, begin)
    taken(world.mine.confirm)
    return "of the other task" in str(row(world.theirs, "o"))


def begin_another_life(world: World, **options: Any) -> None:
    """Delete the task, and create it again at the same moment, so that its create_time does not tell the two apart."""
    world.theirs.delete_task("o")
    world.theirs.create("o", **options)


def claimed_by_an_earlier_version(world: World) -> bool:
    """Return whether a task that a later version wrote is claimed."""
    world.mine.create("o")
    later_version(world)
    taken(world.mine.confirm)
    return bool(world.task.fence > 0)


def claimed_from_by_an_earlier_version(world: World) -> bool:
    """Return whether a task is claimed from another state although a later version wrote it after it was read."""
    world.mine.create("o", state=world.mine.confirm.failed)
    world.goes_wrong(PASS, partial(later_version, world))
    taken(world.mine.ship)
    return bool(world.task.state != world.mine.confirm.failed)


def reopened_by_an_earlier_version(world: World) -> bool:
    """Return whether a task is reopened although a later version wrote it."""
    world.mine.create("o", state=world.mine.confirm.failed)
    later_version(world)
    with contextlib.suppress(TaskFormatError):
        world.mine.confirm.reopen("o")
    return bool(world.task.state != world.mine.confirm.failed)


def ignored_by_an_earlier_version(world: World) -> bool:
    """Return whether a task is ignored although a later version wrote it after it was read."""
    world.mine.create("o")
    world.goes_wrong(partial(later_version, world))
    with contextlib.suppress(TaskFormatError):
        world.mine.confirm.ignore("o", reason="cancelled")
    return bool(world.task.state != world.mine.confirm.pending)


def spent_by_an_earlier_version(world: World) -> bool:
    """Return whether a task without attempts left is ignored although a later version wrote it after it was read."""
    world.mine.create("o", state=world.mine.ship.pending)
    for _ in range(2):
        world.freeze(world.theirs.ship, "o")
        world.theirs.ship.unlock("o", reason="its worker died", worker=this_worker())
    world.goes_wrong(PASS, partial(later_version, world))
    taken(world.mine.ship)
    return bool(world.task.state != world.mine.ship.pending)


def unlocked_by_an_earlier_version(world: World) -> bool:
    """Return whether a task is released although a later version wrote it after it was read."""
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    world.goes_wrong(partial(later_version, world))
    with contextlib.suppress(TaskFormatError, TaskLockedError):
        world.mine.confirm.unlock("o", reason="its worker died", worker=this_worker())
    return bool(world.task.state != world.mine.confirm.in_progress)


def deleted_by_an_earlier_version(world: World) -> bool:
    """Return whether a task is deleted although a later version wrote it after it was read."""
    world.mine.create("o")
    world.goes_wrong(partial(later_version, world), target="DeleteItem")
    with contextlib.suppress(TaskFormatError):
        world.mine.delete_task("o")
    return is_gone(world)


def later_version(world: World, task_id: str = "o") -> None:
    """Let a later version of the library write the row."""
    tracker = world.theirs.tracker
    tracker.connection().update_item(
        task_id, tracker.use_case.name, actions=[TaskRow.format_version.set(LATEST_FORMAT + 1)]
    )


def is_gone(world: World) -> bool:
    try:
        return world.task is None
    except TaskNotFoundError:
        return True


def reopened_and_ignored_meanwhile(world: World) -> bool:
    """Return whether a late reopen undoes a later ignore, because a claim without an answer has lowered the token."""
    world.mine.Meta.max_retry_attempts = 0
    step = world.hire().confirm
    step.model.create("o")
    step.ignore("o", reason="cancelled")
    tokens: list[str] = []

    def meanwhile() -> None:
        tokens.append(step.reopen("o").lock)
        step.ignore("o", reason="cancelled again")

    world.goes_wrong(DropRequest(), meanwhile)
    with contextlib.suppress(UpdateError):
        world.mine.confirm.run("o", lambda _: None)
    writes = step._definition.statements
    late = build_reopen(writes, tokens[0], None, kept=False, entry=None)
    late.time = world.clock.now()
    with contextlib.suppress(Refused):
        writes.send(late, "o")
    return bool(world.task.state == world.mine.confirm.pending)


def deleted_meanwhile(world: World) -> bool:
    """Return whether a claim without an answer makes a row of a task that was deleted after the row was read."""
    world.mine.Meta.max_retry_attempts = 0
    world.mine.create("o")
    world.goes_wrong(DropRequest(), lambda: world.theirs.delete_task("o"))
    with contextlib.suppress(UpdateError):
        world.mine.confirm.run("o", lambda _: None)
    return bool(row(world.theirs, "o"))
