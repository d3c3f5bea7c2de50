"""Orders, generated or read from a CSV file, and the state in which the pipeline must leave each of them."""

import csv
import io
import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pynamodb_tracker.arguments import check_task_id, did_you_mean
from pynamodb_tracker.status import Status

STEPS = ("confirm_payment", "ship", "deliver")
"""The steps of the pipeline, in order; each records one event of the order, and a file has one time for each event."""

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
"""The statuses of an order, and how many events have certainly happened in each."""

CALLED_OFF = ("canceled", "unavailable")
"""The statuses of an order that one of the steps gives up on."""


class Trouble(StrEnum):
    """Why a generated order can never succeed."""

    DECLINED = "declined"
    """The bank declines the card: the step gives up at once."""
    SILENT = "silent"
    """The bank never answers: every attempt fails."""
    CRASHING = "crashing"
    """Printing the label kills the worker: every attempt dies."""
    UNKNOWN = "unknown"
    """The address does not exist: the step gives up at once."""

    @property
    def step(self) -> str:
        """The step in which it shows."""
        return {Trouble.CRASHING: "ship", Trouble.UNKNOWN: "deliver"}.get(self, "confirm_payment")


_SHARES = {Trouble.DECLINED: 0.03, Trouble.SILENT: 0.01, Trouble.CRASHING: 0.002, Trouble.UNKNOWN: 0.02}
"""Which part of the generated orders has each trouble."""

_CANCELED = 0.02
"""Which part of them the customer cancels before the payment."""


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """One order, from a file or generated."""

    order_id: str
    status: str
    """One of `STATUSES`."""
    times: Mapping[str, datetime] = field(default_factory=dict)
    """When the event of each step happened, by the name of the step; empty where the file does not say."""
    trouble: Trouble | None = None

    @property
    def end(self) -> tuple[str, Status]:
        """The step and status in which the pipeline must leave the order.

        A delivered order succeeds at the last step. One that was called off is ignored at the first step whose event
        had not happened by then. Any other is pending at the first step whose event has not happened yet.
        """
        if self.trouble:
            return self.trouble.step, Status.IGNORED
        if step := called_off_at(self.status, self.times):
            return step, Status.IGNORED
        done = _happened(self.status, self.times)
        return (STEPS[-1], Status.SUCCEEDED) if done == len(STEPS) else (STEPS[done], Status.PENDING)

    @property
    def steps_started(self) -> tuple[str, ...]:
        """The steps that a worker must start; an order that is pending at the end is placed there and not started."""
        step, status = self.end
        return () if status is Status.PENDING else STEPS[: STEPS.index(step) + 1]


def called_off_at(status: str, times: Collection[str]) -> str | None:
    """Return the step that gives up on a called-off order: the first that had not happened, or the last one."""
    if status not in CALLED_OFF:
        return None
    return STEPS[min(_happened(status, times), len(STEPS) - 1)]


def _happened(status: str, times: Collection[str]) -> int:
    """Return how many events have happened: all up to the last one that the status or a time proves.

    Real files have gaps, such as a delivered order without a time of delivery; a later event proves the earlier ones.
    """
    proved_by_times = (number for number, step in enumerate(STEPS, 1) if step in times)
    return max(STATUSES[status], max(proved_by_times, default=0))


