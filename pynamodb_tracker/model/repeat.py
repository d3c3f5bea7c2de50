"""When a task that repeats is due again: its rule, the occurrences of the rule, and how the last one has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from pynamodb_tracker import clock, strict_json
from pynamodb_tracker.arguments import check_duration, check_flags, check_time, shown
from pynamodb_tracker.model.cron import CronExpression
from pynamodb_tracker.model.recurrence_rule import RecurrenceRule, with_full_hours

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

R = TypeVar("R", bound="Repeat")

_SHORTEST = timedelta(seconds=1)
_LONGEST_RULE = 4000
"""Characters; all days of a year with all hours and minutes are fewer."""
_LONGEST_GAP = timedelta(hours=25)
"""When a zone moved across the date line, its clocks skipped a day."""
_MOMENT = timedelta(microseconds=1)

OUTCOMES = ("succeeded", "failed", "skipped", "ignored")
"""A success; its last attempt that failed; no attempt left, which a later run found; a person's command."""


class Occurrence(NamedTuple):
    """One time of a rule."""

    time: datetime
    """On the wall clock of the rule's zone, with the offset from UTC: in a gap of the clocks that of before the gap."""
    number: int | None
    """Which occurrence of the rule it is, from 1, missed ones included; None for a rule without COUNT."""


