"""Repeating tasks: the rule, its occurrences, and how the last run ended."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import count
from typing import Any, Literal, NamedTuple, Self, TypeVar
from zoneinfo import ZoneInfo

from pynamodb_tracker import clock
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import check_duration, check_flags, check_time, shown
from pynamodb_tracker.model.cron import CronExpression
from pynamodb_tracker.model.recurrence_rule import RecurrenceRule, with_full_hours

R = TypeVar("R", bound="Repeat")
_SHORTEST = timedelta(seconds=1)
_LONGEST_RULE = 4000  # characters; one with all days, hours and minutes is shorter
_LONGEST_GAP = timedelta(hours=25)  # where a zone moved across the date line
_MOMENT = timedelta(microseconds=1)

OUTCOMES = ("succeeded", "failed", "skipped", "ignored", "cancelled")
""""skipped" means that a later run found no attempt left."""


class Occurrence(NamedTuple):
    time: datetime  # in the rule's zone, with a fixed UTC offset: in a gap of the clocks, the previous one
    number: int | None  # from 1, including missed occurrences. None for a rule without COUNT.


@dataclass(frozen=True, repr=False)
class Repeat:
    """When a task runs again. Create a rule with `cron`, `rrule` or `every`.

    A repeating task has one row, so its runs never overlap. After its last step succeeds, or its last attempt fails, it
    is pending at its first step again, due at the next occurrence. With `stop_on_failure`, a task whose last attempt
    fails is ignored instead. After the last occurrence, the task has succeeded.

    `missed` decides about occurrences that passed before the task could run: with "latest", the task runs once, for the
    latest of them. With "all", it runs once for each of them, in order. A worker with a fast clock treats occurrences
    before its own time as missed.

    `cron` and `rrule` use the wall clock of the zone `tz`. A time that the clocks skip moves by the length of the gap.
    If a time occurs twice, the first one counts. An occurrence that is then not later than the previous one is left
    out: when clocks go back, `*/5 * * * *` does not occur for 65 minutes. For a task that runs all day, use `every` or
    UTC.
    """

    kind: Literal["cron", "rrule", "every"]
    expression: str
    """The rule as text. For `every`, the seconds."""
    _: KW_ONLY
    tz: str = "UTC"
    """The name of the rule's time zone."""
    start: datetime | None = None
    """When the rule starts, in its zone. None unless it was given."""
    missed: Literal["latest", "all"] = "latest"
    """Which missed occurrences the task runs for."""
    stop_on_failure: bool = False
    """Whether a failed last attempt ends the repetition."""
    since: datetime | None = field(default=None, compare=False)
    """When a task got this rule. A rule without `start` starts then. Not part of equality."""

    @classmethod
    def cron(
        cls,
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Literal["latest", "all"] = "latest",
        stop_on_failure: bool = False,
    ) -> Self:
        """Repeat by a cron expression.

        Args:
            expression: Minute, hour, day of month, month and day of week. A field takes numbers, names such as JAN and
                MON, lists, ranges, steps such as */15, and L for the last day of a month. `@daily` and similar names
                work, too. Sunday is 0 or 7. If you give both a day of month and a day of week, either is enough. If one
                of the two fields begins with `*`, such as `*/10`, both must match.
            tz: The time zone of the expression.
            missed: Which missed occurrences the task runs for.
            stop_on_failure: Whether a failed last attempt ends the repetition.

        Raises:
            ValueError: The expression cannot be read, or it never occurs.

        Examples:
            >>> Order.create("o-5", repeat=Repeat.cron("0 2 * * *", tz="Europe/Berlin"))
        """
        return _checked_to_occur(
            cls._checked("cron", expression, tz=tz, missed=missed, stop_on_failure=stop_on_failure)
        )

    @classmethod
    def rrule(
        cls,
        text: str,
        *,
        tz: str | ZoneInfo = "UTC",
        start: datetime | None = None,
        missed: Literal["latest", "all"] = "latest",
        stop_on_failure: bool = False,
    ) -> Self:
        """Repeat by a recurrence rule of RFC 5545, such as `FREQ=MONTHLY;BYDAY=1MO;BYHOUR=9`.

        https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10

        Args:
            text: The rule, without DTSTART. FREQ is DAILY, WEEKLY, MONTHLY or YEARLY. For less than a day, use `every`,
                or BYHOUR and BYMINUTE. Missed occurrences count toward COUNT.
            tz: The time zone of the rule.
            start: The DTSTART, an aware time. INTERVAL and COUNT count from it, and it supplies the parts that the rule
                leaves out, such as the time of day. By default, the time at which a task gets the rule. In that case,
                BYHOUR=9 means the full hour.
            missed: Which missed occurrences the task runs for.
            stop_on_failure: Whether a failed last attempt ends the repetition.

        Raises:
            ValueError: The rule cannot be read, contains DTSTART, or never occurs.

        Examples:
            >>> Order.create("o-5", repeat=Repeat.rrule("FREQ=MONTHLY;BYDAY=1MO"))
        """
        return _checked_to_occur(
            cls._checked("rrule", text, tz=tz, start=start, missed=missed, stop_on_failure=stop_on_failure)
        )

    @classmethod
    def every(
        cls,
        period: timedelta,
        *,
        start: datetime | None = None,
        missed: Literal["latest", "all"] = "latest",
        stop_on_failure: bool = False,
    ) -> Self:
        """Repeat after this much elapsed time. Clock changes do not matter.

        Args:
            period: At least a second.
            start: When the first period starts, an aware time. By default, when a task gets the rule.
            missed: Which missed occurrences the task runs for.
            stop_on_failure: Whether a failed last attempt ends the repetition.

        Examples:
            >>> Order.create("o-5", repeat=Repeat.every(timedelta(minutes=5)))
        """
        seconds = f"{check_duration('period', period).total_seconds():.6f}".rstrip("0").rstrip(".")
        return cls._checked("every", seconds, start=start, missed=missed, stop_on_failure=stop_on_failure)

    @classmethod
    def _checked(
        cls,
        kind: Literal["cron", "rrule", "every"],
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        start: datetime | None = None,
        missed: Literal["latest", "all"] = "latest",
        stop_on_failure: bool = False,
    ) -> Self:
        if not isinstance(expression, str):
            raise TypeError(f"a rule is text, not {shown(expression)}")
        if missed not in ("latest", "all"):
            raise ValueError(f"missed is 'latest' or 'all', not {shown(missed)}")
        check_flags(stop_on_failure=stop_on_failure)
        if kind == "rrule" and start is None:
            expression = with_full_hours(expression)
        given: object = tz
        name = "UTC" if given is UTC else tz if isinstance(tz, str) else getattr(tz, "key", None)
        if not isinstance(name, str):
            raise TypeError(f"tz is the name of a zone, such as 'Europe/Berlin', not {shown(tz)}")
        zone, start = _zone(name), check_time("start", start)
        try:
            start = None if start is None else start.replace(microsecond=0).astimezone(zone)
        except OverflowError:
            raise ValueError(f"start={start!r} is outside the years 1 to 9999 in {name}") from None
        text = _rule(kind, expression).text
        return cls(kind, text, tz=name, start=start, missed=missed, stop_on_failure=stop_on_failure)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the stored form. Raise ValueError if this version cannot read it."""
        try:
            stored = json.loads(text)
            options = {name: stored.pop(name) for name in ("tz", "missed", "stop_on_failure") if name in stored}
            times = {name: datetime.fromisoformat(stored.pop(name)) for name in ("start", "since") if name in stored}
            [(kind, expression)] = stored.items()
            read = cls._checked(kind, expression, start=times.get("start"), **options)
            return replace(read, since=check_time("since", times.get("since")))
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the rule {shown(text)} cannot be read: {error}") from error

    def to_json(self) -> str:
        """Return the stored form."""
        stored: dict[str, Any] = {self.kind: self.expression}
        if self.tz != "UTC":
            stored["tz"] = self.tz
        for name in ("start", "since"):
            if (time := getattr(self, name)) is not None:
                stored[name] = time.isoformat()
        if self.missed != "latest":
            stored["missed"] = self.missed
        if self.stop_on_failure:
            stored["stop_on_failure"] = True
        return strict_json.dumps(stored, separators=(",", ":"))

    def begun(self, at: datetime) -> Self:
        """Return the rule for a task that gets it at this time."""
        return replace(self, since=at.astimezone(UTC).replace(microsecond=0))

    def first(self, at: datetime) -> Occurrence | None:
        """Return the first occurrence at or after a time, to the second, or None if there is none.

        Examples:
            >>> assert Repeat.every(timedelta(hours=1)).first(datetime.now(UTC))
        """
        at = at.replace(microsecond=0)
        return self._next(_wall_of(self.start or self.since or at, self.zone), 1, at - _MOMENT)

    def after(self, last: datetime, number: int | None, now: datetime) -> Occurrence | None:
        """Return the occurrence to run after the `last` one, which has this `number`, or None if there is none."""
        if self.missed == "all":
            return self.beyond(last, number, last)
        return self.latest(last, number, now) or self.beyond(last, number, max(last, now))

    def latest(self, last: datetime, number: int | None, now: datetime) -> Occurrence | None:
        """Return the latest occurrence after the `last` one that has passed by `now`, or None.

        The moment at which the task got the rule does not count: the task was at another occurrence then.
        """
        found, high = None, now
        following = self.beyond(last, number, max(last, self.since or last))
        while following is not None and following.time <= high:  # it is the latest one, or that is in between
            found, middle = following, following.time + (high - following.time) / 2
            following = self.beyond(*found, middle)
            if following is None or following.time > high:
                high, following = middle, self.beyond(*found, found.time)
        return found

    def beyond(self, last: datetime, number: int | None, time: datetime) -> Occurrence | None:
        """Return the first occurrence after the `last` one that is later than a time, or None if there is none.

        If the last one is from before the task had this rule, the rule counts from its start.
        """
        if self.since is not None and last < self.since:
            return self._next(_wall_of(self.start or self.since, self.zone), 1, max(time, self.since - _MOMENT))
        return self._next(last.replace(tzinfo=None), number or 1, time)

    @property
    def zone(self) -> tzinfo:
        """The rule's time zone."""
        return _zone(self.tz)

    def _next(self, anchor: datetime, number: int, beyond: datetime) -> Occurrence | None:
        """Return the first occurrence later than `beyond`. The one at `anchor`, a wall-clock time, has this number."""
        rule, zone = _rule(self.kind, self.expression), self.zone
        with suppress(OverflowError):  # the years of datetime end
            # After a clock change, an occurrence after `beyond` may have an earlier wall-clock time.
            low = min(_wall_of(beyond, zone), _wall_of(beyond - _LONGEST_GAP, zone) + _LONGEST_GAP)
            for passed, wall in rule.occurrences(anchor, low):
                # The offset before a gap of the clocks, or the one of the first of two equal times.
                time = wall.replace(tzinfo=timezone(wall.replace(tzinfo=zone).utcoffset() or timedelta(0)))
                counted = rule if isinstance(rule, RecurrenceRule) else None
                if counted is not None and counted.is_over(number + passed, wall, time):
                    return None
                if time > beyond:
                    return Occurrence(time, None if counted is None or counted.count is None else number + passed)
        return None

    def __str__(self) -> str:
        if self.kind == "every":
            text = f"every {timedelta(seconds=float(self.expression))}".removesuffix(", 0:00:00")
        else:
            text = f"{self.expression} in {self.tz}"
        text += "" if self.start is None else f" from {self.start}"
        text += ", each missed one" if self.missed == "all" else ""
        return text + (", until it fails" if self.stop_on_failure else "")

    def __repr__(self) -> str:
        given = [repr(timedelta(seconds=float(self.expression)) if self.kind == "every" else self.expression)]
        given += [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if each.compare and each.kw_only and getattr(self, each.name) != each.default
        ]
        return f"{type(self).__name__}.{self.kind}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class LastRun:
    occurrence: datetime | None  # None if it ran early on request
    due: datetime  # the occurrence, or the requested time
    outcome: str  # one of OUTCOMES
    attempt: int  # the number of the last attempt
    ended: datetime  # to the second
    created: int  # how many tasks its last success created

    @classmethod
    def read(cls, text: str) -> Self:
        try:
            stored = json.loads(text)
            when = "occurrence" if "occurrence" in stored else "due"
            due, ended = clock.parse(stored[when]), clock.parse(stored["ended"])
            outcome, attempt, created = stored["outcome"], int(stored["attempt"]), int(stored.get("created", 0))
            if outcome not in OUTCOMES:
                raise ValueError(f"{outcome!r} is not an outcome")
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{text[:200]!r} is not a record of a run: {error!r}") from error
        return cls(due if "occurrence" in stored else None, due, outcome, attempt, ended, created)

    def stored(self) -> str:
        """Return the stored form, of at most 120 bytes."""
        due = self.due.astimezone(UTC) if self.occurrence is None else self.occurrence
        found: dict[str, Any] = {"due" if self.occurrence is None else "occurrence": _text(due)}
        found |= {"outcome": self.outcome, "attempt": self.attempt, "ended": _text(self.ended.astimezone(UTC))}
        found |= {"created": self.created} if self.created else {}
        return strict_json.dumps(found, separators=(",", ":"))


