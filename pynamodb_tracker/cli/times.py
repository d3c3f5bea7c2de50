"""Times and durations as people write them, `30d` or `2026-01-31T12:00`, and rates as in `50/s`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import typer

from pynamodb_tracker import clock

__all__ = ["age", "between", "duration", "length", "moment", "rate", "seconds", "stamp"]

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SLOWEST, _FASTEST = 0.001, 1_000_000
"""Starts in a second that a batch can keep to."""


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `30d`, `12h`, `45m`, `2w` or `1h30m`."""
    if not _DURATION.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no duration: write it as 30d, 12h, 45m, 10s, 2w or 1h30m")
    return sum(float(part[:-1]) * _SECONDS[part[-1]] for part in re.findall(r"[\d.]+[wdhms]", text))


def length(text: str) -> timedelta:
    """Return a duration, of zero or more."""
    try:
        return timedelta(seconds=seconds(text))
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is longer than the calendar") from None


def duration(text: str) -> timedelta:
    """Return a duration above zero."""
    found = length(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is no time at all: write more than zero")
    return found


def moment(text: str) -> datetime:
    """Return the time that long ago, or the time itself; one without a zone is in UTC."""
    if _DURATION.fullmatch(text):
        try:
            return clock.now() - duration(text)
        except OverflowError:
            raise typer.BadParameter(f"{text!r} ago is before the calendar") from None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no time: write how long ago, as 30d, 12h, 45m or 2w, or the time, as 2026-01-31 or "
            "2026-01-31T12:00:00Z"
        ) from None


def rate(text: str) -> float:
    """Return starts in a second."""
    found = _RATE.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is no rate: write it as 50/s, 10/m or 100/h")
    a_second = float(found[1]) / _SECONDS[found[2] or "s"]
    if not _SLOWEST <= a_second <= _FASTEST:
        raise typer.BadParameter(f"{text!r} is not between 4/h and {_FASTEST}/s")
    return a_second


def age(length: timedelta) -> str:
    """Return a duration in its largest unit or two, as `moment` reads it: `3d4h`, `45m`, `12s`."""
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
    """Return a time for programs."""
    return None if time is None else time.astimezone(UTC).isoformat()
