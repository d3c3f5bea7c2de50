"""Signals from outside: a task starts when all that it awaits has come, not before, and the first signal counts."""

from functools import partial
from typing import Any

from pynamodb_tracker import Signal, Step, UseCase
from pynamodb_tracker.clock import NEVER, stamp
from pynamodb_tracker.model.status import END
from tests.search.protocol import TICK, Faults, Program, Protocol, State, attempt, note, started, table, value
from tests.search.table import item_at

LATE, PASSES = Faults(late=1), Faults(ticks=1)
BOUNDED = [
    ("bpw", Faults()),
    ("bpqw", Faults()),
    ("Bpqw", Faults()),
    ("Bpcw", Faults()),
    ("Bpir", Faults()),
    ("Lpw", PASSES),
    ("Biv", Faults()),
    ("Bpiv", Faults()),
    ("lpw", Faults(ticks=2)),
]
COMPLETE = [
    ("Bpqw", LATE),
    ("Bpqw", Faults(lost=1)),
    ("BpPw", Faults(late=1, twice=1)),
    ("Lpqw", Faults(late=1, ticks=1)),
    ("Cpcir", Faults()),
    ("Bxw", Faults(late=1, lost=1)),
    ("Bpqiv", Faults()),
    ("lpw", Faults(late=1, ticks=2)),
]
"""Which programs, after the first letter: b begins to wait for two signals among the others, l for them until a limit
before a third step, e does not; B, L and C have begun before them, L with a limit, C for a child as well. p and q send
signals, P another one like p, c ends the child, w runs the next step, v does so although it was ignored; i ignores it,
r reopens it, x sends p, deletes the task, and begins its next life."""
GUARDS = {
    ("not_received", "succeed"): ("bpq", Faults(), "it waits for nothing"),
    ("awaits_more", ""): ("Bpq", Faults(), "it waits for nothing"),
    ("seen awaited_signals", ""): ("Cpc", Faults(), "it waits for nothing"),
    ("lacks awaited_signals", "reopen"): ("Bir", Faults(), "it starts without a signal"),
    ("has awaited_signals", "reopen"): ("Bpqir", Faults(), "it waits for nothing"),
    ("not_received", ""): ("epPq", Faults(), "a signal that counted is replaced"),
    ("not_awaited", ""): ("bpq", Faults(), "it waits for nothing"),
    ("not_parked", ""): ("Bpqir", Faults(), "it waits for nothing"),
    ("parked", ""): ("Lpw", PASSES, "the due time of a run is moved"),
    ("not_missed", ""): ("lpw", Faults(ticks=2), "a signal is stored without which the task has done"),
    ("first_round", ""): ("Bx", LATE, "a signal reaches the next life"),
}
PENDING = 200


def protocol(who: str, faults: Faults) -> Protocol:  # noqa: C901 - what each program does

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("awaiting")
        reserve, ship = Step(100), Step(200)
        report = Step(300) if who[0] == "l" else None
        p, q, other = Signal(), Signal(), Signal()

    class Part(Order.tracker.table.owner):  # type: ignore[misc,name-defined]  # of the same table
        use_case_id = UseCase("part")
        work = Step(100)

    first, others = who[0], who[1:]
    names = sorted({each.lower() for each in others.replace("x", "p")} & {"p", "q"}) or ["p"]

    def wait() -> None:
        with Order.reserve.start("o") as ctx:
            for each in names:
                ctx.wait_for(getattr(Order, each), until=3 * TICK / 2 if first in "lL" else None)
            if first == "C":
                ctx.create(Part, "c", wait=True)

    def send(name: str) -> None:
        if attempt(lambda: getattr(Order, name.lower()).send("o", name)):
            note(name)

    def ship(**options: Any) -> None:
        with Order.ship.start("o", **options) as ctx:
            came = [each for each in "pq" if getattr(ctx.task, each) is not None]
        note("shipped with _" + "".join(came))

    def begin_next_life() -> None:
        def begin() -> None:
            Order.delete_task("o")
            Order.create("o", wait_for=Order.p)
            note("next life")

        attempt(begin)

    calls = {
        "w": lambda: attempt(ship),
        "v": lambda: attempt(partial(ship, also_from=[Order.ship.ignored])),
        "c": lambda: attempt(lambda: Part.work.run("c", lambda _: None)),
        "i": lambda: attempt(lambda: Order.ship.ignore("o", reason="not now")),
        "r": lambda: attempt(lambda: Order.ship.reopen("o")),
    }
    programs = [Program(each, (calls.get(each) or partial(send, each),)) for each in others if each != "x"]
    if "x" in others:
        programs.append(Program("x", (partial(send, "p"), begin_next_life)))

    def begin() -> None:
        Order.create("o")
        if first == "l":
            Order.other.send("o")
        if first not in "bel":
            wait()

    if first in "bl":
        programs.append(Program("b", (lambda: attempt(wait),)))
    broken = partial(_broken, names, may_start=first in "lL" or "v" in others)
    return Protocol(programs, faults, broken, started(begin))


def _broken(names: list[str], state: State, *, may_start: bool) -> str | None:  # noqa: PLR0911 - one for each promise
    row = item_at(state.rows, "o awaiting")
    if not row:
        return None
    came = row.get("signals", {"M": {}})["M"]
    if "next life" in state.notes:
        return "a signal reaches the next life" if "p" in came else None
    if any(name in came and came[name]["M"]["value"]["S"] != f'"{name}"' for name in state.notes):
        return "a signal that counted is replaced"
    if any(name in came for name in row.get("missed_signals", {"SS": []})["SS"]):
        return "a signal is stored without which the task has done"
    status, parked = value(row, "status"), value(row, "due_time") == stamp(NEVER)
    waits = any(name not in came for name in names) or "parent" in item_at(state.rows, "c part")
    if status == PENDING and parked and not waits:
        return "it waits for nothing"
    if status in (PENDING, PENDING + 1, END) and waits and not parked and not may_start:
        return "it starts without a signal"
    if status == PENDING + 1 and value(row, "due_time") <= value(row, "update_time"):
        return "the due time of a run is moved"
    shipped = [each for each in state.notes if each.startswith("shipped with")]
    if status == END and any(name not in each.split()[-1] for each in shipped for name in came):
        return "it has decided without a signal"
    return None
