"""The traces of signals from outside: each returns whether a task waits for ever, starts too early, or ignores one."""

import contextlib
from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import GiveUp, TaskFormatError, TaskNotFoundError, TaskNotReadyError, TaskNotStartableError
from pynamodb_tracker.clock import NEVER
from tests.engine.actions import PASS
from tests.race.traces_of_commands import later_version
from tests.race.traces_of_joins import end
from tests.support.world import World, taken

TOGETHER = "TransactWriteItems"
LIMIT = timedelta(hours=1)


def wait_for(order: Any, *names: str, until: timedelta | None = None, child: bool = False, **options: Any) -> None:
    """Run the first step of the task, and let the second one wait for these signals, and for a child."""
    with order.confirm.start("o", **options) as ctx:
        for name in names:
            ctx.wait_for(getattr(order, name), until=until)
        if child:
            ctx.create(order, "o/1", wait=True)


def never_starts(world: World) -> bool:
    task = world.task
    return bool(task.due_time == NEVER and not (task.blockers or task.awaited_signals))


def wait_past_limit(world: World) -> None:
    """Let a task wait for its payment until the limit has passed."""
    world.mine.create("o")
    wait_for(world.mine, "paid", until=LIMIT)
    world.clock.advance(2 * LIMIT)


def signalled_while_it_gives_up(world: World) -> bool:
    """Return whether an order is ignored whose payment comes after its limit, during the run that gives it up."""
    wait_past_limit(world)
    with contextlib.suppress(GiveUp), world.mine.ship.start("o"):
        world.theirs.paid.send("o", 1)
        raise GiveUp
    return bool(world.task.state == world.mine.ship.ignored)


def signalled_as_it_ends(world: World) -> bool:
    """Return whether a task ends although its first signal came during its last run."""
    world.mine.create("o", state=world.mine.ship.pending)
    with contextlib.suppress(TaskNotReadyError), world.mine.ship.start("o"):
        world.theirs.paid.send("o", 1)
    return bool(world.task.state == world.mine.ship.succeeded)


def last_two_at_once(world: World) -> bool:
    """Return whether nobody makes a task due whose last two signals come at once."""
    world.mine.create("o")
    wait_for(world.mine, "paid", "approved")
    world.goes_wrong(PASS, partial(world.theirs.approved.send, "o", 1))
    world.mine.paid.send("o", 1)
    return never_starts(world)


def signal_and_child_at_once(world: World) -> bool:
    """Return whether nobody makes a task due whose last child succeeds while its last signal is stored."""
    world.mine.create("o")
    wait_for(world.mine, "paid", child=True)
    world.goes_wrong(PASS, partial(end, world.theirs, "o/1"))
    world.mine.paid.send("o", 1)
    return never_starts(world)


def child_and_signal_at_once(world: World) -> bool:
    """Return whether nobody makes a task due whose last signal comes while its last child counts."""
    world.mine.create("o")
    wait_for(world.mine, "paid", child=True)
    world.goes_wrong(partial(world.theirs.paid.send, "o", 1), target=TOGETHER)
    end(world.mine, "o/1")
    return never_starts(world)


def two_early_senders(world: World) -> bool:
    """Return whether the first signal is lost if another one comes to a row without any at the same time."""
    world.mine.create("o")
    world.goes_wrong(PASS, partial(world.theirs.approved.send, "o", 1))
    world.mine.paid.send("o", 1)
    return bool(world.task.approved is None or world.task.paid is None)


def asked_for_before_it_is_stored(world: World) -> bool:
    """Return whether nobody makes a task due that begins to wait after the row was read without that."""
    world.mine.create("o")
    world.mine.approved.send("o", 1)
    world.goes_wrong(PASS, partial(wait_for, world.theirs, "paid"))
    world.mine.paid.send("o", 1)
    return not taken(world.theirs.ship)


