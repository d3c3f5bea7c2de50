"""Signals from outside: a bill is issued, and settled once its two signals have come, or its time has."""

import random
from datetime import timedelta
from typing import Any

from pynamodb_tracker import SignalAlreadyReceivedError, TaskNotStartableError, clock
from tests.chaos.attempts import Attempt, report_crash
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts

ANSWERS = ("paid", "approved")
PATIENCE = timedelta(seconds=1.5)
"""How long some bills wait for a signal."""
MOST = 5


def limit_of(task_id: str) -> timedelta | None:
    """Return how long a bill waits each time, or None for forever."""
    return PATIENCE if int(task_id.rpartition("-")[2]) % 3 else None


def create_options(bill: Any, task_id: str) -> dict[str, Any]:
    """Return a bill's options. Some wait for their payment from the beginning."""
    if int(task_id.rpartition("-")[2]) % 2:
        return {}
    return {"wait_for": bill.paid, "until": limit_of(task_id)}


def run(attempt: Attempt, task_id: str, interrupts: Interrupts) -> None:
    """Issue a bill, or settle it with the signals so far."""
    bill, step = attempt.step.model, attempt.step.name

    def work(ctx: Any) -> None:
        found = {name: signal and signal.value for name in ANSWERS for signal in [getattr(ctx.task, name)]}
        waited = ANSWERS if step == "settle" else ANSWERS[:1] if create_options(bill, task_id) else ()
        until = ctx.task.wait_until
        is_late = until is not None and until - ctx.task.tracker.margin <= clock.now()
        missing = [name for name in waited if found[name] is None]
        attempt.log.tell("settle", f"bill/{task_id}", attempt.number, found=found, missing=missing, is_late=is_late)
        if step == "settle":
            ctx.task.data["decided"] = found
            for name in missing[: attempt.number % 2]:  # it comes while this run decides without it
                send(attempt.log, attempt.number, getattr(bill, name), task_id)
            return
        for name in ANSWERS:
            ctx.wait_for(getattr(bill, name), until=limit_of(task_id))

    attempt.run(task_id, work, interrupts)


def send(log: Log, number: int, signal: Any, task_id: str, event: int = 0) -> None:
    """Send a signal for an event that nobody else has, and record the outcome."""
    named, value = f"bill/{task_id}", f"{log.worker}/{number}"
    facts: dict[str, Any] = {"name": signal.name, "value": value}
    key = f"{value}/{event}"
    log.tell("send", named, number, **facts)
    try:
        sent = signal.send(task_id, value, by=log.worker, key=key)
    except SignalAlreadyReceivedError as error:
        log.tell("counted", named, number, **facts | {"value": error.signal.value})
    except TaskNotStartableError:
        pass  # it is not there, or has ended
    except Exception as error:  # noqa: BLE001 - the checker judges it
        report_crash(log, error, named, number)
    else:
        if sent.will_be_read:
            log.tell("counted", named, number, **facts, effect=sent.effect, key=key)


def send_any(log: Log, number: int, bill: Any, draw: random.Random) -> bool:
    """Signal a bill in any state. Some senders send twice, for one event or for two."""
    steps = (bill.issue, bill.settle)
    states = [state for step in steps for state in (step.pending, step.in_progress, step.failed, step.ignored)]
    often = [bill.issue.pending, bill.settle.pending, *[bill.settle.in_progress] * 2]  # where a signal races a decision
    state = draw.choice([*states, *often * 3, bill.settle.succeeded])
    found = [task.task_id for task in state.query(limit=MOST, latest_due_first=draw.random() < 0.7, with_data=False)]
    if not found:
        return False
    task_id, name = draw.choice(found), draw.choice(ANSWERS)
    for event in draw.choice(((0,), (0,), (0, 0), (0, 1))):
        send(log, number, getattr(bill, name), task_id, event)
    return True


def send_missing(log: Log, number: int, bill: Any) -> bool:
    """Send the missing signals, so that no bill waits forever."""
    for step in (bill.issue, bill.settle):
        for task in step.pending.query(limit=MOST, with_data=False):
            for name in sorted(task.awaited_signals or ()):
                send(log, number, getattr(bill, name), task.task_id)
                return True
    return False
