"""Parses cron expressions with five fields, and finds their times on the wall clock."""

import calendar
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

_SHORT_FORMS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {name.upper(): (number + 1) % 7 for number, name in enumerate(calendar.day_abbr)}

_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _WEEKDAYS),
)

_PART = re.compile(r"(?P<low>\*|\?|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\d+))?")
_LAST_DAY = 32  # stands for L
_SEARCHED_YEARS = 50  # Within 40 years, 29 February falls on each weekday, even around 2100


class CronExpression:
    def __init__(self, given: str) -> None:
        text = _SHORT_FORMS.get(given.strip().lower(), given)
        fields = text.upper().split()
        if len(fields) != len(_FIELDS):
            raise ValueError(
                f"the cron expression {given!r} has {len(fields)} fields: write minute, hour, day of month, month and "
                f"day of week, such as '30 2 * * MON-FRI', or one of {', '.join(_SHORT_FORMS)}"
            )
        self.text = " ".join(fields)
        try:
            minutes, hours, self._days, self._months, weekdays = (
                {number for part in field.split(",") for number in _parse_part(part, *about)}
                for field, about in zip(fields, _FIELDS, strict=True)
            )
        except ValueError as error:
            raise ValueError(f"the cron expression {given!r} cannot be read: {error}") from None
        self._times = [time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
        self._weekdays = {(day - 1) % 7 for day in weekdays}
        self._either_day = fields[2][0] not in "*?" and fields[4][0] not in "*?"

    def occurrences(self, anchor: datetime, low: datetime) -> Iterator[tuple[int, datetime]]:  # noqa: ARG002 - a recurrence rule needs it
        """Yield wall-clock times from `low` on, each with 0, because they are not counted. Stop after 50 empty years.

        The anchor does not matter.
        """
        day, earliest, last_year = low.date(), low.time(), low.year + _SEARCHED_YEARS
        while day.year <= last_year:
            if day.month not in self._months:
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)  # the first of the next month
            else:
                if self._has_day(day):
                    last_year = day.year + _SEARCHED_YEARS
                    yield from ((0, datetime.combine(day, at)) for at in self._times if at >= earliest)
                day += timedelta(days=1)
            earliest = time(0)

    def _has_day(self, day: date) -> bool:
        is_last = _LAST_DAY in self._days and day.day == calendar.monthrange(day.year, day.month)[1]
        in_month, in_week = day.day in self._days or is_last, day.weekday() in self._weekdays
        return in_month or in_week if self._either_day else in_month and in_week


def _parse_part(part: str, name: str, lowest: int, highest: int, names: dict[str, int]) -> range:
    if part == "L" and name == "day of month":
        return range(_LAST_DAY, _LAST_DAY + 1)
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(
            f"{part!r} is not a valid {name}: write *, a number, a range such as 1-5, or steps such as */2"
        )
    low, high, step = found["low"], found["high"], found["step"]
    if low in "*?":
        if high:
            raise ValueError(f"{part!r} is not a valid {name}: a range has two numbers")
        first, last = lowest, highest
    else:
        first = _parse_number(low, name, lowest, highest, names)
        last = _parse_number(high, name, lowest, highest, names) if high else highest if step else first
        if last < first and name == "day of week" and last == 0:
            last = 7  # the range ends on a Sunday
    if last < first:
        raise ValueError(f"{part!r} goes backwards for the {name}: write {low}-{highest},{lowest}-{high}")
    if step and int(step) == 0:
        raise ValueError(f"{part!r} has steps of 0 for the {name}")
    return range(first, last + 1, int(step or 1))


def _parse_number(text: str, name: str, lowest: int, highest: int, names: dict[str, int]) -> int:
    number = names[text] if text in names else int(text) if text.isdecimal() and text.isascii() else -1
    if not lowest <= number <= highest:
        known = f", or {'/'.join(names)}" if names else ""
        raise ValueError(f"{text!r} is not a valid {name}: it is from {lowest} to {highest}{known}")
    return number
