"""Groups: one task at a time has the turn, in the order of creation, and no turn is lost."""

from functools import partial

from pynamodb_tracker import Step, UseCase
from pynamodb_tracker.clock import NEVER, stamp
from tests.race.guards import any_version
from tests.search.protocol import Faults, Program, Protocol, State, attempt, started, table, value
from tests.search.table import item_at

BOUNDED = [("12", Faults(lost=1)), ("12", Faults(late=1)), ("12", Faults(twice=1)), ("12i", Faults())]
COMPLETE = [
    ("123", Faults()),
    ("123", Faults(late=1)),
    ("12ir", Faults()),
    ("12d", Faults(late=1)),
    ("12id", Faults()),
    ("12cR", Faults()),
]
"""Which programs: 1 to 3 create a task in the group, and run it; i ignores the first one, r reopens it, c cancels it,
R reopens it then, d deletes it."""
GUARDS = {
    ("version", any_version): ("12", Faults(), "two tasks have the turn"),
    ("membership_seen", "ignore"): ("12ir", Faults(), "no task has the turn"),
    ("membership_seen", "cancel"): ("12cR", Faults(), "no task has the turn"),
    ("membership_seen", "reopen"): ("12ir", Faults(), "the group says that another one has the turn"),
}


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("member")
        ship = Step(100)

    def create(name: str) -> None:
        attempt(lambda: Order.create(name, group="g"))

    def run(name: str) -> None:
        attempt(lambda: Order.ship.run(name, lambda _: None))

    calls = {
        "i": lambda: attempt(lambda: Order.ship.ignore("1", reason="not now")),
        "r": lambda: attempt(lambda: Order.ship.reopen("1")),
        "c": lambda: attempt(lambda: Order.cancel("1", reason="not now")),
        "R": lambda: attempt(lambda: Order.reopen("1")),
        "d": lambda: attempt(lambda: Order.delete_task("1")),
    }
    programs = [
        Program(each, (calls[each],) if each in calls else (partial(create, each), partial(run, each))) for each in who
    ]
    return Protocol(programs, faults, _broken, started(lambda: create("0")) if "0" in who else ())


def _broken(state: State) -> str | None:
    group = item_at(state.rows, "g #group#member")
    rows = {each: item_at(state.rows, f"{each} member") for each in "0123"}
    open_ones = {each: row for each, row in rows.items() if row and value(row, "status") in (100, 101)}
    due = [each for each, row in open_ones.items() if value(row, "due_time") != stamp(NEVER)]
    if len(due) > 1:
        return "two tasks have the turn"
    if open_ones and not due:
        return "no task has the turn"
    if due and value(group, "turn") != due[0]:
        return "the group says that another one has the turn"
    return None
