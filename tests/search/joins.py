"""Joins: a task starts when its last child has ended, and not before."""

from functools import partial
from typing import Any

from pynamodb_tracker import Step, UseCase
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.model.status import END
from tests.search.protocol import Faults, Program, Protocol, State, attempt, note, started, table, value
from tests.search.table import item_at

BOUNDED = [
    ("12w", Faults(lost=1)),
    ("12w", Faults(late=1)),
    ("12w", Faults(twice=1)),
    ("1wir", Faults()),
    ("1id", Faults()),
    ("g1wir", Faults()),
    ("1iA", Faults()),
    ("xiA", Faults()),
]
COMPLETE = [
    ("12ww", Faults(late=1)),
    ("12w", Faults(lost=1)),
    ("12w", Faults(twice=1, deaths=1, ticks=1)),
    ("12wir", Faults()),
    ("1wir", Faults(late=1)),
    ("1widar", Faults()),
    ("g12wir", Faults(late=1)),
    ("G1wir", Faults(late=1)),
    ("12iAd", Faults(late=1)),
]
"""Which programs, after a g if the parent is in a group, or a G if another task waits for its turn there: 1 to 3 end a
child, x deletes one, w runs the parent; i ignores it, r reopens it, a and A run its first step again, a with another
child; d deletes it, and begins its next life, which waits for another child."""
GUARDS = {
    ("waits_for_more", ""): ("12", Faults(), "it waits for nothing"),
    ("waits_for_one", ""): ("G1ir", Faults(), "it is due without its turn"),
    ("seen parent", "commit"): ("1iA", Faults(), "it waits for nothing"),
    ("seen parent", ""): ("xiA", Faults(), "it waits for nothing"),
    ("seen status", ""): ("1ir", Faults(), "it waits for nothing"),
    ("same_join", ""): ("1id", Faults(), "it is due although a child is left"),
    ("lacks blockers", "reopen"): ("1ir", Faults(), "it is due although a child is left"),
    ("has blockers", "reopen"): ("1ir", Faults(), "it waits for nothing"),
    ("seen blockers", "enter again"): ("g1ir", Faults(), "it waits for nothing"),
}

PENDING = 200


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do, after the parent has waited for the children that are ended."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("parent")
        split, collect = Step(100), Step(200)

    class Part(Order.tracker.table.owner):  # type: ignore[misc,name-defined]  # of the same table
        use_case_id = UseCase("child")
        work = Step(100)

    def wait_for(*children: str, **options: Any) -> None:
        with Order.split.start("o", **options) as ctx:
            for child in children:
                ctx.create(Part, child, wait=True)

    def end(child: str) -> None:
        attempt(lambda: Part.work.run(child, lambda _: None))

    def begin_next_life() -> None:
        def begin() -> None:
            Order.delete_task("o")
            Order.create("o")
            wait_for("4")

        attempt(begin)

    calls = {
        "w": lambda: attempt(lambda: Order.collect.run("o", lambda _: note("collected"))),
        "i": lambda: attempt(lambda: Order.collect.ignore("o", reason="not now")),
        "r": lambda: attempt(lambda: Order.collect.reopen("o")),
        "a": lambda: attempt(lambda: wait_for("1", "3", also_from=[Order.collect.ignored])),
        "A": lambda: attempt(lambda: wait_for("1", also_from=[Order.collect.ignored])),
        "d": begin_next_life,
        "x": lambda: attempt(lambda: Part.delete_task("1")),
    }
    config, who = (who[0], who[1:]) if who[0] in "gG" else ("", who)
    group = "g" if config else None
    programs = [Program(each, (calls.get(each) or partial(end, each),)) for each in who]
    children = [each for each in who.replace("x", "1") if each.isdigit()]

    def begin() -> None:
        Order.create("o", group=group)
        if config == "G":
            Order.create("b", group=group)
        wait_for(*children)

    return Protocol(programs, faults, _broken, started(begin))


def _broken(state: State) -> str | None:
    parent = item_at(state.rows, "o parent")
    if not parent:
        return None
    reference = f"parent#{value(parent, 'join_token')}#o"
    left = [each for each in "1234" if value(item_at(state.rows, f"{each} child"), "parent") == reference]
    status, parked = value(parent, "status"), value(parent, "due_time") == stamp(NEVER)
    if "turn_due_time" in parent:
        return None if parked else "it is due without its turn"
    if status == PENDING and parked and not left:
        return "it waits for nothing"
    return (
        "it is due although a child is left" if status in (PENDING, PENDING + 1, END) and left and not parked else None
    )
