"""The demo's table, its use case with three steps, and the function that does them."""

import os
from datetime import timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import BoundStep, ExecutionContext, GiveUp, State, Status, Step, Task, UseCase, clock
from pynamodb_tracker.demo.orders import MAX_ATTEMPTS, Accident, PlacedOrder, called_off_at

LOCK = timedelta(seconds=2)
MARGIN = timedelta(milliseconds=250)

WAITING = timedelta(days=1)  # how long an order waits for its next event: until long after the demo


class OutsideError(Exception):
    """An outside service did not do its work."""


class RefusedError(OutsideError):
    """An outside service never will do its work, for example because the card is declined."""


class WorkerDiedError(Exception):
    """The worker dies now."""


class DemoTask(Task):
    class Meta:
        """It is in memory, or on the server in `host`."""

        table_name = "pynamodb-tracker-demo"
        region = "us-east-1"
        host: str | None = None
        clock_margin = MARGIN  # all workers share one machine's clock


_SETTINGS: dict[str, Any] = {
    "max_attempts": MAX_ATTEMPTS,
    "lock_for": LOCK,
    "retry_delay": timedelta(seconds=1),
    "give_up_on": (RefusedError,),
}
"""Short, because somebody is watching. Give real steps minutes."""


class Order(DemoTask):
    use_case_id = UseCase("order")

    confirm_payment = Step(100, **_SETTINGS)
    ship = Step(200, **_SETTINGS)
    deliver = Step(300, **_SETTINGS)

    order_status = UnicodeAttribute()


PIPELINE: tuple[BoundStep[Order], ...] = (Order.confirm_payment, Order.ship, Order.deliver)


def end_state(order: PlacedOrder) -> State[Order]:
    step, status = order.end
    state: State[Order] = getattr(getattr(Order, step), status)
    return state


def row_of(order: PlacedOrder) -> dict[str, Any]:
    """Return an order's arguments for `create_many`. An order that must wait is created in that state."""
    data: dict[str, Any] = {"accidents": order.accidents} if order.accidents else {}
    if order.times:
        data["times"] = {step: time.isoformat() for step, time in order.times.items()}
    row: dict[str, Any] = {"task_id": order.order_id, "order_status": order.status, "data": data}
    state = end_state(order)
    return row | {"state": state, "due_time": clock.now() + WAITING} if state.status is Status.PENDING else row


def accident_of(order: Order, attempt: int) -> Accident | None:
    """Return what happens to an attempt at the order's current step."""
    accidents = order.data.get("accidents", {}).get(order.state.step, [])
    return Accident(accidents[attempt - 1]) if attempt <= len(accidents) else None


_RESULTS = {"confirm_payment": "receipt", "ship": "tracking_no", "deliver": "signature"}
_FAILURES = {
    "confirm_payment": "the payment gateway did not respond in time",
    "ship": "the carrier came without a van",
    "deliver": "nobody was at home",
}
_REFUSALS = {"confirm_payment": "the card was declined", "deliver": "nobody knows the address"}


def work(ctx: ExecutionContext[Order]) -> None:
    """Do the order's current step. WorkerDiedError simulates the worker's death."""
    order, step = ctx.task, ctx.task.state.step
    accident = accident_of(order, ctx.attempt)
    if accident is Accident.FAILURE:
        raise OutsideError(_FAILURES[step])
    if accident is Accident.REFUSAL:
        raise RefusedError(_REFUSALS[step])
    if called_off_at(order.order_status, order.data.get("times", {})) == step:
        raise GiveUp(order.order_status)
    order.data[_RESULTS[step]] = ctx.idempotency_key  # the same for each attempt
    if accident is Accident.DEATH:
        raise WorkerDiedError


def work_or_die(ctx: ExecutionContext[Order]) -> None:
    """Do the step in a worker process, in which a death runs no `finally`."""
    try:
        work(ctx)
    except WorkerDiedError:
        os._exit(75)
