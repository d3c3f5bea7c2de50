"""The demo's orders, generated or from a CSV file, with what happens to each, and where it must end."""

import csv
import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pynamodb_tracker.demo import DemoError
from pynamodb_tracker.model.arguments import check_task_id, did_you_mean
from pynamodb_tracker.model.status import Status

MAX_ATTEMPTS = 4

STEPS = ("confirm_payment", "ship", "deliver")  # each is an event in an order's life

STATUSES: Mapping[str, int] = {
    "created": 0,
    "approved": 1,
    "invoiced": 1,
    "processing": 1,
    "shipped": 2,
    "delivered": 3,
    "canceled": 0,
    "unavailable": 0,
}
"""How many events have happened at least."""

CALLED_OFF = ("canceled", "unavailable")


class Accident(StrEnum):
    FAILURE = "failure"  # the outside service fails this time
    REFUSAL = "refusal"  # the outside service refuses for good
    DEATH = "death"  # the worker dies after its work, before the success is recorded


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    order_id: str
    status: str
    times: Mapping[str, datetime] = field(default_factory=dict)  # when each step's event happened
    accidents: dict[str, list[Accident]] = field(default_factory=dict)  # by step, in the order of attempts

    @property
    def end(self) -> tuple[str, Status]:
        """The step and status in which the order must end.

        A delivered order succeeds at the last step. A called-off order is ignored at its first step without an event,
        where any other order waits.
        """
        for step, accidents in self.accidents.items():
            if Accident.REFUSAL in accidents or len(accidents) == MAX_ATTEMPTS:
                return step, Status.IGNORED
        if gives_up := called_off_at(self.status, self.times):
            return gives_up, Status.IGNORED
        done = _count_events(self.status, self.times)
        return (STEPS[-1], Status.SUCCEEDED) if done == len(STEPS) else (STEPS[done], Status.PENDING)

    @property
    def steps_started(self) -> tuple[str, ...]:
        """The steps that workers must start. An order that waits is created there, and never started."""
        step, status = self.end
        return () if status is Status.PENDING else STEPS[: STEPS.index(step) + 1]


def called_off_at(status: str, times: Collection[str]) -> str | None:
    """Return the step that gives up on a called-off order: the first without an event, or the last."""
    return STEPS[min(_count_events(status, times), len(STEPS) - 1)] if status in CALLED_OFF else None


def _count_events(status: str, times: Collection[str]) -> int:
    """Count the events. A later one proves the earlier ones, because files have gaps."""
    return max([STATUSES[status], *(number for number, step in enumerate(STEPS, 1) if step in times)])


_TROUBLES: tuple[tuple[float, str, dict[str, list[Accident]]], ...] = (
    (0.02, "canceled", {}),
    (0.03, "delivered", {"confirm_payment": [Accident.REFUSAL]}),
    (0.01, "delivered", {"confirm_payment": [Accident.FAILURE] * MAX_ATTEMPTS}),
    (0.005, "delivered", {"ship": [Accident.DEATH] * MAX_ATTEMPTS}),
    (0.02, "delivered", {"deliver": [Accident.REFUSAL]}),
)
"""Generated orders that cannot succeed: their share, status and accidents."""


