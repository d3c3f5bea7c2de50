"""Repeating: a task is due at the times of the rule that its row has."""

import json
from datetime import timedelta

from pynamodb_tracker import Repeat, Step, UseCase
from pynamodb_tracker.clock import read
from tests.search.protocol import BASE, TICK, Faults, Program, Protocol, State, attempt, started, table, value
from tests.search.table import item_at

DAY = timedelta(days=1)
FIRST = BASE - TICK
PENDING = 100
BOUNDED = [("wwc", Faults()), ("wc", Faults(lost=1)), ("wc", Faults(late=1)), ("Ircw", Faults()), ("cir", Faults())]
COMPLETE = [
    ("wwc", Faults(late=1)),
    ("wwc", Faults(lost=1)),
    ("wwc", Faults(twice=1, deaths=1, ticks=1)),
    ("Ircw", Faults(late=1)),
    ("wcir", Faults()),
]
"""Which programs: w runs the task, c changes its rule, i disables it, r enables it; I did so before all others."""
GUARDS = {
    ("seen request_count", "reopen"): ("Irc", Faults(), "it is due off its rule"),
    ("seen due_time", "merge"): ("wc", Faults(), "it is due off its rule"),
}


def protocol(who: str, faults: Faults) -> Protocol:

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("nightly")
        clean = Step(100)

    def ignore() -> object:
        return Order.clean.ignore("o", reason="holidays")

    def begin() -> None:
        Order.create("o", repeat=Repeat.every(DAY, start=FIRST))
        if "I" in who:
            ignore()

    other = Repeat.every(DAY, start=BASE + timedelta(hours=2))
    calls = {
        "w": lambda: attempt(lambda: Order.clean.run("o", lambda _: None)),
        "c": lambda: attempt(lambda: Order.create_or_merge("o", repeat=other)),
        "i": lambda: attempt(ignore),
        "r": lambda: attempt(lambda: Order.clean.reopen("o")),
    }
    programs = [Program(each, (calls[each],)) for each in who if each != "I"]
    return Protocol(programs, faults, _broken, started(begin))


def _broken(state: State) -> str | None:
    row = item_at(state.rows, "o nightly")
    due, start = read(value(row, "due_time")), read(json.loads(value(row, "repeat"))["start"])
    if value(row, "status") != PENDING or due is None or start is None or due <= BASE:
        return None  # it was due before its rule was changed, or is tried again, and stays due
    return None if (due - start) % DAY == timedelta() else "it is due off its rule"
