"""Merging: each request of `create_or_merge` is followed by a run that counts it once."""

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import RetryLater, Step, UseCase
from pynamodb_tracker.model.status import END
from tests.search.protocol import Faults, Program, Protocol, State, attempt, here, note, table, value
from tests.search.table import item_at

LATE = Faults(late=1)
BOUNDED = [("afp", Faults()), ("abw", LATE), ("abw", Faults(lost=1)), ("abw", Faults(twice=1))]
COMPLETE = [
    ("abfp", Faults(late=1)),
    ("abcww", Faults(late=1)),
    ("abww", Faults(lost=1, late=1)),
    ("abww", Faults(twice=1, deaths=1, ticks=1)),
    ("nwww", Faults(late=1)),
]
"""Which programs, and which faults: a, b, c and m ask, w works, p as well, in a part, f fails after that part,
n asks, deletes the task and asks for another one."""
GUARDS = {
    ("lacks queued", "succeed"): ("abw", Faults(), "a request is lost"),
    ("seen request_count", "succeed"): ("abcw", Faults(), "a request is lost"),
    ("seen request_count", "merge"): ("abww", LATE, "a request counts twice"),
    ("can_take", "merge"): ("abw", Faults(), "a request is lost"),
    ("cannot_take", "merge"): ("abw", Faults(), "a request is lost"),
    ("lacks checkpoints", "merge"): ("abfp", Faults(), "a request is lost"),
    ("has_parts", "merge"): ("abfp", Faults(), "a request is lost"),
    ("keeps_request", "merge"): ("abcw", Faults(), "a request counts twice"),
    ("same_life", "merge"): ("mn", LATE, "a request is asked of another task"),
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
            note(f"next life {here()}")
            ask("m")

    def work(letter: str) -> None:
        with Order.pay.start("o") as ctx:
            wanted = ctx.task.wanted if letter == "w" else ctx.checkpoint("pay", lambda: ctx.task.wanted)
            if letter == "f":
                raise RetryLater(timedelta(0))
            ctx.task.done += wanted

    programs = [
        Program("worker", (partial(attempt, partial(work, each)),))
        if each in "fpw"
        else Program(each, (partial(ask, each), *([begin_next_life] if each == "n" else [])))
        for each in who
    ]
    return Protocol(programs, faults, partial(_broken, has_lives="n" in who))


def _broken(state: State, *, has_lives: bool) -> str | None:
    row = item_at(state.rows, "o merged")
    counted = value(row, "done")
    if row and value(row, "status") < END:
        paid = row.get("checkpoints", {"M": {}})["M"].get("100/pay")
        counted += value(row, "wanted") if paid is None else json.loads(paid["S"])
        if "queued" in row:
            counted += value(row["queued"]["M"]["attributes"]["M"], "wanted")
    if has_lives:
        # A late copy of the first create, which cannot be refused, begins a life that has the token of its own call.
        is_next = f"next life {value(row, 'creation')[16:20]}" in state.notes
        return "a request is asked of another task" if is_next and "n" in counted else None
    if any(letter not in counted for letter in state.notes):
        return "a request is lost"
    return "a request counts twice" if len(counted) != len({*counted}) else None