def generate_orders(count: int) -> list[PlacedOrder]:
    """Return always the same orders, with each trouble at least once if there is room."""
    kinds = [each[1:] for each in _TROUBLES for _ in range(max(1, round(each[0] * count)))][: count // 2]
    kinds += [("delivered", {})] * (count - len(kinds))
    random.Random("orders").shuffle(kinds)  # noqa: S311 - nothing here is secret
    return [
        PlacedOrder(f"o-{number:04}", status, accidents=dict(accidents))
        for number, (status, accidents) in enumerate(kinds, 1)
    ]


_CHANCE_OF_FAILURE = {"confirm_payment": 0.10, "ship": 0.02, "deliver": 0.02}
_SHARE_OF_DEATHS, _MOST_DEATHS = 0.01, 6
_MOST_FAILURES = MAX_ATTEMPTS - 2  # in a row. This leaves an attempt for a worker that is late on a busy machine


def draw_accidents(orders: Collection[PlacedOrder]) -> None:
    """Add always the same accidents to runs that succeed later: at least one death and one failure."""
    chance = random.Random("accidents")  # noqa: S311 - nothing here is secret
    runs = [(order, step) for order in orders for step in order.steps_started if order.end != (step, Status.IGNORED)]
    chance.shuffle(runs)
    deaths = min(_MOST_DEATHS, max(1, round(len(runs) * _SHARE_OF_DEATHS)))
    for order, step in runs[:deaths]:
        order.accidents[step] = [Accident.DEATH]
    for number, (order, step) in enumerate(runs[deaths:]):
        failures = 1 if number == 0 else 0
        while failures < _MOST_FAILURES and chance.random() < _CHANCE_OF_FAILURE[step]:
            failures += 1
        if failures:
            order.accidents[step] = [Accident.FAILURE] * failures


_TIMES = {
    "order_purchase_timestamp": None,
    "order_approved_at": "confirm_payment",
    "order_delivered_carrier_date": "ship",
    "order_delivered_customer_date": "deliver",
    "order_estimated_delivery_date": None,
}

_REQUIRED = ("order_id", "order_status")
_COLUMNS = (*_REQUIRED, "customer_id", *_TIMES)
_FORMATS = ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y")
_MOST_PROBLEMS = 20


def read_orders(path: Path) -> list[PlacedOrder]:
    """Return the orders from a CSV file in UTF-8, or raise DemoError with the problem on each line.

    The first line names the columns, of which `order_id` and `order_status` are required. A time is `M/D/YYYY H:MM` or
    in ISO 8601, or empty if the event never happened.
    """
    orders: dict[str, PlacedOrder] = {}
    problems: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            for name in rows.fieldnames or ():
                _check_name("column", name, _COLUMNS)
            if missing := [name for name in _REQUIRED if name not in (rows.fieldnames or ())]:
                raise DemoError(f"{path}: the column {missing[0]!r} is missing")
            for row in rows:
                try:
                    order = _parse_order(row, orders)
                    orders[order.order_id] = order
                except ValueError as error:
                    problems.append(f"{path}:{rows.line_num}: {error}")
    except OSError as error:
        raise DemoError(f"{path}: {error.strerror}") from None
    except (ValueError, csv.Error) as error:  # a wrong header, bytes that are not UTF-8, or an open quote
        raise DemoError(f"{path}: {error}") from None
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{path}: and {len(problems) - _MOST_PROBLEMS} more"]
    if problems or not orders:
        raise DemoError("\n".join(problems) or f"{path}: there are no orders below the header")
    return list(orders.values())


def _parse_order(row: Mapping[str, str | None], known: Collection[str]) -> PlacedOrder:
    if None in row or None in row.values():
        raise ValueError("the line and the header have different numbers of fields")
    found = {str(name): str(value).strip() for name, value in row.items()}
    order_id, status = check_task_id(found["order_id"]), found["order_status"].lower()
    if order_id in known:
        raise ValueError(f"order_id {order_id!r} occurs twice")
    _check_name("order_status", status, STATUSES)
    times = {column: _parse_time(column, found[column]) for column in _TIMES if found.get(column)}
    return PlacedOrder(order_id, status, {step: times[name] for name, step in _TIMES.items() if step and name in times})


def _parse_time(column: str, text: str) -> datetime:
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    for form in _FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # noqa: DTZ007 - these files lack time zones
    raise ValueError(f"{column} {text!r} is not a date. Write M/D/YYYY H:MM, month first, or YYYY-MM-DD HH:MM:SS.")


def _check_name(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f". Write one of {', '.join(known)}."
        raise ValueError(f"unknown {what} {name!r}{hint}")
