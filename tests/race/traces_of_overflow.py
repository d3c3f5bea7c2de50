"""The traces of what a run writes outside its row: large data, and rows of the user."""

import contextlib
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker import LockLostError, TrackerError
from tests.engine.actions import PASS, Action, DropRequest, Hold, pass_everything
from tests.support.fixtures import Frozen
from tests.support.proxy_rules import arrive
from tests.support.world import OVER, World, ends_of_chunks, scan

SHORT = timedelta(seconds=3)


def woken_writer(world: World) -> bool:
    """Return whether a frozen worker overwrites the data that the next worker has saved."""
    world.mine.create("o")
    frozen = world.freeze(world.mine.confirm, "o")
    frozen.ctx.task.data = scan("old")
    world.clock.advance(OVER)
    winner = world.freeze(world.theirs.confirm, "o")
    winner.ctx.task.data = scan("new")
    winner.ctx.save()
    with contextlib.suppress(LockLostError):
        frozen.ctx.save()
    return bool(read(world) != scan("new"))


def late_transaction(world: World, *, succeed: bool = False) -> bool:
    """Return whether a transaction is applied late, after its worker got the error that it was not applied."""
    late: list[Hold] = []

    def hold(target: str, *_: Any) -> Action:
        if target != "TransactWriteItems":
            return PASS
        late.append(Hold())
        return late[-1]

    frozen, ledger = transacting(world)
    world.proxy.rule = hold
    with contextlib.suppress(TransactWriteError):
        commit(world, frozen.ctx, ledger, succeed=succeed)
        return True
    world.proxy.rule = pass_everything
    for each in late:
        arrive(world.proxy, each)
    return bool(amount(world) != 0)


def late_success_in_a_transaction(world: World) -> bool:
    """Return whether this happens to a transaction that records the success."""
    return late_transaction(world, succeed=True)


def transaction_after_the_look(world: World) -> bool:
    """Return whether a transaction is reported as not applied although it arrives just before `keep_out`."""
    late = Hold()

    def rule(target: str, *_: Any) -> Action:
        if target == "TransactWriteItems":
            return DropRequest() if late in (each.action for each in world.proxy.log) else late
        if target == "UpdateItem" and not late.event.is_set():
            arrive(world.proxy, late)
        return PASS

    frozen, ledger = transacting(world)
    world.proxy.rule = rule
    with contextlib.suppress(TransactWriteError):
        commit(world, frozen.ctx, ledger)
        return False
    return bool(amount(world) != 0)


def woken_transaction(world: World, *, succeed: bool = False) -> bool:
    """Return whether the transaction of a frozen worker is applied after another worker took over."""
    frozen, ledger = transacting(world)
    world.clock.advance(OVER)
    world.freeze(world.theirs.confirm, "o")
    with contextlib.suppress(LockLostError):
        commit(world, frozen.ctx, ledger, succeed=succeed)
    return bool(amount(world) != 0)


def woken_success_in_a_transaction(world: World) -> bool:
    """Return whether this happens to a transaction that records the success."""
    return woken_transaction(world, succeed=True)


def woken_keep_out(world: World) -> bool:
    """Return whether a save is lost if a worker loses the lock before it keeps late copies of its transaction out."""
    winners: list[Frozen] = []

    def rule(target: str, *_: Any) -> Action:
        if target == "TransactWriteItems":
            return DropRequest()
        if target == "UpdateItem" and not winners:
            world.clock.advance(OVER)
            winners.append(world.freeze(world.theirs.confirm, "o"))
        return PASS

    frozen, ledger = transacting(world)
    world.proxy.rule = rule
    with contextlib.suppress(LockLostError, TransactWriteError):
        commit(world, frozen.ctx, ledger)
    [winner] = winners
    winner.ctx.task.note = "theirs"
    winner.ctx.save()
    return bool(world.task.note != "theirs")


def late_end_of_chunks(world: World) -> bool:
    """Return whether the end of a task that was reopened since sets a time to live on its overflow chunks."""
    late = Hold()
    world.mine.create("o", data=scan("text"))
    world.goes_wrong(PASS, late)
    world.mine.confirm.ignore("o", reason="cancelled")
    world.mine.confirm.reopen("o")
    arrive(world.proxy, late)
    return ends_of_chunks(world) != [None]


def read(world: World) -> Any:
    """Return the data of the task; None if it is incomplete."""
    with contextlib.suppress(TrackerError):
        return world.task.data
    return None


def transacting(world: World) -> Any:
    world.mine.create("o")
    ledger = world.mine.create("ledger", amount=0)
    return world.freeze(world.mine.confirm, "o", lock_for=SHORT), ledger


def commit(world: World, ctx: Any, ledger: Any, *, succeed: bool = False) -> None:
    with ctx.transaction(succeed=succeed) as transaction:
        transaction.update(ledger, [world.mine.amount.add(1)])


def amount(world: World) -> Any:
    return world.theirs.get_task("ledger").amount
