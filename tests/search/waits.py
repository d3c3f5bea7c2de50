"""Waits: what a task still waits for when a run has done without it holds nothing up, and is known for the round.

Each call is made whole, since these traces are long and need no race; `joins` and `signals` search for races.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from pynamodb_tracker import GiveUp, Signal, Step, UseCase
from pynamodb_tracker.clock import stamp
from pynamodb_tracker.model.status import END
from tests.race.guards import forget_the_limit, keep_the_wait, leaving_out, miss_for_ever, one_join
from tests.search.protocol import BASE, TICK, Faults, Program, Protocol, State, attempt, note, table, value
from tests.search.table import answered, item_at

PENDING = 100, 200, 300, 400
OF_WAIT = {"blockers", "awaited_signals", "wait_until"}
OUTLIVES = "an attribute outlives its wait"
NOTHING = "it waits for nothing"
BEYOND = "it is parked beyond its limit"
TOO_EARLY = "it is due although something is missing"
UNTOLD = "the sender of a signal is told the wrong thing"
SILENT = "a signal is stored without which the task has done"
UNREAD = "a signal that was to be read was not"
BOUNDED = [
    ("cL wkcdirl", Faults(ticks=2)),
    ("cLg irbcw", Faults(ticks=2)),
    ("pL pwlCe", Faults(ticks=2)),
    ("cp pixXIRS", Faults()),
]
COMPLETE = [
    ("cpL wkWcdpqirl", Faults(ticks=2)),
    ("cp SwcpirxXIR", Faults(ticks=2)),
    ("cpLg SwpirxXIRbC", Faults(ticks=1)),
    ("pL pwlCeixXIRS", Faults(ticks=2)),
]
"""Which programs, after what the second step waits for: c a child, p a signal, L until a limit; g in a group, where
another task follows. w runs that step; W waits for the signal q in it, k for the child d; l runs the third one, where C
waits for p again; e runs the last one. p and q send signals, c and d end children, b runs the other task; i and I
ignore the task at the second and third step, r and R reopen it there; x runs the third step although the task was
ignored at the second one, X gives up then; S runs the first step once more."""
PASSES = Faults(ticks=1)
GUARDS: dict[Any, Any] = {
    ("the end of a wait", keep_the_wait): ("cL wWq", PASSES, OUTLIVES),
    ("a limit that is over", leaving_out("claim from", "wait_until")): ("c iXR", Faults(), NOTHING),
    ("children of its own", one_join): ("cL kcd", PASSES, TOO_EARLY),
    ("the limit of a member that waits", forget_the_limit): ("cLg irb", Faults(), BEYOND),
    ("missed_signals", leaving_out("succeed", "missed_signals")): ("pL wple", PASSES, UNREAD),
    ("a signal that is awaited again", miss_for_ever): ("pL wCp", PASSES, SILENT),
}


class Whole(Protocol):
    """Programs each of whose calls is made without another one beside it; the first one begins before all others."""

    def start(self) -> State:
        return self._after(super().start(), 0)

    def following(self, state: State) -> Iterator[tuple[str, State]]:
        if state.faults.ticks:
            ticks = state.faults.ticks - 1
            yield "time passes", state._replace(now=state.now + 1, faults=state.faults._replace(ticks=ticks))
        for number, (program, actor) in enumerate(zip(self._programs, state.actors, strict=True)):
            if actor.call < len(program.calls):
                yield program.name, self._after(state, number)

    def _after(self, state: State, number: int) -> State:
        after = self._continue(state, number, state.actors[number], "")
        while (request := after.actors[number].request) is not None:
            rows, answer = answered(after.rows, *request)
            after = self._continue(after._replace(rows=rows), number, after.actors[number], answer)
        return after


def protocol(who: str, faults: Faults) -> Protocol:  # noqa: C901 - what each program does

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("order")
        split, collect, close, archive = (Step(code) for code in PENDING)
        p, q = Signal(), Signal()

    class Part(Order.tracker.table.owner):  # type: ignore[misc,name-defined]  # of the same table
        use_case_id = UseCase("part")
        work = Step(100)

    config, letters = who.split()

    def run(step: Any, what: str = "", **options: Any) -> None:
        asked = "".join(sorted({*what} & {*"cdpq"})) or "-"
        with suppress(GiveUp), step.start("o", **options) as ctx:
            if options:  # a start from another state does without what that waits for
                note(f"success {ctx.task.fence:03} - - -")
            limit = ctx._limit(1.5 * TICK, "until") if "L" in what else None
            for each in {*asked} - {"-"}:
                if each in "pq":
                    ctx.wait_for(getattr(Order, each), until=limit)
                else:
                    ctx.create(Part, each, wait=True)
            if limit:
                ctx.wait_until(limit)
            if what == "f":
                raise GiveUp
        if ctx.outcome == "succeeded":
            had = "".join(each for each in "pq" if getattr(ctx.task, each)) or "-"
            note(f"success {ctx.task.fence:03} {asked}_ {stamp(limit) if limit else '-'} {had}")

    def send(name: str) -> None:
        sent = getattr(Order, name).send("o", name)
        note(f"sent {name} {sent.will_be_read}")

    def end_other() -> None:
        for step in (Order.split, Order.collect, Order.close, Order.archive):
            step.run("b", lambda _: None)

    waits = "".join(each for each in config if each in "cpL")
    calls: dict[str, Callable[[], object]] = {
        "w": partial(run, Order.collect),
        "W": partial(run, Order.collect, "q"),
        "k": partial(run, Order.collect, "d"),
        "l": partial(run, Order.close),
        "C": partial(run, Order.close, "pL"),
        "e": partial(run, Order.archive),
        "p": partial(send, "p"),
        "q": partial(send, "q"),
        "i": lambda: Order.collect.ignore("o", reason="not now"),
        "r": lambda: Order.collect.reopen("o"),
        "I": lambda: Order.close.ignore("o", reason="not now"),
        "R": lambda: Order.close.reopen("o"),
        "S": partial(run, Order.split, waits, also_from=[Order.collect.ignored]),
        "x": partial(run, Order.close, also_from=[Order.collect.ignored]),
        "X": partial(run, Order.close, "f", also_from=[Order.collect.ignored]),
        "b": end_other,
        **{each: partial(Part.work.run, each, lambda _: None) for each in "cd"},
    }

    def begin() -> None:
        group = "g" if "g" in config else None
        Order.create("o", group=group)
        if group:
            Order.create("b", group=group)
        run(Order.split, waits)

    programs = [Program(each, (partial(attempt, calls[each]),)) for each in letters]
    return Whole([Program("begin", (begin,), behind=1), *programs], faults, _broken)


def _broken(state: State) -> str | None:  # noqa: PLR0911 - one for each promise
    row, now = item_at(state.rows, "o order"), stamp(BASE + state.now * TICK)
    *_, (_, _, asked, limit, _) = runs = sorted(each.split() for each in state.notes if each.startswith("success"))
    status, due, came = value(row, "status"), value(row, "due_time"), row.get("signals", {"M": {}})["M"]
    missing = [each for each in asked if (each not in came if each in "pq" else _is_open(state, each))]
    has_turn = "group" not in row or value(item_at(state.rows, "g #group#order"), "turn") == "o"
    if any(f"sent {name} {name not in came}" in state.notes for name in "pq"):
        return UNTOLD
    if any(each in came for each in row.get("missed_signals", {"SS": []})["SS"]):
        return SILENT
    if status not in (*PENDING, END) or not has_turn:
        return None
    if not missing and asked[-1] == "_" and OF_WAIT & row.keys():
        return OUTLIVES
    if status == END:
        done = [run for run in runs if run[2][-1] == "_"]
        asked_for, read = (
            {each for run in done for each in run[2]},
            {each for one, other in pairwise(done) for each in other[4] if each in one[2]},
        )
        return UNREAD if asked_for & came.keys() - read else None
    if not missing and due > now:
        return NOTHING
    if limit != "-" and due > max(limit, now):
        return BEYOND
    return TOO_EARLY if missing and due <= now and (limit == "-" or limit > now) else None


def _is_open(state: State, child: str) -> bool:
    row = item_at(state.rows, f"{child} part")
    return bool(row) and value(row, "status") != END
