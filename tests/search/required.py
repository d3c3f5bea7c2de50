"""Required steps: from some time after the command, no success of an older program passes over the step."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest

from pynamodb_tracker import Step, UseCase, clock
from pynamodb_tracker.control import item, watch
from tests.search.protocol import TICK, Faults, Program, Protocol, State, attempt, note, started, table, value
from tests.search.table import item_at

PAY, FRAUD, SHIP = 100, 150, 200
INTERVAL = 3 * TICK / 2
"""How long a program relies on what it has read, between two ticks."""
LOCK = 9 * TICK
BOUNDED = [("q o", Faults(ticks=2)), ("q t", Faults(ticks=2)), ("qd o", Faults(lost=1))]
COMPLETE = [
    ("q o", Faults(ticks=3, late=1)),
    ("qn o", Faults(ticks=2)),
    ("q o o", Faults(ticks=3, deaths=1)),
    ("qd t", Faults(ticks=2, lost=1)),
    ("qd oo n", Faults(ticks=2)),
    ("qdq t n", Faults(ticks=2, lost=1)),
    ("q to", Faults(ticks=3, late=1)),
    ("q q o", Faults(ticks=3, twice=1)),
]
"""Which programs: q requires the step, and d no longer does. o is an old worker, which has looked for a pause, and runs
pay; t records its success in a transaction; n is a new worker, which runs the step."""
PASSED = "a success passes over a required step"
TOLD = "a program is told another state than the one that its success has recorded"


def _lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "lead_to_required", lambda _: None)


def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch._Known, "is_fresh", property(lambda known: known.last_read is not None))


GUARDS: dict[tuple[str, Callable[[pytest.MonkeyPatch], None]], tuple[str, Faults, str]] = {
    ("a success leads to what is required", _lead_nowhere): ("q o", Faults(ticks=2), PASSED),
    ("it is read again", _read_once): ("q o", Faults(ticks=2), PASSED),
}


def protocol(who: str, faults: Faults) -> Protocol:
    shop = table()

    def declared(**steps: Step) -> Any:
        make: Any = type(shop)
        return make("Order", (shop,), {"use_case_id": UseCase("order", pausable=True), **steps})

    old = declared(pay=Step(PAY), ship=Step(SHIP))
    rows = started(lambda: old.create("o"))
    new = declared(pay=Step(PAY), fraud=Step(FRAUD), ship=Step(SHIP))
    calls: dict[str, Callable[[], object]] = {
        "q": partial(_require, old),
        "d": partial(_stop, old),
        "o": partial(_run, old.pay, transactional=False),
        "t": partial(_run, old.pay, transactional=True),
        "n": partial(_run, new.fraud, transactional=False),
    }
    programs = [Program(word, tuple(partial(_begun, calls[letter]) for letter in word)) for word in who.split()]
    return Protocol(programs, faults, _broken, rows)


def _begun(call: Callable[[], object]) -> None:
    """Make a call in a process that has read nothing."""
    watch._known.forget()
    with mock.patch.object(watch, "INTERVAL", INTERVAL):
        attempt(call)


def _require(order: Any) -> None:
    item.require(order, FRAUD, None)
    note(f"required {clock.stamp(clock.now())}")


def _stop(order: Any) -> None:
    note("no longer")
    item.stop_requiring(order, FRAUD, None)


def _run(step: Any, *, transactional: bool) -> None:
    step._definition.pause()  # as a worker that looks for tasks
    with step.start("o", lock_for=LOCK) as ctx:
        note(f"{step.number} runs")
        type(ctx.task).get_task("o")  # the block lasts
        if transactional:
            with ctx.transaction(succeed=True):
                pass
    note(f"{step.number} led to {ctx.task.status}")


def _broken(state: State) -> str | None:
    row, notes = item_at(state.rows, "o order"), set(state.notes)
    led = [int(each.split()[-1]) for each in notes if each.startswith(f"{PAY} led")]
    if led and value(row, "status") == FRAUD != led[0]:
        return TOLD
    required = [clock.parse(each.split()[-1]) + INTERVAL for each in notes if each.startswith("required")]
    has_passed = value(row, "status") == SHIP and f"{FRAUD} runs" not in notes
    if has_passed and led == [FRAUD]:
        return TOLD
    is_held = required and "no longer" not in notes and FRAUD not in led
    return PASSED if has_passed and is_held and clock.parse(value(row, "update_time")) > min(required) else None