def generate_orders(count: int, seed: int) -> list[PlacedOrder]:
    """Return `count` orders, always the same for the same seed; each trouble occurs at least once if there is room."""
    kinds: list[tuple[str, Trouble | None]] = [("canceled", None)] * _number(_CANCELED, count)
    for trouble, share in _SHARES.items():
        kinds += [("delivered", trouble)] * _number(share, count)
    del kinds[count // 2 :]
    kinds += [("delivered", None)] * (count - len(kinds))
    random.Random(f"orders {seed}").shuffle(kinds)  # noqa: S311 - a demo has no secrets
    width = max(4, len(str(count)))
    return [
        PlacedOrder(f"o-{number:0{width}}", status, trouble=trouble)
        for number, (status, trouble) in enumerate(kinds, 1)
    ]


def _number(share: float, count: int) -> int:
    return max(1, round(share * count))


_TIMES = {
    "order_purchase_timestamp": None,
    "order_approved_at": "confirm_payment",
    "order_delivered_carrier_date": "ship",
    "order_delivered_customer_date": "deliver",
    "order_estimated_delivery_date": None,
}
"""The columns with a time, and the step whose event happened then."""

_REQUIRED = ("order_id", "order_status")
_COLUMNS = (*_REQUIRED, "customer_id", *_TIMES)

_FORMATS = ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y")

_MOST_PROBLEMS = 20


class BadOrdersFileError(Exception):
    """A file of orders cannot be used; the message has a line for each reason."""


def read_orders(path: Path) -> list[PlacedOrder]:
    """Return the orders of a CSV file in UTF-8; BadOrdersFileError has the first problem of each line.

    The first line names the columns, in any order; only `order_id` and `order_status` are required. A time is written
    `M/D/YYYY H:MM` or as in ISO 8601, and is empty if its event never happened.
    """
    lines = _lines(path)
    header_line, header = next(lines, (1, []))
    if problem := _problem_of(header):
        raise BadOrdersFileError(f"{path}:{header_line}: {problem}")
    orders: list[PlacedOrder] = []
    line_of: dict[str, int] = {}
    problems: list[str] = []
    for number, values in lines:
        try:
            order = _order(header, values)
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        if (first := line_of.setdefault(order.order_id, number)) != number:
            also = f"order_id {order.order_id!r} is also on line {first}: write each order once"
            problems.append(f"{path}:{number}: {also}")
        orders.append(order)
    if not (orders or problems):
        problems = [f"{path}:{header_line + 1}: there is no order below the header: write one per line"]
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{path}: and {len(problems) - _MOST_PROBLEMS} more"]
    if problems:
        raise BadOrdersFileError("\n".join(problems))
    return orders


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, with their numbers; a quoted value that spans lines has that of its last."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadOrdersFileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadOrdersFileError(f"{path}:{line}: this is not UTF-8: save the file as CSV in UTF-8") from None
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for values in reader:
            if any(values):
                yield reader.line_num, [value.strip() for value in values]
    except csv.Error as error:
        raise BadOrdersFileError(f"{path}:{reader.line_num}: this is not CSV: {error}") from None


def _problem_of(header: list[str]) -> str | None:
    """Return what is wrong with the names of the columns, None if nothing is."""
    if not header:
        return f"the file is empty: its first line names the columns, {','.join(_COLUMNS)}"
    if len(header) == 1 and (mark := next((mark for mark in ";\t|" if mark in header[0]), None)):
        return f"the columns are separated by {mark!r}: separate them by commas"
    for name in header:
        if name not in _COLUMNS:
            return f"unknown column {name!r}{_hint(name, _COLUMNS)}"
        if header.count(name) > 1:
            return f"the column {name!r} occurs {header.count(name)} times: keep one"
    missing = [name for name in _REQUIRED if name not in header]
    return f"the column {missing[0]!r} is missing: every order needs one" if missing else None


def _order(header: list[str], values: list[str]) -> PlacedOrder:
    """Return the order of a line; ValueError says what is wrong with it."""
    if len(values) != len(header):
        raise ValueError(f"{len(values)} fields, but the header has {len(header)}: write all of them, empty ones too")
    found = dict(zip(header, values, strict=True))
    if not found["order_id"]:
        raise ValueError("order_id is empty: every order needs one")
    order_id, status = check_task_id(found["order_id"]), found["order_status"].lower()
    if status not in STATUSES:
        raise ValueError(f"unknown order_status {found['order_status']!r}{_hint(status, STATUSES)}")
    times = {column: _time(column, found[column]) for column in _TIMES if found.get(column)}
    return PlacedOrder(order_id, status, {step: times[name] for name, step in _TIMES.items() if step and name in times})


def _time(column: str, text: str) -> datetime:
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    for form in _FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # noqa: DTZ007 - the files name no zone, and no two times are compared
    raise ValueError(f"{column} {text!r} is not a date: write M/D/YYYY H:MM, month first, or YYYY-MM-DD HH:MM:SS")


def _hint(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known) or f"; write one of {', '.join(known)}"
