"""Durations and times as people write them; a ValueError says how to write one."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from pynamodb_tracker import clock

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
_LONGEST_SPREAD = timedelta(days=7)
_HOURS, _MINUTES = 24, 60
_DAYS = {"today": 0, "yesterday": -1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")


def length(text: str) -> timedelta:
    """Return a duration of zero or more, such as `30d`, `12h`, `45m`, `2w` or `1h30m`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: write it as 30d, 12h, 45m, 10s, 2w or 1h30m")
    try:
        return timedelta(seconds=sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"([\d.]+)([wdhms])", text)))
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def duration(text: str) -> timedelta:
    """Return a duration above zero."""
    found = length(text)
    if not found:
        raise ValueError(f"{text!r} is zero: write a longer duration")
    return found


def moment(text: str) -> datetime:
    """Return the time a duration ago, the last one at that time of day, or the time itself; without a zone, in UTC."""
    if _DURATION.fullmatch(text):
        try:
            return clock.now() - duration(text)
        except OverflowError:
            raise ValueError(f"{text!r} ago is too far in the past") from None
    return _time(text, "how long ago")


def _time(text: str, otherwise: str) -> datetime:
    if text in _DAYS:
        return _midnight() + timedelta(days=_DAYS[text])
    if (of_day := _OF_DAY.fullmatch(text)) and int(of_day[1]) < _HOURS and int(of_day[2]) < _MINUTES:
        found = _midnight() + timedelta(hours=int(of_day[1]), minutes=int(of_day[2]))
        return found if found <= clock.now() else found - timedelta(days=1)
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: write {otherwise}, as in 30d, 12h, 45m or 2w, or the time, as in 09:00, today, "
            "2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def later(text: str) -> datetime:
    """Return the time after a duration, the next one at that time of day, or the time itself; in UTC by default."""
    if not _DURATION.fullmatch(text):
        return _time(text, "how long from now") + timedelta(days=bool(_OF_DAY.fullmatch(text)))
    try:
        return clock.now() + duration(text)
    except OverflowError:
        raise ValueError(f"in {text!r} is too far in the future") from None


def end_of_pause(text: str) -> datetime:
    """Return the same, and NEVER for `resumed`: such a pause lasts until somebody ends it."""
    return clock.NEVER if text == "resumed" else later(text)


def spread(begin: datetime, a_minute: float, done: int = 0) -> Iterator[datetime]:
    """Yield due times from then on, so many a minute, behind those that are done; all of them within a week."""
    last = begin + _LONGEST_SPREAD
    for number in count(done):
        yield min(begin + timedelta(minutes=number / a_minute), last)


def _midnight() -> datetime:
    return clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
