"""Cancelling: a task that was cancelled goes on at no step but its branch, and takes its children with it."""

from datetime import timedelta
from functools import partial
from typing import Any

from pynamodb_tracker import Signal, Step, UseCase
from pynamodb_tracker.model.status import CANCELLED, END
from tests.search.protocol import Faults, Program, Protocol, State, attempt, note, started, table, value
from tests.search.table import item_at

AFTER, AGAIN, STORED = (
    "a task that had succeeded is cancelled",
    "it is cancelled once more",
    "something is stored in it",
)
BOUNDED = [
    ("cwm", Faults()),
    ("cs", Faults(lost=1)),
    ("Ew", Faults(late=1)),
    ("GRm", Faults(twice=1)),
    ("r", Faults(late=1)),
    ("kW1", Faults()),
    ("ck1", Faults()),
]
COMPLETE = [
    ("cwm", Faults(lost=1)),
    ("Ews", Faults(late=1)),
    ("GRm", Faults(twice=1, lost=1)),
    ("rw", Faults(late=1)),
    ("kW1", Faults(lost=1)),
    ("ckW1", Faults()),
]
"""Which programs: c cancels the task, E even while it runs, r and then reopens it, G lets it go to a refund, k cancels
it with its children; w runs its last step, R its refund, W the step that waits for child 1 and creates another one, 1
ends child 1; H lets it go to a refund and ignores that, where A starts; m asks for another run, s sends a signal."""
GUARDS = {
    ("state_seen", "cancel"): ("wc", Faults(), AFTER),
    ("later_token", "cancel"): ("r", Faults(late=1), AGAIN),
    ("held_as_seen", "cancel running"): ("Ew", Faults(), AFTER),
    ("lacks cancelled", "claim from"): ("HA", Faults(), "a cancelled task goes on"),
    ("lacks cancelled", "merge"): ("Gm", Faults(), STORED),
    ("not_ended", ""): ("cs", Faults(), STORED),
}

REFUND = 900


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do with a task at its last step, or at the one that waits for a child."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("order")
        pay, pack, ship = Step(100), Step(200), Step(300)
        refund = Step(REFUND, branch=True)
        paid = Signal()

    class Part(Order.tracker.table.owner):  # type: ignore[misc,name-defined]  # of the same table
        use_case_id = UseCase("child")
        work = Step(100)

    def begin() -> None:
        if "1" not in who:
            Order.create("o", state=Order.refund.ignored if "A" in who else Order.ship.pending)
            return
        Order.create("o")
        with Order.pay.start("o") as ctx:
            ctx.create(Part, "1", wait=True)
            ctx.wait_until(timedelta(0))

    def cancel(**options: Any) -> None:
        done = Order.cancel("o", reason="by phone", **options)
        if done.effect != "already_cancelled":
            note(f"cancelled {len(done.task.signals or ())} {done.task.request_count or 0}")
        if "children" in options:
            note("took its children")

    def run(step: Any, block: Any = None) -> None:
        step.run("o", block or (lambda _: None))
        if step is Order.ship:
            note("succeeded")

    def reopen() -> None:
        Order.reopen("o")
        note("reopened")

    calls: dict[str, list[Any]] = {
        "c": [cancel],
        "E": [partial(cancel, even_running=True)],
        "G": [partial(cancel, go_to=Order.refund)],
        "H": [partial(cancel, go_to=Order.refund), lambda: Order.refund.ignore("o", reason="no paper")],
        "A": [partial(Order.ship.run, "o", lambda _: None, also_from=[Order.refund.ignored])],
        "k": [partial(cancel, by="kim", children=True)],
        "r": [cancel, reopen],
        "w": [partial(run, Order.ship)],
        "W": [partial(run, Order.pack, lambda ctx: ctx.create(Part, "2", wait=True))],
        "R": [partial(run, Order.refund)],
        "1": [lambda: Part.work.run("1", lambda _: None)],
        "m": [partial(Order.create_or_merge, "o")],
        "s": [partial(Order.paid.send, "o", 1)],
    }
    programs = [Program(each, tuple(partial(attempt, call) for call in calls[each])) for each in who]
    return Protocol(programs, faults, _broken, started(begin))


def _broken(state: State) -> str | None:
    row = item_at(state.rows, "o order")
    status, is_cancelled = value(row, "status"), "cancelled" in row
    seen = [map(int, note.split()[1:]) for note in state.notes if note.startswith("cancelled")]
    is_reopened = "reopened" in state.notes
    parent, took = f"order#{value(row, 'join_token')}#o", "took its children" in state.notes
    children = [item_at(state.rows, f"{number} child") for number in "12"] if took else []
    signals, requests = next(iter(seen), (9, 9))
    promises = {
        "it has succeeded": status != END or not is_cancelled,
        AFTER: "succeeded" not in state.notes or status != CANCELLED or "round" in row,
        AGAIN: not (is_reopened and is_cancelled),
        "a cancelled task goes on": not seen or is_reopened or status == CANCELLED or status >= REFUND,
        STORED: len(value(row, "signals") or ()) <= signals and (value(row, "request_count") or 0) <= requests,
        "a child goes on": all(
            value(child, "parent") != parent or value(child, "status") == CANCELLED for child in children
        ),
    }
    return next((promise for promise, is_kept in promises.items() if not is_kept), None)