def ignored_then_reopened(world: World) -> bool:
    """Return whether nobody makes a task due that is reopened after it was read as ignored, before its signal is."""
    world.mine.create("o")
    wait_for(world.mine, "paid")
    world.hire().ship.ignore("o", reason="not now")  # without a time to live
    world.goes_wrong(PASS, partial(world.theirs.ship.reopen, "o"))
    world.mine.paid.send("o", 1)
    return not taken(world.theirs.ship)


def reopened_while_it_waits(world: World) -> bool:
    """Return whether a task that awaits a signal starts because it was ignored and reopened."""
    world.mine.create("o")
    wait_for(world.mine, "paid")
    world.hire().ship.ignore("o", reason="not now")
    world.mine.ship.reopen("o")
    return taken(world.mine.ship)


def reopened_as_the_signal_comes(world: World) -> bool:
    """Return whether nobody makes a task due whose signal comes while it is reopened."""
    world.mine.create("o")
    wait_for(world.mine, "paid")
    world.hire().ship.ignore("o", reason="not now")
    world.goes_wrong(PASS, partial(world.theirs.paid.send, "o", 1))
    world.mine.ship.reopen("o")
    return never_starts(world)


def starts_over(order: Any) -> None:
    """Lead the task to its end, and begin it anew."""
    end(order, "o")
    order.create_or_merge("o")


def signal_in_an_earlier_round(world: World) -> bool:
    """Return whether a task has the signal of its earlier round in the next one."""
    world.mine.create("o")
    world.mine.paid.send("o", "old")
    starts_over(world.mine)
    return world.task.paid is not None


def signal_for_an_earlier_round(world: World) -> bool:
    """Return whether a task that a person starts over takes the signal that names its earlier round."""
    world.mine.create("o")
    end(world.mine, "o")
    earlier = world.task.round or world.task.creation
    with world.mine.confirm.start("o", also_from=[world.mine.ship.succeeded]):
        pass
    with contextlib.suppress(TaskNotFoundError):
        world.mine.paid.send("o", "old", round=earlier)
    return world.task.paid is not None


def signal_as_another_round_begins(world: World) -> bool:
    """Return whether a signal for a round is stored in the next one, which begins after the row was read."""
    world.mine.create("o")
    world.goes_wrong(PASS, partial(starts_over, world.theirs))
    with contextlib.suppress(TaskNotFoundError):
        world.mine.paid.send("o", "old", round=world.task.creation)
    return world.task.paid is not None


def early_signal_as_it_ends(world: World) -> bool:
    """Return whether a signal is stored in a task that has ended since it was read."""
    world.mine.create("o")
    end_of = partial(end, world.theirs, "o")
    world.goes_wrong(PASS, end_of)
    with contextlib.suppress(TaskNotStartableError):
        world.mine.paid.send("o", 1)
    return world.task.paid is not None


def asked_again_before_an_answer(world: World) -> bool:
    """Return whether a signal is stored in the round that ends, though another run was asked for since the look."""
    world.mine.create("o")
    with world.mine.confirm.start("o"):
        pass
    world.goes_wrong(PASS, partial(world.theirs.create_or_merge, "o"))
    with contextlib.suppress(TaskNotReadyError):
        world.mine.paid.send("o", 1)
    return world.task.paid is not None


def signalled_for_a_later_version(world: World) -> bool:
    """Return whether a signal changes a row that a later version has written."""
    world.mine.create("o", wait_for=world.mine.paid)
    later_version(world)
    with contextlib.suppress(TaskFormatError):
        world.mine.paid.send("o", 1)
    return world.task.paid is not None


def started_without_its_signal(world: World) -> bool:
    """Return whether a task that a person has started without its signal waits for that again once it is reopened."""
    world.mine.create("o")
    wait_for(world.mine, "paid")
    world.hire().ship.ignore("o", reason="paid in cash")
    with contextlib.suppress(ZeroDivisionError), world.mine.ship.start("o", also_from=(world.mine.ship.ignored,)):
        raise ZeroDivisionError
    world.mine.ship.reopen("o")
    return not taken(world.mine.ship)
