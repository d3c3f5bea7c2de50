"""The pipeline of the demo: the table, the use case with its three steps, and what a worker does in each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import BoundStep, ExecutionContext, GiveUp, State, Status, Step, Task, UseCase
from pynamodb_tracker.demo.accidents import MAX_ATTEMPTS, Accident, Accidents
from pynamodb_tracker.demo.orders import CALLED_OFF, STEPS, PlacedOrder, Trouble, called_off_at, happened

__all__ = ["LOCK", "MARGIN", "DemoTask", "Order", "OutsideError", "Worker", "row_of", "state_of", "steps"]

LOCK = timedelta(seconds=2)
PAUSE = timedelta(seconds=1)
MARGIN = timedelta(milliseconds=250)


class OutsideError(Exception):
    """A service outside did not do what it was asked to."""


class CardDeclinedError(OutsideError):
    """The bank declines the card, and will do so again."""


class UnknownAddressError(OutsideError):
    """Nobody knows the address, and nobody will tomorrow."""


class DemoTask(Task):
    """The table of the demo."""

    class Meta:
        """Where it is in memory; on a server, `Setup` says where."""

        table_name = "pynamodb-tracker-demo"
        region = "us-east-1"
        host: str | None = None
        aws_access_key_id: str | None = None
        aws_secret_access_key: str | None = None
        clock_margin = MARGIN  # all workers read the clock of one machine


class Order(DemoTask):
    """The use case: an order is paid, shipped and delivered.

    Locks and pauses are short, because somebody watches; a real step is given minutes.
    """

    use_case_id = UseCase("order")

    confirm_payment = Step(
        10, max_attempts=MAX_ATTEMPTS, lock_for=LOCK, retry_delay=PAUSE, give_up_on=(CardDeclinedError,)
    )
    ship = Step(20, max_attempts=MAX_ATTEMPTS, lock_for=LOCK, retry_delay=PAUSE)
    deliver = Step(30, max_attempts=MAX_ATTEMPTS, lock_for=LOCK, retry_delay=PAUSE, give_up_on=(UnknownAddressError,))

    order_status = UnicodeAttribute()
    tracking_no = UnicodeAttribute(null=True)

    @property
    def times(self) -> dict[str, str]:
        """When the event of each step happened, as far as the outside tells."""
        times: dict[str, str] = self.data.get("times", {})
        return times

    @property
    def trouble(self) -> Trouble | None:
        """Why it can never succeed."""
        return Trouble(self.data["trouble"]) if "trouble" in self.data else None


def steps() -> list[BoundStep[Order]]:
    """Return the steps in order."""
    return [getattr(Order, name) for name in STEPS]


def state_of(step: str, status: Status) -> State[Order]:
    """Return a state of an order by the names of its step and status."""
    state: State[Order] = getattr(getattr(Order, step), status)
    return state


def row_of(order: PlacedOrder) -> dict[str, Any]:
    """Return what `Order.create_many` takes to create the task of an order."""
    times = {step: time.isoformat() for step, time in order.times.items()}
    return {
        "task_id": order.order_id,
        "order_status": order.status,
        "data": ({"times": times} if times else {}) | ({"trouble": order.trouble} if order.trouble else {}),
    }


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker knows: which orders it can go on with, and how to do each step."""

    accidents: Accidents
    die: Callable[[], None]
    """How this worker goes when a run takes it along; where it comes back from that, its lock has passed on."""

    def todo(self, step: BoundStep[Order]) -> Iterator[Order]:
        """Yield the orders that the step has something to do for: due, and the event has happened outside.

        An order whose event has not come is left alone: it stays pending, with no attempt spent. A run that finds
        out and raises RetryLater would call it failed, which it is not, and would use up its attempts with waiting.
        """
        return (order for order in step.todo() if next(self.way(step, order), None))

    def way(self, step: BoundStep[Order], order: Order) -> Iterator[BoundStep[Order]]:
        """Yield the steps that the order can go from here, this one included, for as long as each of them succeeds."""
        start, end = STEPS.index(step.name), happened(order.order_status, order.times)
        yield from steps()[start : len(STEPS) if order.order_status in CALLED_OFF else end]

    def work(self, step: BoundStep[Order], ctx: ExecutionContext[Order]) -> None:
        """Do a step of an order, unless an accident happens; raises what the attempt fails or is given up with."""
        order, accident = ctx.task, self.accidents.of(ctx.task.task_id, step.name, ctx.attempt, ctx.task.trouble)
        note_takeover(step.name, ctx)
        if accident is Accident.FAILURE:
            raise OutsideError(_FAILURES[step.name])
        if called_off_at(order.order_status, order.times) == step.name:
            raise GiveUp(order.order_status)
        _EFFECTS[step.name](ctx)
        if accident is Accident.DEATH:
            self.die()


def note_takeover(step: str, ctx: ExecutionContext[Order]) -> None:
    """Write down, at once, that this run took over from one that never finished: the claim right before this one."""
    if ctx.fence - 1 in ctx.task.unfinished:
        ctx.task.data.setdefault("taken_over", []).append({"step": step, "attempt": ctx.attempt, "fence": ctx.fence})
        ctx.save()


def confirm_payment(ctx: ExecutionContext[Order]) -> None:
    """Charge the card, under a key of the order's own: if this attempt dies, the next one is no second payment."""
    if ctx.task.trouble is Trouble.DECLINED:
        raise CardDeclinedError("the card was declined")
    ctx.task.data["receipt"] = _number_for(f"{ctx.task.task_id}/confirm_payment")


def ship(ctx: ExecutionContext[Order]) -> None:
    """Get a tracking number from the carrier, the same one if it is asked again."""
    ctx.task.tracking_no = _number_for(f"{ctx.task.task_id}/ship")


def deliver(ctx: ExecutionContext[Order]) -> None:
    """Hand the parcel over."""
    if ctx.task.trouble is Trouble.UNKNOWN:
        raise UnknownAddressError("nobody knows the address")
    ctx.task.data["delivered"] = ctx.task.times.get("deliver", "at a time that nobody wrote down")


def _number_for(key: str) -> str:
    """Return what a service that honours idempotency keys answers: the same for the same key."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


_EFFECTS = {"confirm_payment": confirm_payment, "ship": ship, "deliver": deliver}

_FAILURES = {
    "confirm_payment": "the payment gateway did not answer in time",
    "ship": "the carrier came without a van",
    "deliver": "nobody was at home",
}
