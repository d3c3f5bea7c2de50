"""Missed occurrences: a run is pinned to the latest one before its block begins, and its round stays at that one."""

from contextlib import suppress
from functools import partial
from typing import Any

from pynamodb_tracker import Repeat, Step, UseCase
from pynamodb_tracker.clock import parse
from tests.race.guards import pin_in_any_attempt
from tests.search.protocol import BASE, TICK, Faults, Program, Protocol, State, attempt, note, started, table

RULE = Repeat.every(TICK / 2, start=BASE - 3.75 * TICK)
LOCK = 0.9 * TICK
MOVED = "two blocks of a round run for two occurrences"
OLD = "a round runs for an occurrence although a later one was missed, too"
TWICE = "two rounds run for one occurrence"
BOUNDED = [
    ("w w", Faults(deaths=1, ticks=1)),
    ("w w", Faults(lost=1)),
    ("ww", Faults(late=1, ticks=1)),
    ("r w", Faults(ticks=1)),
]
COMPLETE = [
    ("f w", Faults(twice=1, ticks=1)),
    ("w f", Faults(deaths=1, lost=1, ticks=2)),
    ("ww w", Faults(late=1, ticks=2)),
    ("fw w", Faults(lost=1, ticks=2)),
    ("rw w", Faults(deaths=1, ticks=3)),
]
"""Which programs, with a letter for each run: w succeeds, f fails, r is released."""
GUARDS = {
    ("held_by_run", "pin"): ("wfw", Faults(late=1, ticks=1), MOVED),
    ("in the first attempt only", pin_in_any_attempt): ("f w", Faults(ticks=1), MOVED),
}


def protocol(who: str, faults: Faults) -> Protocol:
    """Return what these programs do with a task that has missed an occurrence."""

    class Order(table()):  # type: ignore[misc]  # a class of its own for each search
        use_case_id = UseCase("nightly")
        clean = Step(100)

    def begin() -> None:
        Order.create("o", repeat=RULE)

    def run(letter: str) -> None:
        with suppress(_BoomError, KeyboardInterrupt):
            attempt(lambda: Order.clean.run("o", partial(_block, letter), lock_for=LOCK))

    programs = [Program(word, tuple(partial(run, letter) for letter in word)) for word in who.split()]
    return Protocol(programs, faults, _broken, started(begin))


class _BoomError(Exception):
    """What fails a run."""


def _block(letter: str, ctx: Any) -> None:
    """Note for which occurrence a block runs, and whether a later one had passed when the round was first claimed."""
    task, occurrence, claim = ctx.task, ctx.occurrence, ctx._claim
    claimed = task.update_time
    if claim.took_over:  # whose claim the row shows, unless the response was lost
        claimed = parse(claim.before["update_time"]["S"]) if claim.before else occurrence
    is_old = RULE.latest(occurrence, None, claimed) is not None
    note(f"{ctx.round} {ctx.task.fence:02} {occurrence.isoformat()} {is_old}")
    type(task).get_task("o")  # the block lasts
    if letter == "f":
        raise _BoomError
    if letter == "r":
        raise KeyboardInterrupt


def _broken(state: State) -> str | None:
    blocks: dict[str, list[list[str]]] = {}
    for each in state.notes:
        begun, *block = each.split()
        blocks.setdefault(begun, []).append(block)
    if any(len({occurrence for _, occurrence, _ in of_round}) > 1 for of_round in blocks.values()):
        return MOVED
    if any(min(of_round)[2] == "True" for of_round in blocks.values()):
        return OLD
    occurrences = [of_round[0][1] for of_round in blocks.values()]
    return TWICE if len({*occurrences}) < len(occurrences) else None
