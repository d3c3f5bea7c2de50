"""Runs: claims, ends and takeovers; what a block stores while it lasts, its parts, and postponements."""

from collections.abc import Callable
from functools import partial
from typing import Any

from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import LockLostError, RetryLater, Step, TaskNotStartableError, UseCase, clock
from tests.race.guards import by_token_and_status, forget_my_token, leaving_out, shut_nothing_out, take_nothing_along
from tests.search.protocol import BASE, TICK, Faults, Program, Protocol, State, here, note, started, table, value
from tests.search.table import Item, item_at

LOCK = 1.5 * TICK
"""A lock expires between two ticks."""
DELAY = TICK / 2
PAY, SHIP = 100, 200
MOST_ATTEMPTS = {PAY: 2, SHIP: 1}
LATE, LOST, TWICE, PASSES = Faults(late=1), Faults(lost=1), Faults(twice=1), Faults(ticks=2)
BOUNDED = [
    ("s S", Faults(ticks=2, behind=1)),
    ("s f", LATE),
    ("f r", LOST),
    ("sp", LATE),
    ("e s", PASSES),
    ("v", LATE),
    ("x y", LOST),
    ("21", LATE),
    ("2 1", LOST),
    ("fsS a", Faults()),
]
COMPLETE = [
    ("sS ff", Faults(late=1, ticks=2)),
    ("sS fr", Faults(lost=1, ticks=2)),
    ("sr s", Faults(lost=1, late=1, ticks=2)),
    ("fs s", Faults(twice=1, deaths=1, ticks=2)),
    ("s s s", Faults(ticks=3, behind=1)),
    ("sS s", Faults(ticks=2, late=1, behind=1200)),
    ("ps sS", Faults(late=1, ticks=1)),
    ("pp sS", Faults(lost=1, ticks=1)),
    ("e s", Faults(late=2, ticks=3)),
    ("v s", Faults(late=1, lost=1, ticks=2)),
    ("xy y", Faults(late=1, ticks=1)),
    ("21 1", Faults(late=1, ticks=2)),
    ("21 1", Faults(lost=1, ticks=2)),
    ("fsS a", Faults(late=1, ticks=1)),
]
"""Which programs, with a letter for each run: s succeeds, S at the second step, a there also from a failure of the
first one, f fails, r is released, p is postponed, e extends its lock twice, v saves twice; 1 and 2 run two parts,
then 1 succeeds, and 2 fails; x and y fail, with a payload each."""
TWO = "two blocks run under a valid lock"
LOST_TASK = "a run has lost the task although its lock is valid"
LOCKED = "a claim of a run that has ended locks the task"
AGAIN = "a task that has ended runs again"
NOT_LOST = "a success is recorded after it was reported as lost"
GUARDS = {
    ("startable", "claim"): ("s s", Faults(), TWO),
    ("under_limit", "claim"): ("sS S", Faults(deaths=1, ticks=2), "more attempts than allowed"),
    ("has_status", "claim from"): ("fsS a", Faults(), AGAIN),
    ("same_payload", "claim"): ("x y", Faults(), "a run has another payload than the first one"),
    ("later_token", "claim"): ("f", LATE, LOCKED),
    ("held_by_run", "succeed"): ("s s", PASSES, LOST_TASK),
    ("held_by_run", "fail"): ("f s", PASSES, LOST_TASK),
    ("held_by_run", "release"): ("r s", PASSES, LOST_TASK),
    ("held_by_run", "extend"): ("e s", PASSES, TWO),
    ("lock_grows", "extend"): ("e s", Faults(late=1, ticks=2), TWO),
    ("held_by_run", "save"): ("v v", PASSES, "a save is forgotten"),
    ("later_save", "save"): ("v", LATE, "a save is forgotten"),
    ("held_by_run", "save parts"): ("2 2", PASSES, "a part is forgotten"),
    ("later_save", "save parts"): ("2", LATE, "a part is forgotten"),
    ("parts with the end", take_nothing_along): ("21", LOST, "a part is repeated"),
    ("REMOVE postponed", leaving_out("succeed", "postpone_count")): (
        "ps",
        Faults(ticks=1),
        "an earlier step is counted",
    ),
    ("unfinished", by_token_and_status): ("s S", LOST, NOT_LOST),
    ("the own token", forget_my_token): ("s", TWICE, LOCKED),
    ("shut out", shut_nothing_out): ("s", LOST, LOCKED),
}


class _BoomError(Exception):
    """What fails a run."""


def protocol(who: str, faults: Faults) -> Protocol:

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("order")
        pay, ship = (Step(code, max_attempts=most) for code, most in MOST_ATTEMPTS.items())
        done = UnicodeAttribute(default="")
        saved = UnicodeAttribute(default="")

    calls = {
        letter: partial(_run, Order.ship if letter == "S" else Order.pay, block, letter if letter in "xy" else None)
        for letter, block in _BLOCKS.items()
    }
    calls["a"] = partial(_run, Order.ship, _succeed_at_the_second_step, None, also_from=[Order.pay.failed])
    programs = [Program(word, tuple(calls[letter] for letter in word)) for word in who.split()]
    return Protocol(programs, faults, partial(_broken, faults), started(lambda: Order.create("o")))


