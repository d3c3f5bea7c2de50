"""Merging: each request of `create_or_merge` is followed by a run that counts it once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Step, UseCase
from pynamodb_tracker.status import END
from tests.model.protocol import Faults, Program, Protocol, State, attempt, note, table, value
from tests.model.table import item_at

__all__ = ["BOUNDED", "COMPLETE", "GUARDS", "protocol"]

LATE = Faults(late=1)
BOUNDED = [("abw", LATE), ("abw", Faults(lost=1)), ("abw", Faults(twice=1))]
COMPLETE = [
    ("abcww", Faults(late=1)),
    ("abww", Faults(lost=1, late=1)),
    ("abww", Faults(twice=1, deaths=1, ticks=1)),
    ("nwww", Faults(late=1)),
]
"""Which programs, and which faults: a to c ask, w works, n asks, deletes the task and asks for another one."""
GUARDS = {
    ("nothing_asked", "succeed"): ("abw", Faults(), "a request is lost"),
    ("asked_as_seen", "succeed"): ("abcw", Faults(), "a request is lost"),
    ("asked_as_seen", "merge"): ("abww", LATE, "a request counts twice"),
    ("can_take", "merge"): ("abw", Faults(), "a request is lost"),
    ("cannot_take", "merge"): ("abw", Faults(), "a request is lost"),
    ("keeps_asked", "merge"): ("abcw", Faults(), "a request counts twice"),
    ("same_life", "merge"): ("anwww", LATE, "a request is asked of another task"),
}


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("merged")
        pay = Step(100, max_attempts=5)
        wanted = UnicodeAttribute(default="")
        done = UnicodeAttribute(default="")

    def both(task: Order, new: Mapping[str, Any]) -> None:
        task.wanted += new["wanted"]

    def ask(letter: str) -> None:
        if attempt(lambda: Order.create_or_merge("o", merge=both, wanted=letter)):
            note(letter)

    def begin_next_life() -> None:
        if attempt(lambda: Order.delete_task("o")):
            note("next life")
            ask("m")

    def work() -> None:
        def run() -> None:
            with Order.pay.start("o") as ctx:
                ctx.task.done += ctx.task.wanted

        attempt(run)

    programs = [
        Program("worker", (work,))
        if each == "w"
        else Program(each, (partial(ask, each), *([begin_next_life] if each == "n" else [])))
        for each in who
    ]
    return Protocol(programs, faults, partial(_broken, has_lives="n" in who))


def _broken(state: State, *, has_lives: bool) -> str | None:
    row = item_at(state.rows, "o merged")
    counted = value(row, "done")
    if row and value(row, "status") < END:
        counted += value(row, "wanted")
        if "again" in row:
            counted += value(row["again"]["M"]["attributes"]["M"], "wanted")
    if has_lives:
        return "a request is asked of another task" if "next life" in state.notes and "n" in counted else None
    if any(letter not in counted for letter in state.notes):
        return "a request is lost"
    return "a request counts twice" if len(counted) != len({*counted}) else None
