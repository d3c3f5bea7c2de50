"""Text, numbers and times for people. Stored text cannot control a terminal or a browser."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from pynamodb_tracker import clock

_JOINER = "\u200d"
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINER_OF_OTHERS = re.compile(f"(?<![{_EMOJI}]){_JOINER}|{_JOINER}(?![{_EMOJI}])")


def escaped(text: str) -> str:
    r"""Return untrusted text on one line, with unprintable characters as in `\x1b`.

    These include line breaks and marks that change the writing direction. Joiners in emojis stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == _JOINER else each.encode("unicode_escape").decode()
        for each in _JOINER_OF_OTHERS.sub(r"\\u200d", text)
    )


def count(number: int, noun: str = "task") -> str:
    """Return a number with its noun: `1 task`, `10,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def age(length: timedelta) -> str:
    """Return a duration in its one or two largest units, as options take it: `3d4h`, `45m`, `12s`."""
    left = max(int(length.total_seconds()), 0)
    for (unit, size), (smaller, part) in pairwise(_UNITS):
        if left >= size:
            rest = left % size // part
            return f"{left // size}{unit}" + (f"{rest}{smaller}" if rest and left < 10 * size else "")
    return f"{left}s"


_BETWEEN_UNITS = re.compile(r"(?<=[dhms])(?=\d)")


def span(length: timedelta) -> str:
    """Return a duration for people: `1d 17h`, `45m`."""
    return _BETWEEN_UNITS.sub(" ", age(length))


def took_in_words(length: timedelta) -> str:
    """Return how long something took, rounded: `1.7s`, `45m`."""
    seconds = length.total_seconds()
    if seconds < 10:  # noqa: PLR2004 - below, a tenth matters
        return f"{seconds:.1f}s"
    step = next(
        (part if seconds < 10 * size else size for (_, size), (_, part) in pairwise(_UNITS) if seconds >= size), 1
    )
    return span(timedelta(seconds=round(seconds / step) * step))


def between(time: datetime, now: datetime | None = None) -> str:
    """Return how far a time is from now: `in 4m`, or `3d 4h ago`."""
    away = time - (now or clock.now())
    return f"in {span(away)}" if away > timedelta(0) else f"{span(-away)} ago"


def moment(time: datetime) -> str:
    return f"{clock.in_words(time)}, {between(time)}"


def clock_time(time: datetime, zone: tzinfo | None = UTC) -> str:
    """Return a time of day in a zone, with the date if that is not today. None is this machine's zone."""
    here, today = time.astimezone(zone), clock.now().astimezone(zone).date()
    return f"{here:{'%H:%M' if here.date() == today else '%Y-%m-%d %H:%M'} %Z}"


def stamp(time: datetime) -> str:
    """Return a time for programs, in ISO 8601 and UTC."""
    return time.astimezone(UTC).isoformat()