@dataclass(frozen=True, repr=False)
class Repeat:
    """The rule by which a task is due again after its end: made by `cron`, `rrule` or `every`.

    A task that repeats has one row, so its runs never overlap, and it runs once for each occurrence. The success of
    its last step makes it pending at its first step, due at the next occurrence; the last attempt that fails does
    the same, unless `stop_on_failure` is set: then the task is ignored. After the last occurrence of its rule the task
    has succeeded.

    `missed` says what happens to occurrences that passed before the task could run for them, for whatever reason. With
    "latest" it runs once, for the latest of them; with "all" it runs once for each of them, in turn. A worker whose
    clock is ahead treats occurrences before its own time as missed.

    `cron` and `rrule` count on the wall clock of the zone `tz`: a time that the clocks skip is moved by the length of
    the gap, and of a time that occurs twice the first one is used. An occurrence that is then not later than the one
    before it is left out. When clocks go back, `*/5 * * * *` has no occurrence for 65 minutes: for what runs all day,
    use `every`, or UTC.
    """

    kind: Literal["cron", "rrule", "every"]
    """By which method the rule was made."""
    expression: str
    """The rule as text; of `every`, the seconds."""
    _: KW_ONLY
    tz: str = "UTC"
    """The name of the zone whose wall clock the rule counts on."""
    start: datetime | None = None
    """From when the rule counts, if that was given: in the zone of the rule."""
    missed: Literal["latest", "all"] = "latest"
    """What happens to occurrences that passed before the task could run for them."""
    stop_on_failure: bool = False
    """Whether the last attempt that fails ends the repetition."""
    since: datetime | None = field(default=None, compare=False)
    """From when the rule counts in a task, if it has no `start`: when the task got it. Equality leaves it out."""

    @classmethod
    def cron(
        cls,
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Literal["latest", "all"] = "latest",
        stop_on_failure: bool = False,
    ) -> Self:
        """Repeat by a cron expression of five fields: minute, hour, day of month, month and day of week.

        Fields have numbers, names of months and days such as JAN and MON, lists, ranges, steps such as */15, and L for
        the last day of a month; `@daily` and the like are known. Sunday is 0 or 7. If both a day of month and a day of
        week are given, either is enough; a field that begins with `*`, such as `*/10`, is not given in this sense, and
        then both must match. ValueError for a rule that cannot be read, or never occurs.

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

        `start`, an aware time, is its DTSTART, from which INTERVAL and COUNT count, and which gives parts that
        the rule leaves out, such as the time of day. Without it, that is the time at which a task gets the rule; but
        BYHOUR=9 is the full hour then. An occurrence that was missed counts for COUNT. FREQ is DAILY, WEEKLY, MONTHLY
        or YEARLY; below a day, use `every`, or BYHOUR and BYMINUTE. ValueError for a rule that cannot be read, or never
        occurs; DTSTART in the text is refused.
        https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10

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
        """Repeat after that much elapsed time, at least a second; clock changes do not matter.

        It counts from `start`, an aware time, or else from the time at which a task gets the rule.

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
        tz = _zone_name(tz)
        start = check_time("start", start)
        if start is not None:
            try:
                start = start.replace(microsecond=0).astimezone(_zone(tz))
            except OverflowError:
                raise ValueError(f"start={start!r} is outside of the years of datetime in {tz}") from None
        return cls(
            kind, _rule(kind, expression).text, tz=tz, start=start, missed=missed, stop_on_failure=stop_on_failure
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the rule that is stored in a row; ValueError for one that this version cannot read."""
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
        """Return the rule as it is stored in a row."""
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
        """Return the rule as a task has it that gets it at that time."""
        return replace(self, since=at.astimezone(UTC).replace(microsecond=0))

    def first(self, at: datetime) -> Occurrence | None:
        """Return the first occurrence at or after a time, to the second; None if there is none.

        The rule counts from its `start`, or else from when the task has it.

        Examples:
            >>> assert Repeat.every(timedelta(hours=1)).first(datetime.now(UTC))
        """
        at = at.replace(microsecond=0)
        return self._next(_wall_of(self.start or self.since or at, self.zone), 1, at - _MOMENT)

    def after(self, last: datetime, number: int | None, now: datetime) -> Occurrence | None:
        """Return the occurrence to run after the `last` one, whose number is given; None if the rule has no more.

        If several have passed by `now`, it is the latest of them with missed="latest", and the first with "all".
        """
        if self.missed == "all":
            return self.beyond(last, number, last)
        return self.latest(last, number, now) or self.beyond(last, number, max(last, now))

    def latest(self, last: datetime, number: int | None, now: datetime) -> Occurrence | None:
        """Return the latest occurrence after the `last` one that has passed by `now`; None if none has.

        The moment at which the task got the rule is not one of them: it was at another occurrence then.
        """
        found, high = None, now
        following = self.beyond(last, number, max(last, self.since or last))
        while following is not None and following.time <= high:  # it is the latest one, or that is in between
            found = following
            middle = found.time + (high - found.time) / 2
            following = self.beyond(*found, middle)
            if following is None or following.time > high:
                high, following = middle, self.beyond(*found, found.time)
        return found

    def beyond(self, last: datetime, number: int | None, time: datetime) -> Occurrence | None:
        """Return the first occurrence after the `last` one that is later than a time; None if the rule has no more.

        A `last` one from before the task had this rule is none of its occurrences: the rule then counts from its
        beginning.
        """
        if self.since is not None and last < self.since:
            return self._next(_wall_of(self.start or self.since, self.zone), 1, max(time, self.since - _MOMENT))
        return self._next(last.replace(tzinfo=None), number or 1, time)

    @property
    def zone(self) -> tzinfo:
        """The zone whose wall clock the rule counts on."""
        return _zone(self.tz)

    def _next(self, anchor: datetime, number: int, beyond: datetime) -> Occurrence | None:
        """Return the first occurrence beyond a time, counted from the number of an anchor on the wall clock."""
        rule, zone = _rule(self.kind, self.expression), self.zone
        try:
            for passed, wall in rule.occurrences(anchor, _lowest_wall(beyond, zone)):
                time = _on_wall_clock(wall, zone)
                counted = rule if isinstance(rule, RecurrenceRule) else None  # the others have no end
                if counted is not None and counted.is_over(number + passed, wall, time):
                    return None
                if time > beyond:
                    return Occurrence(time, None if counted is None or counted.count is None else number + passed)
        except OverflowError:  # the years of datetime end
            return None
        return None

    def __str__(self) -> str:
        if self.kind == "every":
            text = f"every {timedelta(seconds=float(self.expression))}".removesuffix(", 0:00:00")
        else:
            text = f"{self.expression} in {self.tz}"
        if self.start is not None:
            text += f" from {self.start}"
        return (
            text
            + (", each missed one" if self.missed == "all" else "")
            + (", until it fails" if self.stop_on_failure else "")
        )

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
    """How a round ended."""

    occurrence: datetime | None
    """For which time of the rule it was; None if it was asked for before that."""
    due: datetime
    """When it was due: at its occurrence, or when that was asked for."""
    outcome: str
    """One of OUTCOMES."""
    attempt: int
    """Which attempt of its step was the last one."""
    ended: datetime
    """When it ended, to the second."""
    created: int
    """How many tasks its last success created."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a row has stored; a ValueError if that cannot be read."""
        try:
            stored = json.loads(text)
            when = "occurrence" if "occurrence" in stored else "due"
            due, ended = clock.parse(stored[when]), clock.parse(stored["ended"])
            outcome, attempt, created = stored["outcome"], int(stored["attempt"]), int(stored.get("created", 0))
            if outcome not in OUTCOMES:
                raise ValueError(f"{outcome!r} is no outcome")
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{text[:200]!r} says of no run how it ended: {error!r}") from error
        return cls(due if "occurrence" in stored else None, due, outcome, attempt, ended, created)

    def stored(self) -> str:
        """Return the stored form, of at most 120 bytes."""
        due = self.due.astimezone(UTC) if self.occurrence is None else self.occurrence
        found: dict[str, Any] = {"due" if self.occurrence is None else "occurrence": _text(due)}
        found |= {"outcome": self.outcome, "attempt": self.attempt, "ended": _text(self.ended.astimezone(UTC))}
        return strict_json.dumps(found | ({"created": self.created} if self.created else {}), separators=(",", ":"))


class _Period:
    """A rule that counts elapsed time."""

    def __init__(self, seconds: str) -> None:
        self.text = seconds
        self._period = timedelta(seconds=float(seconds))
        if self._period < _SHORTEST:
            raise ValueError(f"the period must be at least a second, not {seconds} seconds")

    def occurrences(self, anchor: datetime, low: datetime) -> Iterator[tuple[int, datetime]]:
        """Yield the times from `low` on, none of them counted."""
        passed = max(0, -((anchor - low) // self._period))
        return ((0, anchor + number * self._period) for number in count(passed))


def _checked_to_occur(repeat: R) -> R:
    """Return the rule; ValueError if it never occurs."""
    begins = _wall_of(repeat.start or clock.now(), repeat.zone).replace(microsecond=0)
    if next(iter(_rule(repeat.kind, repeat.expression).occurrences(begins, begins)), None) is None:
        raise ValueError(f"{repeat} never occurs")
    return repeat


@lru_cache
def _rule(kind: str, expression: str) -> CronExpression | RecurrenceRule | _Period:
    """Return a rule that is read; the rows of many tasks have the same."""
    if len(expression) > _LONGEST_RULE:
        raise ValueError(f"a rule of {len(expression):,} characters is too long: {_LONGEST_RULE:,} are allowed")
    if kind == "cron":
        return CronExpression(expression)
    if kind == "rrule":
        return RecurrenceRule(expression)
    if kind == "every":
        return _Period(expression)
    raise ValueError(f"{shown(kind)} is not a kind of rule")


def _zone_name(tz: object) -> str:
    """Return the name of a zone; ValueError for one that is not known here."""
    name = tz if isinstance(tz, str) else getattr(tz, "key", None)
    if tz is UTC:
        name = "UTC"
    if not isinstance(name, str):
        raise TypeError(f"tz is the name of a zone, such as 'Europe/Berlin', not {shown(tz)}")
    _zone(name)
    return name


def _zone(name: str) -> tzinfo:
    """Return a zone; UTC needs no data of zones."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a cold start pays for every import

    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone {name!r} on this machine: write a name such as 'Europe/Berlin'; where the system "
            "has no time zones, as in some containers, `pip install tzdata` brings them"
        ) from None


def _wall_of(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)


def _on_wall_clock(wall: datetime, zone: tzinfo) -> datetime:
    """Return a time of the wall clock with its offset: in a gap that of before it, and of two times the first."""
    offset = wall.replace(tzinfo=zone).utcoffset()
    return wall.replace(tzinfo=timezone(offset or timedelta(0)))


def _lowest_wall(beyond: datetime, zone: tzinfo) -> datetime:
    """Return a time on the wall clock before which no occurrence is beyond that time, recent changes included."""
    return min(_wall_of(beyond, zone), (beyond - _LONGEST_GAP).astimezone(zone).replace(tzinfo=None) + _LONGEST_GAP)


def _text(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S%z}".replace("+0000", "Z")