class _Period:
    def __init__(self, seconds: str) -> None:
        self.text = seconds
        self._period = timedelta(seconds=float(seconds))
        if self._period < _SHORTEST:
            raise ValueError(f"the period must be at least a second, not {seconds} seconds")

    def occurrences(self, anchor: datetime, low: datetime) -> Iterator[tuple[int, datetime]]:
        """Return the times from `low` on, each with 0, because they are not counted."""
        passed = max(0, -((anchor - low) // self._period))
        return ((0, anchor + number * self._period) for number in count(passed))


def _checked_to_occur(repeat: R) -> R:
    begins = _wall_of(repeat.start or clock.now(), repeat.zone).replace(microsecond=0)
    if next(iter(_rule(repeat.kind, repeat.expression).occurrences(begins, begins)), None) is None:
        raise ValueError(f"{repeat} never occurs")
    return repeat


_KINDS: Mapping[str, Callable[[str], CronExpression | RecurrenceRule | _Period]] = {
    "cron": CronExpression,
    "rrule": RecurrenceRule,
    "every": _Period,
}


@lru_cache  # many rows have the same rule
def _rule(kind: str, expression: str) -> CronExpression | RecurrenceRule | _Period:
    if len(expression) > _LONGEST_RULE:
        raise ValueError(f"a rule of {len(expression):,} characters is too long: {_LONGEST_RULE:,} are allowed")
    if kind not in _KINDS:
        raise ValueError(f"{shown(kind)} is not a kind of rule")
    return _KINDS[kind](expression)


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)  # UTC works on a machine without time zones
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"this machine lacks the time zone {name!r}: write a name such as 'Europe/Berlin', or pip install tzdata"
        ) from None


def _wall_of(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)


def _text(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S%z}".replace("+0000", "Z")
