"""Times and durations as people write them, `30d` or `2026-01-31T12:00`, and rates as in `50/s`."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import typer

from pynamodb_tracker import clock

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SLOWEST, _FASTEST = 0.001, 1_000_000
"""Limits of a rate, in starts per second."""


def length(text: str) -> timedelta:
    """Return a duration of zero or more, such as `30d`, `12h`, `45m`, `2w` or `1h30m`."""
    if not _DURATION.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not a duration: write it as 30d, 12h, 45m, 10s, 2w or 1h30m")
    try:
        return timedelta(seconds=sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"([\d.]+)([wdhms])", text)))
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long") from None


def duration(text: str) -> timedelta:
    """Return a duration above zero."""
    found = length(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is zero: write a longer duration")
    return found


def moment(text: str) -> datetime:
    """Return the time a duration ago, or the time itself; one without a zone is in UTC."""
    if _DURATION.fullmatch(text):
        try:
            return clock.now() - duration(text)
        except OverflowError:
            raise typer.BadParameter(f"{text!r} ago is too far in the past") from None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time: write how long ago, as in 30d, 12h, 45m or 2w, or the time, as in 2026-01-31 or "
            "2026-01-31T12:00:00Z"
        ) from None


def rate(text: str) -> float:
    """Return a rate in starts per second."""
    found = _RATE.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a rate: write it as 50/s, 10/m or 100/h")
    a_second = float(found[1]) / _SECONDS[found[2] or "s"]
    if not _SLOWEST <= a_second <= _FASTEST:
        raise typer.BadParameter(f"{text!r} is not between 4/h and {_FASTEST}/s")
    return a_second


def age(length: timedelta) -> str:
    """Return a duration in its one or two largest units, as `moment` reads it: `3d4h`, `45m`, `12s`."""
    left = max(int(length.total_seconds()), 0)
    units = list(_SECONDS.items())[1:]
    for (unit, size), (smaller, part) in pairwise(units):
        if left >= size:
            rest = left % size // part
            return f"{left // size}{unit}" + (f"{rest}{smaller}" if rest and left < 10 * size else "")
    return f"{left}s"


def between(time: datetime) -> str:
    """Return how far a time is from now: `in 4m`, or `3d ago`."""
    away = time - clock.now()
    return f"in {age(away)}" if away > timedelta(0) else f"{age(-away)} ago"


def stamp(time: datetime | None) -> str | None:
    """Return a time as programs read it, in ISO 8601 and UTC."""
    return None if time is None else time.astimezone(UTC).isoformat()
