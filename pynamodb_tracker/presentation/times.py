"""Parse durations and times that people write. Errors say how to write one."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count

from pynamodb_tracker import clock

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
_LONGEST_SPREAD = timedelta(days=7)
_HOURS, _MINUTES = 24, 60
_DAYS = {"today": 0, "yesterday": -1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")


def length(text: str) -> timedelta:
    """Parse a duration of zero or more, such as `30d`, `12h`, `45m`, `2w` or `1h30m`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: write it as 30d, 12h, 45m, 10s, 2w or 1h30m")
    try:
        return timedelta(seconds=sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"([\d.]+)([wdhms])", text)))
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def duration(text: str) -> timedelta:
    found = length(text)
    if not found:
        raise ValueError(f"{text!r} is zero: write a longer duration")
    return found


def is_local(text: str) -> bool:
    """Return whether a time depends on the writer's time zone."""
    return text in _DAYS or _OF_DAY.fullmatch(text) is not None


def moment(text: str, zone: tzinfo | None = UTC) -> datetime:
    """Parse a duration before now, a past time of day in `zone`, or a time in UTC. None is this machine's zone."""
    if _DURATION.fullmatch(text):
        try:
            return clock.now() - duration(text)
        except OverflowError:
            raise ValueError(f"{text!r} ago is too far in the past") from None
    return _parse_time(text, "how long ago", zone)


def _parse_time(text: str, otherwise: str, zone: tzinfo | None, *, is_later: bool = False) -> datetime:
    today = clock.now().astimezone(zone).replace(tzinfo=zone)

    def at(days: int, hours: int = 0, minutes: int = 0) -> datetime:
        day = (today + timedelta(days=days)).replace(hour=hours, minute=minutes, second=0, microsecond=0)
        return day.astimezone(UTC)

    if text in _DAYS:
        return at(_DAYS[text])
    if (of_day := _OF_DAY.fullmatch(text)) and int(of_day[1]) < _HOURS and int(of_day[2]) < _MINUTES:
        found = at(0, int(of_day[1]), int(of_day[2]))
        if (found > clock.now()) == is_later:
            return found
        return at(1 if is_later else -1, int(of_day[1]), int(of_day[2]))
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: write {otherwise}, as in 30d, 12h, 45m or 2w, or the time, as in 09:00, today, "
            "2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def later(text: str, zone: tzinfo | None = UTC) -> datetime:
    """Parse a duration from now, a future time of day in `zone`, or a time, like `moment`."""
    if not _DURATION.fullmatch(text):
        return _parse_time(text, "how long from now", zone, is_later=True)
    try:
        return clock.now() + duration(text)
    except OverflowError:
        raise ValueError(f"in {text!r} is too far in the future") from None


def end_of_pause(text: str, zone: tzinfo | None = UTC) -> datetime:
    """Parse a time like `later`. `resumed` or nothing is NEVER."""
    return clock.NEVER if text in ("", "resumed") else later(text.removeprefix("until ").strip(), zone)


def spread(begin: datetime, a_minute: float, done: int = 0) -> Iterator[datetime]:
    """Yield due times at this rate within a week, starting after the first `done` ones."""
    last = begin + _LONGEST_SPREAD
    for number in count(done):
        yield min(begin + timedelta(minutes=number / a_minute), last)
