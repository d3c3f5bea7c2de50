"""The traces of requests that are merged: each returns whether one was lost, undone, or left without a run."""

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from pynamodb_tracker import TaskFormatError
from pynamodb_tracker.writes.lock import new_token
from tests.engine.actions import Hold
from tests.race.traces_of_commands import later_version
from tests.support.proxy_rules import arrive
from tests.support.rows import change
from tests.support.world import World


def add(task: Any, new: Mapping[str, Any]) -> None:
    """Do what the task is to do already, and what is asked for now."""
    task.note = f"{task.note or ''}{new['note']}"


def ask(order: Any, note: str, **options: Any) -> None:
    order.create_or_merge("o", note=note, merge=add, **options)


def at_the_last_step(world: World) -> None:
    world.mine.create("o", state=world.mine.ship.pending)


def asked_while_it_ended_in_a_transaction(world: World) -> bool:
    """Return whether a task ends in a transaction though it was asked for again while it ran."""
    at_the_last_step(world)
    with world.mine.ship.start("o") as ctx:
        ask(world.theirs, "a")
        with ctx.transaction(succeed=True):
            pass
    return bool(world.task.state == world.mine.ship.succeeded)


def asked_after_the_look_of_a_transaction(world: World) -> bool:
    """Return whether a request is lost that comes after a transaction has read what its success takes in."""
    at_the_last_step(world)
    with world.mine.ship.start("o") as ctx:
        ask(world.theirs, "a")
        world.goes_wrong(lambda: None, lambda: ask(world.theirs, "b"), target="TransactWriteItems")
        with ctx.transaction(succeed=True):
            pass
    return bool(world.task.note != "ab")


def late_request(world: World) -> bool:
    """Return whether a late copy of a request removes what was asked for after it."""
    late = Hold()
    world.mine.create("o")
    world.freeze(world.theirs.confirm, "o")
    ask(world.theirs, "a")
    world.goes_wrong(late)
    ask(world.mine, "b")
    ask(world.theirs, "c")
    arrive(world.proxy, late)
    return bool(world.task.queued.attributes["note"]["S"] != "abc")


def asked_as_it_was_taken_in(world: World) -> bool:
    """Return whether a task that works on a request is to work on it a second time."""
    at_the_last_step(world)
    run = world.freeze(world.theirs.ship, "o")
    ask(world.theirs, "a")
    world.goes_wrong(run.wake)
    ask(world.mine, "b")
    return bool(world.task.queued)


def written_by_another_program(world: World) -> bool:
    """Return whether a request overwrites what another program has written since the row was read."""
    world.mine.create("o")
    world.goes_wrong(lambda: world.theirs("o", world.theirs.tracker.use_case.name).update([world.theirs.note.set("x")]))
    ask(world.mine, "a")
    return bool(world.task.note != "xa")


def begun_anew_with_an_old_token(world: World) -> bool:
    """Return whether a task that begins anew gets a token that is below one that shuts a late claim out."""
    at_the_last_step(world)
    world.theirs.ship.run("o", lambda _: None)
    token = f"{int(new_token()[:16], 16) + 10**12:016x}{0:08x}"  # of a machine whose clock is ahead
    world.goes_wrong(partial(change, world.theirs, "o", lock={"S": token}))
    ask(world.mine, "a")
    return bool(world.task.lock < token)


def asked_of_a_later_version(world: World) -> bool:
    """Return whether a request changes a row that a later version has written since it was read."""
    world.mine.create("o")
    world.goes_wrong(partial(later_version, world))
    with contextlib.suppress(TaskFormatError):
        ask(world.mine, "a")
    return bool(world.task.note == "a")
