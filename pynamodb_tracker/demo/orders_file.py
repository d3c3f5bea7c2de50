"""A file of orders: CSV with a header, read whole; everything that is wrong with it is told by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pynamodb_tracker.arguments import check_task_id, did_you_mean
from pynamodb_tracker.demo.orders import STATUSES, PlacedOrder

__all__ = ["BadOrdersFileError", "read_orders"]

_REQUIRED = ("order_id", "order_status")

_TIMES = {
    "order_approved_at": "confirm_payment",
    "order_delivered_carrier_date": "ship",
    "order_delivered_customer_date": "deliver",
}
"""The columns that tell of a step, and the step."""

_OTHER_TIMES = ("order_purchase_timestamp", "order_estimated_delivery_date")

_COLUMNS = (*_REQUIRED, "customer_id", *_OTHER_TIMES, *_TIMES)

_FORMATS = ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y")

_MOST_PROBLEMS = 20


class BadOrdersFileError(Exception):
    """A file of orders cannot be used; `problems` has a line for each reason, which names the file and its line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class _Reader:
    """Reads the lines of one file, and collects what is wrong with them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: list[str] = []
        self._lines: dict[str, int] = {}

    def orders(self) -> list[PlacedOrder]:
        """Return the orders, or raise with every problem found."""
        lines = self._records(self._text())
        number, header = next(lines, (1, None))
        if header is None:
            self._say(1, f"the file is empty: its first line names the columns, {','.join(_COLUMNS)}")
            raise self._error()
        if not self._knows(number, header):
            raise self._error()
        orders = [order for at, fields in lines if (order := self._order(at, header, fields))]
        if not (orders or self._problems):
            self._say(number + 1, "there is no order below the header: write one a line")
        if self._problems:
            raise self._error()
        return orders

    def _say(self, line: int, problem: str) -> None:
        self._problems.append(f"{self._path}:{line}: {problem}")

    def _error(self) -> BadOrdersFileError:
        shown, more = self._problems[:_MOST_PROBLEMS], len(self._problems) - _MOST_PROBLEMS
        return BadOrdersFileError([*shown, f"{self._path}: and {more} more"] if more > 0 else shown)

    def _text(self) -> str:
        try:
            raw = self._path.read_bytes()
        except OSError as error:
            raise BadOrdersFileError([f"{self._path}: cannot be read: {error.strerror}"]) from None
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._say(raw.count(b"\n", 0, error.start) + 1, "this is not UTF-8: save the file as CSV in UTF-8")
            raise self._error() from None

    def _records(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield each record with the line that it begins on; a quoted field may go over several."""
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        before = 0
        try:
            for record in reader:
                if record and (len(record) > 1 or record[0].strip()):
                    yield before + 1, [field.strip() for field in record]
                before = reader.line_num
        except csv.Error as error:
            self._say(before + 1, f"this is not CSV: {error}")

    def _knows(self, line: int, header: Sequence[str]) -> bool:
        if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), None)):
            self._say(line, f"the columns are separated by {other!r}: separate them by commas")
            return False
        for name in header:
            if name not in _COLUMNS:
                hint = did_you_mean(name, _COLUMNS) or f"; the columns are {', '.join(_COLUMNS)}"
                self._say(line, f"unknown column {name!r}{hint}")
        for name in dict.fromkeys(name for name in header if header.count(name) > 1):
            self._say(line, f"the column {name!r} is there {header.count(name)} times: keep one")
        for name in _REQUIRED:
            if name not in header:
                self._say(line, f"the column {name!r} is missing: every order needs one")
        return not self._problems

    def _order(self, line: int, header: Sequence[str], fields: Sequence[str]) -> PlacedOrder | None:
        """Return the order of a line, or None if something is wrong with it."""
        if len(fields) != len(header):
            self._say(line, f"{len(fields)} fields, where the header has {len(header)}: write all, empty ones too")
            return None
        found, known = dict(zip(header, fields, strict=True)), len(self._problems)
        order_id, status = found["order_id"], found["order_status"].lower()
        self._check_id(line, order_id)
        if status not in STATUSES:
            hint = did_you_mean(status, STATUSES) or f"; write one of {', '.join(STATUSES)}"
            self._say(line, f"unknown order_status {found['order_status']!r}{hint}")
        times = self._times(line, found)
        if len(self._problems) > known:
            return None
        return PlacedOrder(
            order_id=order_id,
            status=status,
            times={step: times[column] for column, step in _TIMES.items() if column in times},
        )

    def _check_id(self, line: int, order_id: str) -> None:
        if not order_id:
            self._say(line, "order_id is empty: every order needs one")
            return
        if order_id in self._lines:
            self._say(line, f"order_id {order_id!r} is also on line {self._lines[order_id]}: write each order once")
        self._lines.setdefault(order_id, line)
        try:
            check_task_id(order_id)
        except ValueError as error:
            self._say(line, f"order_id: {error}")

    def _times(self, line: int, found: Mapping[str, str]) -> dict[str, datetime]:
        """Return the times of a line by column; a time that never came is empty, and left out."""
        times = {}
        for column in (*_TIMES, *_OTHER_TIMES):
            if text := found.get(column):
                try:
                    times[column] = _time(text)
                except ValueError:
                    self._say(
                        line, f"{column} {text!r} is no date: write M/D/YYYY H:MM, month first, or YYYY-MM-DD HH:MM:SS"
                    )
        return times


def _time(text: str) -> datetime:
    if text[4:5] == "-":
        return datetime.fromisoformat(text)
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - the files name no zone, and no two times are compared
        except ValueError:
            continue
    raise ValueError(text)


def read_orders(path: Path) -> list[PlacedOrder]:
    """Return the orders of a CSV file; BadOrdersFileError says what is wrong with it, line by line.

    Columns may be left out, but for `order_id` and `order_status`, and come in any order; a time is written
    `M/D/YYYY H:MM` or as in ISO 8601, and is empty where its event never came.
    """
    return _Reader(path).orders()
