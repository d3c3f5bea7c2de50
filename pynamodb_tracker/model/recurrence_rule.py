"""Checks recurrence rules (RRULE) as in RFC 5545. dateutil computes their occurrences."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain

from pynamodb_tracker.model.arguments import did_you_mean

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAYS_OF = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}  # that dateutil looks at for one step

_LIMITS = {
    "BYMONTH": (1, 12),
    "BYWEEKNO": (-53, 53),
    "BYYEARDAY": (-366, 366),
    "BYMONTHDAY": (-31, 31),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
    "BYSETPOS": (-366, 366),
}

_KEYS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_LIMITS)
_MOST_TIMES = 50_000  # that dateutil may look at for one step, which takes 5 ms
_BYDAY = re.compile(rf"([+-]?\d{{1,2}})?({'|'.join(_WEEKDAYS)})")
_UNTIL = re.compile(r"\d{8}T\d{6}Z?")
_ELSEWHERE = {
    "DTSTART": "pass it as start=",
    "RDATE": "a rule cannot contain single dates",
    "EXDATE": "a rule cannot contain exceptions",
    "EXRULE": "a rule cannot contain exceptions",
}

_DAYS_IN_WEEKS = {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"}
_CYCLE, _LAST_YEAR = 400, 9899  # the calendar repeats every 400 years, including weekdays


def with_full_hours(text: str) -> str:
    """Add BYMINUTE=0 and BYSECOND=0 to a rule with BYHOUR or BYMINUTE."""
    text = _strip_prefix(text)
    given = {part.strip().partition("=")[0] for part in text.split(";")}
    added = [f"{key}=0" for key in ("BYMINUTE", "BYSECOND") if key not in given]
    return ";".join([text, *added]) if {"BYHOUR", "BYMINUTE"} & given else text


def _strip_prefix(text: str) -> str:
    return text.strip().upper().removeprefix("RRULE:").strip(";")


class RecurrenceRule:
    def __init__(self, given: str) -> None:
        self.text = _strip_prefix(given)
        try:
            parts = _parts(self.text)
            _check(parts)
            self.count = int(parts.pop("COUNT")) if "COUNT" in parts else None
            self._until = datetime.fromisoformat(parts.pop("UNTIL")) if "UNTIL" in parts else None  # naive: wall clock
        except ValueError as error:
            raise ValueError(f"the rule {given!r} cannot be read: {error}") from None
        self._parts = {**parts, "BYDAY": _number_all_days(parts)} if "BYDAY" in parts else parts

    def occurrences(self, anchor: datetime, low: datetime) -> Iterator[tuple[int, datetime]]:
        """Yield wall-clock times from `low` on, each with the number of occurrences since `anchor`.

        The anchor serves as DTSTART: it sets the phase of INTERVAL and supplies missing parts, such as the time of day.
        It is the last occurrence, because dateutil iterates over all since then. It is moved to a late year by whole
        calendar cycles, because dateutil searches until the year 9999.
        """
        from dateutil.rrule import rrulestr  # noqa: PLC0415 - few tasks need it

        anchor = self._move_anchor(anchor, low)
        shift = (_LAST_YEAR - anchor.year) // _CYCLE * _CYCLE
        first = start = anchor.replace(year=anchor.year + shift)
        parts = self._parts
        if parts["FREQ"] == "WEEKLY" and "BYSETPOS" in parts:  # dateutil's first week would begin at DTSTART
            start -= timedelta(days=(first.weekday() - _WEEKDAYS.index(parts.get("WKST", "MO"))) % 7)
            if parts.keys().isdisjoint(_DAYS_IN_WEEKS):
                parts = parts | {"BYDAY": _WEEKDAYS[first.weekday()]}
        text = ";".join(f"{key}={value}" for key, value in parts.items())
        found = (wall for wall in rrulestr(text, dtstart=start) if wall >= first)
        for passed, wall in enumerate(found):
            real = wall.replace(year=wall.year - shift)
            if real >= low:
                yield passed, real

    def _move_anchor(self, anchor: datetime, low: datetime) -> datetime:
        """Return an anchor with the same phase near `low`, unless the rule has COUNT."""
        days = {"DAILY": 1, "WEEKLY": 7}.get(self._parts["FREQ"])
        if days is None or self.count is not None or low <= anchor:
            return anchor
        period = days * int(self._parts.get("INTERVAL", 1)) * timedelta(days=1)
        return anchor + (low - anchor) // period * period

    def is_over(self, number: int, wall: datetime, time: datetime) -> bool:
        """Return whether COUNT or UNTIL ends the rule before this occurrence."""
        if self.count is not None and number > self.count:
            return True
        if self._until is None:
            return False
        return wall > self._until if self._until.tzinfo is None else time > self._until


def _parts(text: str) -> dict[str, str]:
    if "\n" in text:
        raise ValueError("it has several lines: pass one rule, and its DTSTART as start=")
    parts: dict[str, str] = {}
    for part in text.split(";"):
        key, equals, value = part.strip().partition("=")
        name = key.partition(":")[0]
        if name in _ELSEWHERE:
            raise ValueError(f"it has {name}: {_ELSEWHERE[name]}")
        if key not in _KEYS or not equals:
            raise ValueError(f"{part!r} is not a part of a rule{did_you_mean(key, _KEYS)}")
        if key in parts:
            raise ValueError(f"it has {key} twice")
        parts[key] = value.strip()
    return parts


def _check(parts: dict[str, str]) -> None:
    frequency = parts.get("FREQ")
    if frequency in ("HOURLY", "MINUTELY", "SECONDLY"):
        raise ValueError(f"FREQ={frequency} is not supported: write Repeat.every(timedelta(...))")
    if frequency not in _DAYS_OF:
        raise ValueError(f"FREQ is one of {', '.join(_DAYS_OF)}, not {frequency}")
    _check_bounds(parts)
    if parts.get("WKST", "MO") not in _WEEKDAYS:
        raise ValueError(f"WKST is one of {', '.join(_WEEKDAYS)}, not {parts['WKST']!r}")
    for day in parts["BYDAY"].split(",") if "BYDAY" in parts else ():
        _check_day(day, frequency)
    for key, (lowest, highest) in _LIMITS.items():
        for number in parts[key].split(",") if key in parts else ():
            if not _is_number(number) or not lowest <= int(number) <= highest or (lowest and not int(number)):
                raise ValueError(
                    f"{key} has {number!r}: it takes numbers from {lowest} to {highest}{' but 0' if lowest < 0 else ''}"
                )
    times = _DAYS_OF[frequency]
    for key in ("BYHOUR", "BYMINUTE", "BYSECOND"):
        times *= len(parts[key].split(",")) if key in parts else 1
    if times > _MOST_TIMES:
        raise ValueError(f"FREQ={frequency} with so many times a day is slow: write FREQ=DAILY, or Repeat.every(...)")


def _check_bounds(parts: dict[str, str]) -> None:
    for key in ("INTERVAL", "COUNT"):
        if key in parts and not (_is_number(parts[key]) and int(parts[key]) > 0):
            raise ValueError(f"{key} is a whole number from 1 to {_HIGHEST:,}, not {parts[key]!r}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ValueError("it has both COUNT and UNTIL: leave one out")
    if "UNTIL" in parts and not _UNTIL.fullmatch(parts["UNTIL"]):
        raise ValueError(f"UNTIL={parts['UNTIL']} is not a time: write UNTIL=20261231T235959, or with Z for UTC")


def _check_day(day: str, frequency: str) -> None:
    found = _BYDAY.fullmatch(day)
    if found is None:
        raise ValueError(
            f"BYDAY has {day!r}: it takes {', '.join(_WEEKDAYS)}, also with a number, such as 1MO and -1FR"
        )
    if found[1] and (frequency not in ("MONTHLY", "YEARLY") or int(found[1]) == 0):
        raise ValueError(f"BYDAY has {day!r}: a number needs FREQ=MONTHLY or FREQ=YEARLY, and is not 0")


def _number_all_days(parts: dict[str, str]) -> str:
    """Give each day a number if any has one, because dateutil requires days of both kinds to match together.

    FR without a number means each Friday in the month or, in a yearly rule without months, in the year.
    """
    days = parts["BYDAY"].split(",")
    if all(day in _WEEKDAYS for day in days) or not any(day in _WEEKDAYS for day in days):
        return parts["BYDAY"]
    most = 53 if parts["FREQ"] == "YEARLY" and "BYMONTH" not in parts else 5
    each = ([f"{number}{day}" for number in range(1, most + 1)] if day in _WEEKDAYS else [day] for day in days)
    return ",".join(chain.from_iterable(each))


_HIGHEST = 999_999


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,6}", text, re.ASCII) is not None
