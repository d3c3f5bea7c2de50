"""Expired rows: a task is put over one, while others claim it again, create it too, or DynamoDB deletes it."""

from datetime import timedelta
from typing import Any

from pynamodb_tracker import LockLostError, Step, UseCase, clock
from pynamodb_tracker.model.row import TaskRow
from tests.race.guards import replace_whatever_is_there
from tests.search.protocol import Faults, Program, Protocol, State, attempt, here, note, started, table

LOST = "a run has lost the task to one that was created over it"
TWICE = "two programs have created one task"
BOUNDED = [("c w", Faults(late=1)), ("c c", Faults(twice=1)), ("c d w", Faults())]
COMPLETE = [("c c w", Faults(late=1)), ("c d w", Faults(late=1, lost=1)), ("c c d", Faults(twice=1, late=1))]
"""Which programs: c creates the task, w runs it although it was ignored, d deletes it as DynamoDB does."""
GUARDS = {("still expired", replace_whatever_is_there): ("c w", Faults(), LOST)}


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do with an ignored task that has expired."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("order", keep_ignored_for=timedelta(minutes=1))
        pay = Step(100)

    def begin() -> None:
        Order.create("o")
        Order.pay.ignore("o", reason="nobody wants it")

    def create() -> None:
        if attempt(lambda: Order.create("o")):
            note(f"created {here()}")

    def block(ctx: Any) -> None:
        type(ctx.task).get_task("o")  # the block lasts

    def run() -> None:
        try:
            Order.pay.run("o", block, also_from=[Order.pay.ignored])
        except LockLostError:
            note("lost")

    def delete() -> None:
        condition = TaskRow.expire_time < clock.now()
        Order.tracker.connection().delete_item("o", "order", condition=condition)
        note("deleted")

    calls = {"c": create, "w": lambda: attempt(run), "d": lambda: attempt(delete)}
    programs = [Program(each, (calls[each],)) for each in who.split()]
    return Protocol(programs, faults, _broken, started(begin))


def _broken(state: State) -> str | None:
    if "lost" in state.notes:
        return LOST
    created = sum(each.startswith("created") for each in state.notes)
    return TWICE if created > 1 and "deleted" not in state.notes else None