def _run(step: Any, block: Callable[[Any], None], payload: str | None, **options: Any) -> None:
    """Run a step, and remember what the program is told about it."""
    ctx = None
    try:
        with step.start("o", lock_for=LOCK, must_match=payload, **options) as ctx:
            _hold(ctx)
            try:
                if payload:
                    note(f"given {payload}")
                block(ctx)
                type(ctx.task).get_task("o")  # the block lasts
            finally:
                note("_leaves")
            ctx.task.done += f"{ctx.task.fence} "
            _end(block)
    except LockLostError:
        note(f"lost {ctx.task.fence if ctx else 0}")
    except (_BoomError, RetryLater, KeyboardInterrupt):
        pass
    except TaskNotStartableError:
        note(f"refused {here()}")
    except PynamoDBException as error:
        if any("was not locked" in each or "was released" in each for each in getattr(error, "__notes__", ())):
            note(f"over {here()}")
    if ctx is not None and ctx.outcome is not None:
        note(f"over {here()}")
        note(f"{ctx.outcome} {ctx.task.fence}")
        if block is _succeed_at_the_second_step and ctx.outcome == "succeeded":
            note(f"ended {ctx.task.fence}")
        if block is _postpone:
            note(f"postponed {ctx.task.fence} {ctx.attempt - 1}")


def _end(block: Callable[[Any], None]) -> None:
    if block in (_fail, _fail_after_parts):
        raise _BoomError
    if block is _release:
        raise KeyboardInterrupt
    if block is _postpone:
        raise RetryLater(DELAY, use_attempt=False)


def _hold(ctx: Any) -> None:
    note(f"_holds {ctx.task.fence} {ctx.fencing_token} {clock.stamp(ctx.lock_expire_time)}")


def _succeed(ctx: Any) -> None: ...


def _succeed_at_the_second_step(ctx: Any) -> None: ...


def _fail(ctx: Any) -> None: ...


def _release(ctx: Any) -> None: ...


def _postpone(ctx: Any) -> None: ...


def _extend(ctx: Any) -> None:
    for times in (1, 3):
        ctx.extend_lock(times * LOCK)
        _hold(ctx)


def _save(ctx: Any) -> None:
    for letter in "ab":
        ctx.task.saved = f"{ctx.task.fence}{letter}"
        ctx.save()
        note(f"saved {ctx.task.saved}")


def _run_parts(ctx: Any) -> None:
    for name in ("charge", "mail"):
        result = ctx.checkpoint(name, partial(_part, name, ctx.task.fence))
        if f"{PAY}/{name}" in (ctx.task.checkpoints or {}):
            note(f"stored {name} {result}")


def _part(name: str, fence: int) -> int:
    note(f"did {name} {fence}")
    return fence


def _fail_after_parts(ctx: Any) -> None:
    _run_parts(ctx)


_BLOCKS = {
    "s": _succeed,
    "S": _succeed_at_the_second_step,
    "f": _fail,
    "r": _release,
    "p": _postpone,
    "e": _extend,
    "v": _save,
    "x": _fail,
    "y": _fail,
    "1": _run_parts,
    "2": _fail_after_parts,
}


def _broken(faults: Faults, state: State) -> str | None:  # noqa: C901, PLR0911 - one for each promise
    row = item_at(state.rows, "o order")
    status, token = value(row, "status"), value(row, "lock")
    notes = [each.split() for each in state.notes]
    if faults.behind <= _MARGIN and (broken := _broken_lock(state, status, token)):
        return broken
    if value(row, "attempt") > MOST_ATTEMPTS.get(status - status % 100, 2):
        return "more attempts than allowed"
    # A copy of a claim that was refused may arrive when the task is free: then it is as if its worker had died.
    said = ("over",) if faults.late or faults.lost else ("over", "refused")
    if status % 100 == 1 and [token[16:20]] in [place for what, *place in notes if what in said]:
        return LOCKED
    done = value(row, "done").split()
    told: dict[str, list[Any]] = {what: [] for what in ("succeeded", "lost", "saved", "given", "ended")}
    for what, *given in notes:
        if what in told:
            told[what] += given
    if not {*told["succeeded"]} <= {*done}:
        return "a success that was acknowledged is not recorded"
    if {*told["lost"]} & {*done}:
        return NOT_LOST
    if len({*told["given"]}) > 1:
        return "a run has another payload than the first one"
    if len({*told["ended"]}) > 1:
        return AGAIN
    if max(told["saved"], default="") > value(row, "saved"):
        return "a save is forgotten"
    return _broken_parts(row, status, notes) or _broken_postponement(row, status, notes)


_MARGIN = 2
"""By how many seconds clocks may differ."""


def _broken_lock(state: State, status: int, token: str) -> str | None:
    now, valid = clock.stamp(BASE + state.now * TICK), []
    for actor in state.actors:
        held = [each.split() for each in actor.notes if each.startswith("_holds")]
        if actor.request and held and "_leaves" not in actor.notes and held[-1][3] > now:
            valid.append(held[-1][2])
    if len(valid) > 1:
        return TWO
    return LOST_TASK if valid and (status % 100 != 1 or valid != [token]) else None


def _broken_parts(row: Item, status: int, notes: list[list[str]]) -> str | None:
    stored = row.get("checkpoints", {"M": {}})["M"]
    ended = {fence for what, fence, *_ in notes if what in ("failed", "released")}
    for name in ("charge", "mail"):
        results = [given[1] for what, *given in notes if what == "stored" and given[0] == name]
        if results and status < SHIP and value(stored, f"{PAY}/{name}") != max(results):
            return "a part is forgotten"
        did = [given[1] for what, *given in notes if what == "did" and given[0] == name]
        if any(earlier in ended and earlier < later for earlier in did for later in did):
            return "a part is repeated"
    return None


def _broken_postponement(row: Item, status: int, notes: list[list[str]]) -> str | None:
    if "postpone_count" in row and status >= SHIP:
        return "an earlier step is counted"
    for what, *given in notes:
        if what == "postponed" and given[0] == str(value(row, "fence")) and given[1] != str(value(row, "attempt")):
            return "a postponement uses up an attempt"
    return None
