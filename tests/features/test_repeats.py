"""When a rule occurs: zones and their clock changes, the phase of intervals, ends, and what is refused."""

import datetime as dt
import json
import random
import subprocess
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pynamodb_tracker.model.repeat import Repeat
from tests.support.counting import calls_of

LATE_START = datetime(9626, 1, 1, tzinfo=UTC)
"""Until the year 9999, in which dateutil gives up a rule that never occurs, it is not too long."""
BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALL_HOURS = ",".join(map(str, range(24)))
ALL_MINUTES = ",".join(map(str, range(60)))


def times(repeat: Repeat, start: datetime, number: int = 4) -> list[str]:
    """Return the first occurrences of a task that gets the rule at that time, in UTC."""
    return [f"{each.astimezone(UTC):%Y-%m-%dT%H:%M}" for each in islice(occurrences(repeat, start), number)]


def occurrences(repeat: Repeat, start: datetime) -> Iterator[datetime]:
    """Yield the occurrences as a row goes through them, stored each time, and worked on without a delay."""
    repeat = repeat.begun(start)
    found = repeat.first(start)
    while found is not None:
        yield found.time
        last = datetime.fromisoformat(found.time.isoformat())
        found = Repeat.from_json(repeat.to_json()).after(last, found.number, now=last)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("FREQ=MONTHLY;BYDAY=FR,1MO", lambda day: day.weekday() == 4 or (day.weekday() == 0 and day.day <= 7)),
        ("FREQ=MONTHLY;BYDAY=MO,1MO", lambda day: day.weekday() == 0),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH,-1SU", lambda day: day.month == 3 and (day.weekday() == 3 or day.day == 29)),
        ("FREQ=YEARLY;BYDAY=TH,1MO", lambda day: day.weekday() == 3 or (day.month, day.day) == (1, 5)),
    ],
)
def test_days_with_and_without_a_number_are_days_of_one_rule(text: str, days: Callable[[datetime], bool]) -> None:
    year = [START + timedelta(days=number) for number in range(365)]
    found = takewhile(lambda each: each.year == START.year, occurrences(Repeat.rrule(text, start=START), START))
    assert list(found) == [day for day in year if days(day)]


NIGHTLY = Repeat.cron("30 2 * * *", tz="Europe/Berlin")
FROM_START = Repeat.rrule("FREQ=DAILY", tz="Europe/Berlin", start=datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN))


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        (
            NIGHTLY,
            "2026-03-28T00:00",
            ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"],
        ),  # the 29th at 03:30
        (FROM_START, "2026-03-28T00:00", ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"]),
        (NIGHTLY, "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        (NIGHTLY, "2026-10-25T01:00", ["2026-10-26T01:30"]),  # after the first 02:30, before the second
        (
            Repeat.cron("0 * * * *", tz="Europe/Berlin"),
            "2026-03-28T23:30",
            ["2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00", "2026-03-29T03:00"],  # 02:00 and 03:00 are one
        ),
        (NIGHTLY, "2026-03-29T01:10", ["2026-03-29T01:30"]),  # it is 03:10
        (
            Repeat.cron("15 2 * * *", tz="Australia/Lord_Howe"),
            "2026-10-03T00:00",
            ["2026-10-03T15:45", "2026-10-04T15:15", "2026-10-05T15:15"],  # at 02:45 on the 4th
        ),
        (
            Repeat.cron("0 9 * * *", tz="Pacific/Apia"),
            "2011-12-29T12:00",
            ["2011-12-29T19:00", "2011-12-30T19:00", "2011-12-31T19:00"],  # there was no 30th
        ),
        (
            Repeat.every(timedelta(hours=6), start=datetime(2026, 3, 28, 12, tzinfo=UTC)),
            "2026-03-28T12:00",
            ["2026-03-28T12:00", "2026-03-28T18:00", "2026-03-29T00:00", "2026-03-29T06:00"],
        ),
    ],
    ids=[
        "a time in the gap is moved that day and no other",
        "also if it comes from the start of the rule",
        "a time that comes twice is the first one",
        "and has passed after it",
        "an hour that the gap moves onto the next one is left out",
        "a rule that begins just after the gap has the time in it",
        "a gap of half an hour",
        "a day that a zone skipped",
        "every counts elapsed time",
    ],
)
def test_a_change_of_the_clocks_moves_a_time_or_leaves_it_out(rule: Repeat, start: str, expected: list[str]) -> None:
    assert times(rule, datetime.fromisoformat(f"{start}Z"), len(expected)) == expected


def test_utc_needs_no_data_of_time_zones() -> None:
    script = """
import zoneinfo
zoneinfo.reset_tzpath(to=[])
from datetime import datetime, timedelta, UTC
from pynamodb_tracker.model.repeat import Repeat
print(Repeat.cron("0 2 * * *").first(datetime(2026, 1, 1, tzinfo=UTC)).time)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - this Python

    assert done.stdout.strip() == "2026-01-01 02:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("FREQ=MONTHLY", "2026-01-31T09:00", ["2026-01-31T09:00", "2026-03-31T09:00", "2026-05-31T09:00"]),
        ("FREQ=YEARLY", "2096-02-29T09:00", ["2096-02-29T09:00", "2104-02-29T09:00", "2108-02-29T09:00"]),
        ("FREQ=MONTHLY;BYDAY=1MO", "2023-04-01T06:00", ["2023-04-03T06:00", "2023-05-01T06:00"]),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU",
            "2026-01-01T09:00",  # a Thursday
            ["2026-01-04T09:00", "2026-01-12T09:00", "2026-01-18T09:00", "2026-01-26T09:00"],
        ),
        ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2", "2026-01-06T09:00", ["2026-01-07T09:00", "2026-01-14T09:00"]),
        ("FREQ=DAILY;COUNT=1", "2026-01-01T09:00", ["2026-01-01T09:00"]),
        ("FREQ=DAILY;COUNT=3", "2026-01-01T09:00", ["2026-01-01T09:00", "2026-01-02T09:00", "2026-01-03T09:00"]),
        ("FREQ=DAILY;UNTIL=20260102T090000", "2026-01-01T09:00", ["2026-01-01T09:00", "2026-01-02T09:00"]),
    ],
)
def test_a_recurrence_rule_counts_from_when_a_task_gets_it(text: str, start: str, expected: list[str]) -> None:
    found = times(Repeat.rrule(text), datetime.fromisoformat(f"{start}Z"), 12)
    assert found[: len(expected)] == expected
    if "COUNT" in text or "UNTIL" in text:
        assert len(found) == len(expected)


def test_a_rule_that_is_over_may_still_stand_in_the_code_and_has_no_occurrence() -> None:
    assert Repeat.rrule("FREQ=DAILY;UNTIL=20260102T090000Z").first(START + timedelta(days=9)) is None


def test_until_in_utc_ends_a_rule_of_another_zone_at_that_time() -> None:
    nightly = Repeat.rrule("FREQ=DAILY;BYHOUR=1;BYMINUTE=0;BYSECOND=0;UNTIL=20260702T230000Z", tz="Europe/Berlin")
    assert times(nightly, datetime(2026, 7, 1, tzinfo=UTC)) == ["2026-07-01T23:00", "2026-07-02T23:00"]


def test_an_hour_is_a_full_one_unless_the_start_says_otherwise() -> None:
    got = START + timedelta(minutes=7, seconds=3)
    assert times(Repeat.rrule("FREQ=DAILY;BYHOUR=9"), got, 1) == ["2026-01-02T09:00"]
    assert times(Repeat.rrule("FREQ=DAILY;BYHOUR=9", start=got), got, 1) == ["2026-01-02T09:07"]


@pytest.mark.parametrize("text", ["FREQ=DAILY;BYHOUR=9;", "RRULE:BYHOUR=9;FREQ=DAILY", " freq=daily;byhour=9; "])
def test_a_rule_as_a_calendar_writes_it_is_read_with_full_hours(text: str) -> None:
    first: Any = Repeat.rrule(text).first(START + timedelta(minutes=7))
    assert first.time == datetime(2026, 1, 2, 9, tzinfo=UTC)


def test_the_start_gives_the_phase_whenever_a_task_gets_the_rule() -> None:
    rule = Repeat.rrule("FREQ=DAILY;INTERVAL=3", start=START)
    assert times(rule, START + timedelta(days=7), 2) == ["2026-01-10T12:00", "2026-01-13T12:00"]
    assert times(Repeat.every(timedelta(days=3), start=START), START + timedelta(days=7), 1) == ["2026-01-10T12:00"]


def test_missed_occurrences_are_run_once_or_each_and_all_of_them_count() -> None:
    late = START + timedelta(days=4, hours=1)

    latest, each, counted = (
        Repeat.rrule("FREQ=DAILY", missed="latest").begun(START),
        Repeat.rrule("FREQ=DAILY", missed="all").begun(START),
        Repeat.rrule("FREQ=DAILY;COUNT=5").begun(START),
    )

    after: Any = latest.after(START, 1, now=late)
    assert after.time == START + timedelta(days=4)
    after = each.after(START, 1, now=late)
    assert after.time == START + timedelta(days=1)
    assert counted.after(START, 1, now=late - timedelta(hours=2)) == (START + timedelta(days=3), 4)
    assert counted.after(START, 1, now=late + timedelta(days=9)) == (START + timedelta(days=4), 5)
    assert counted.after(START + timedelta(days=4), 5, now=late) is None


@pytest.mark.parametrize("away", [timedelta(0), timedelta(hours=1), timedelta(days=40), timedelta(days=400)])
@pytest.mark.parametrize(
    "rule",
    [
        Repeat.every(timedelta(hours=7)),
        Repeat.cron("*/7 3 * 1,2 *", tz="Europe/Berlin"),
        Repeat.cron("30 2 * * SUN", tz="Europe/Berlin"),
        Repeat.rrule("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=9"),
        Repeat.rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;UNTIL=20260301T000000Z"),
    ],
    ids=str,
)
def test_the_latest_occurrence_is_the_last_of_all_of_them(rule: Repeat, away: timedelta) -> None:
    rule = rule.begun(START)
    first = rule.first(START)
    assert first is not None
    now, found, expected = first.time + away, None, None
    while (found := rule.beyond(*(found or first), (found or first).time)) is not None and found.time <= now:
        expected = found
    assert rule.latest(*first, now) == expected


def test_finding_the_latest_occurrence_does_not_go_through_all_of_them() -> None:
    rule = Repeat.every(timedelta(seconds=1)).begun(START)
    late = START + timedelta(days=3650)
    assert rule.latest(START, None, late) == (late, None)
    assert calls_of(lambda: rule.latest(START, None, late)) <= 2_000


def test_a_run_that_ends_before_its_occurrence_by_another_clock_does_not_repeat_it() -> None:
    found: Any = Repeat.cron("0 12 * * *").begun(START).after(START, 1, now=START - timedelta(seconds=2))
    assert found.time == START + timedelta(days=1)


def test_an_occurrence_of_an_earlier_rule_is_no_anchor_of_the_present_one() -> None:
    changed = Repeat.rrule("FREQ=DAILY;INTERVAL=2").begun(START)
    assert changed.after(START - timedelta(hours=5), 7, now=START + timedelta(hours=1)) == (
        START + timedelta(days=2),
        None,
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/30 9-10 * * *", ["2026-01-02T09:00", "2026-01-02T09:30", "2026-01-02T10:00", "2026-01-02T10:30"]),
        ("0 9 13 * FRI", ["2026-01-02T09:00", "2026-01-09T09:00", "2026-01-13T09:00", "2026-01-16T09:00"]),
        ("0 9 */2 * FRI", ["2026-01-09T09:00", "2026-01-23T09:00", "2026-02-13T09:00", "2026-02-27T09:00"]),
        ("0 9 * * 7", ["2026-01-04T09:00", "2026-01-11T09:00", "2026-01-18T09:00", "2026-01-25T09:00"]),
        ("0 9 ? * Sat-Sun", ["2026-01-03T09:00", "2026-01-04T09:00", "2026-01-10T09:00", "2026-01-11T09:00"]),
        ("0 9 L * *", ["2026-01-31T09:00", "2026-02-28T09:00", "2026-03-31T09:00", "2026-04-30T09:00"]),
        ("0 9 29 feb *", ["2028-02-29T09:00", "2032-02-29T09:00", "2036-02-29T09:00", "2040-02-29T09:00"]),
        ("5/20 0 1 1,6/3 *", ["2026-06-01T00:05", "2026-06-01T00:25", "2026-06-01T00:45", "2026-09-01T00:05"]),
        ("@daily", ["2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-05T00:00"]),
    ],
)
def test_a_cron_expression_has_lists_ranges_steps_and_names(expression: str, expected: list[str]) -> None:
    assert times(Repeat.cron(expression), START) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("0 2 * *", "has 4 fields: write minute"),
        ("0 0 2 * * *", "has 6 fields"),
        ("@reboot", "has 1 fields"),
        ("60 2 * * *", "'60' is not a valid minute: it is from 0 to 59"),
        ("0 2 * * FRY", "'FRY' is not a valid day of week"),
        ("0 2 * * 5L", "'5L' is not a valid day of week"),
        ("0 2 15W * *", "'15W' is not a valid day of month"),
        ("0 22-2 * * *", "goes backwards for the hour"),
        ("*/0 2 * * *", "steps of 0"),
        ("0,, 2 * * *", "'' is not a valid minute"),
        ("*-5 2 * * *", "a range has two numbers"),
        ("0 2 30 2 *", "never occurs"),
        ("0 2 31 4,6,9,11 *", "never occurs"),
        ("² 2 * * *", "is not a valid minute"),
    ],
)
def test_a_cron_expression_that_cannot_be_meant_is_refused_with_the_reason(expression: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("*", r"\*")):
        Repeat.cron(expression)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL is a whole number from 1 to 999,999, not '0'"),
        ("FREQ=DAILY;COUNT=9999999", "COUNT is a whole number from 1 to 999,999, not '9999999'"),
        ("FREQ=DAILY;COUNT=0", "COUNT is a whole number from 1"),
        ("FREQ=HOURLY", "FREQ=HOURLY is not supported: write Repeat.every"),
        ("FREQ=FORTNIGHTLY", "FREQ is one of"),
        ("BYHOUR=9", "FREQ is one of"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never occurs"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "never occurs"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR has '24': it takes numbers from 0 to 23"),
        ("FREQ=DAILY;BYSETPOS=0", "BYSETPOS has '0': it takes numbers from -366 to 366 but 0"),
        ("FREQ=DAILY;BYMONTH=", "BYMONTH has ''"),
        ("FREQ=WEEKLY;BYDAY=1MO", "a number needs FREQ=MONTHLY"),
        ("FREQ=WEEKLY;BYDAY=MON", "BYDAY has 'MON'"),
        ("FREQ=WEEKLY;WKST=1", "WKST is one of"),
        ("FREQ=DAILY;BYDAYS=MO", "did you mean 'BYDAY'"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ twice"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101T000000", "both COUNT and UNTIL"),
        ("FREQ=DAILY;UNTIL=20270101", "UNTIL=20270101 is not a time"),
        ("FREQ=DAILY;UNTIL=20271301T000000", "month must be in 1..12"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", "pass one rule, and its DTSTART as start="),
        ("DTSTART=20260101T000000;FREQ=DAILY", "it has DTSTART: pass it as start="),
        (f"FREQ=YEARLY;BYDAY=MO;BYHOUR={ALL_HOURS};BYMINUTE={ALL_MINUTES}", "write FREQ=DAILY"),
        ("", "is not a part of a rule"),
    ],
)
def test_an_odd_recurrence_rule_or_one_that_would_hang_is_refused_with_the_reason(text: str, problem: str) -> None:
    def refuse() -> None:
        with pytest.raises(ValueError, match=problem):
            Repeat.rrule(text)

    assert calls_of(refuse) < 1_000_000, "no search until the year 9999"


@pytest.mark.parametrize("make", [Repeat.cron, Repeat.rrule])
def test_a_rule_that_takes_long_to_read_is_refused_by_its_length(make: Callable[[str], Repeat]) -> None:
    with pytest.raises(ValueError, match=r"4,000 are allowed"):
        make("1," * 200_000 + "1 * * * *")


@pytest.mark.parametrize("tz", ["Europe/Berlyn", "../etc/passwd", "Europe", ""])
def test_an_unknown_zone_is_refused(tz: str) -> None:
    with pytest.raises(ValueError, match=r"this machine lacks the time zone .*pip install tzdata"):
        Repeat.cron("0 2 * * *", tz=tz)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"FREQ=DAILY;BYHOUR={ALL_HOURS};BYMINUTE={ALL_MINUTES}", 6_000),
        (f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR={ALL_HOURS}", 30_000),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", 500),
    ],
    ids=["each minute", "each hour of a year", "each other week"],
)
def test_a_step_takes_as_long_after_ten_years_as_at_the_beginning(text: str, most: int) -> None:
    rule = Repeat.rrule(text, start=START).begun(START)
    late: Any = Repeat.rrule(text, start=START + timedelta(days=3640)).first(START + timedelta(days=3640))
    assert calls_of(lambda: rule.after(late.time, 9, now=late.time)) <= most


RULES = st.builds(
    lambda frequency, interval, parts: ";".join([f"FREQ={frequency}", f"INTERVAL={interval}", *parts]),
    st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
    st.integers(1, 5),
    st.lists(
        st.sampled_from(
            [
                "BYMONTH=1,6,12",
                "BYMONTHDAY=1,15,31",
                "BYMONTHDAY=-1",
                "BYDAY=MO,WE,FR",
                "BYDAY=SU",
                "BYWEEKNO=1,20,53",
                "BYYEARDAY=1,60,366",
                "BYHOUR=9,17",
                "BYMINUTE=0,30",
                "WKST=SU",
            ]
        ),
        max_size=3,
        unique_by=lambda part: part.partition("=")[0],
    ),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rule=RULES, days=st.integers(0, 3000), seconds=st.integers(0, 86_399), position=st.sampled_from([0, 1, -1]))
def test_going_on_from_each_occurrence_gives_what_dateutil_gives_from_the_first(
    rule: str, days: int, seconds: int, position: int
) -> None:
    start = LATE_START + timedelta(days=days, seconds=seconds)
    rule += f";BYSETPOS={position}" if position and "BY" in rule and "WEEKLY" not in rule else ""
    expected = list(islice(rrulestr(rule, dtstart=start.replace(tzinfo=None)), 8))
    assume(expected and expected[-1].year <= LATE_START.year + 90)
    found = occurrences(Repeat.rrule(rule, start=start), start)
    assert [each.replace(tzinfo=None) for each in islice(found, 8)] == expected


@pytest.mark.parametrize("wkst", ["MO", "SU"])
@pytest.mark.parametrize(
    "text", ["FREQ=DAILY;INTERVAL=3;BYHOUR=5,9", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SA", "FREQ=WEEKLY;INTERVAL=3"]
)
def test_an_old_start_keeps_its_phase(text: str, wkst: str) -> None:
    for days in range(0, 60, 7):
        at = START + timedelta(days=400 + days, hours=days % 11)
        expected = rrulestr(f"{text};WKST={wkst}", dtstart=START.replace(tzinfo=None)).after(at.replace(tzinfo=None))
        found: Any = Repeat.rrule(f"{text};WKST={wkst}", start=START).first(at + timedelta(seconds=1))
        assert found.time.replace(tzinfo=None) == expected


def test_an_old_start_is_not_walked_from_each_time_a_program_starts() -> None:
    rule = Repeat.rrule(f"FREQ=DAILY;BYHOUR={ALL_HOURS};BYMINUTE=0,15,30,45", start=START - timedelta(days=7300))
    assert calls_of(lambda: rule.first(START)) <= 2_000


def test_positions_in_weeks_are_those_of_whole_weeks_whichever_day_a_run_was() -> None:
    """The first week of dateutil begins at its DTSTART, so each position would be counted from the last occurrence."""
    draw = random.Random(7)
    for _ in range(30):
        days = ",".join(draw.sample(["MO", "TU", "WE", "TH", "FR", "SA", "SU"], 4))
        first_day = draw.choice(["MO", "SU"])
        positions = draw.choice(["2", "-2", "1,3"])
        rule = f"FREQ=WEEKLY;INTERVAL={draw.randint(1, 3)};WKST={first_day};BYDAY={days};BYSETPOS={positions}"
        start = datetime(2026, 1, 4 if first_day == "SU" else 5, 9, tzinfo=UTC)

        found = list(islice(occurrences(Repeat.rrule(rule), start), 9))

        assert [each.replace(tzinfo=None) for each in found] == rrulestr(rule, dtstart=start.replace(tzinfo=None))[:9]


@pytest.mark.parametrize(
    "repeat",
    [
        Repeat.cron("0 2 * * MON-FRI", tz="Europe/Berlin", stop_on_failure=True),
        Repeat.rrule("RRULE:freq=weekly;BYDAY=MO", tz=BERLIN, start=START, missed="all"),
        Repeat.every(timedelta(minutes=5)),
        Repeat.every(timedelta(seconds=1, microseconds=5), start=START),
    ],
    ids=str,
)
def test_a_rule_reads_back_equal_from_a_row_whatever_the_time_at_which_a_task_got_it(repeat: Repeat) -> None:
    stored = repeat.begun(START).to_json()
    assert (Repeat.from_json(stored), Repeat.from_json(stored).since) == (repeat, START)
    assert hash(Repeat.from_json(stored)) == hash(repeat)
    names = {"Repeat": Repeat, "datetime": dt, "zoneinfo": zoneinfo}
    assert eval(repr(repeat), names) == repeat  # noqa: S307 - what a repr promises


def test_rules_are_equal_if_they_say_the_same() -> None:
    assert Repeat.cron("@daily") == Repeat.cron("0  0 * * *")
    assert Repeat.cron("0 2 * * mon") == Repeat.cron("0 2 * * MON")
    assert Repeat.cron("@daily") != Repeat.cron("@daily", tz="Europe/Berlin")
    assert Repeat.cron("@daily") != Repeat.cron("@daily", missed="all")


def test_a_rule_says_itself_in_words() -> None:
    rule = Repeat.cron("0 2 * * *", tz="Europe/Berlin", stop_on_failure=True)
    assert str(rule) == "0 2 * * * in Europe/Berlin, until it fails"
    assert str(Repeat.every(timedelta(minutes=5), missed="all")) == "every 0:05:00, each missed one"
    assert str(Repeat.every(timedelta(days=1))) == "every 1 day"
    assert repr(rule) == "Repeat.cron('0 2 * * *', tz='Europe/Berlin', stop_on_failure=True)"


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "[]",
        "{}",
        '{"cron":"0 2 * * *","rrule":"FREQ=DAILY"}',
        '{"cron":"0 2 * *"}',
        '{"cron":5}',
        '{"lunar":"full"}',
        '{"every":"-1"}',
        '{"every":"1e99"}',
        '{"every":"nan"}',
        '{"rrule":"FREQ=DAILY","start":"2026-01-01"}',
        '{"rrule":"FREQ=DAILY","since":7}',
        '{"cron":"0 2 * * *","tz":"Mars/Olympus"}',
        '{"cron":"0 2 * * *","missed":"none"}',
        '{"cron":"0 2 * * *","calendar":"bank holidays"}',
    ],
)
def test_a_stored_rule_that_cannot_be_read_is_a_value_error(stored: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Repeat.from_json(stored)


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="a rule is text"):
        Repeat.cron(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="missed is 'latest' or 'all'"):
        Repeat.cron("@daily", missed="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="stop_on_failure must be True or False"):
        Repeat.cron("@daily", stop_on_failure=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tz is the name of a zone"):
        Repeat.cron("@daily", tz=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no time zone"):
        Repeat.rrule("FREQ=DAILY", start=datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused
    with pytest.raises(ValueError, match="outside the years 1 to 9999 in Asia/Tokyo"):
        Repeat.rrule("FREQ=DAILY", start=datetime.max.replace(tzinfo=UTC), tz="Asia/Tokyo")
    with pytest.raises(ValueError, match="at least a second"):
        Repeat.every(timedelta(milliseconds=1))
    with pytest.raises(TypeError, match="must be a timedelta"):
        Repeat.every(5)  # type: ignore[arg-type]


def test_dateutil_is_imported_for_recurrence_rules_only() -> None:
    script = """
import json, sys
from datetime import UTC, datetime, timedelta
from pynamodb_tracker.model.repeat import Repeat
for rule in (Repeat.cron("0 2 * * *"), Repeat.every(timedelta(minutes=5))):
    Repeat.from_json(rule.to_json()).first(datetime.now(UTC))
print(json.dumps("dateutil.rrule" in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - this Python

    assert json.loads(done.stdout) is False


def test_a_week_without_wkst_begins_on_monday() -> None:
    sunday = datetime(2026, 1, 11, 12, tzinfo=UTC)
    rule = Repeat.rrule("FREQ=WEEKLY;BYDAY=SU,MO;BYSETPOS=1", start=sunday)
    assert times(rule, sunday, 2) == ["2026-01-12T12:00", "2026-01-19T12:00"]


def test_a_task_that_gets_a_rule_later_than_its_start_misses_nothing_from_before() -> None:
    begun = Repeat.every(timedelta(hours=1), start=START, missed="all").begun(START + timedelta(hours=10))
    found = begun.after(START, None, START + timedelta(hours=12))
    assert found
    assert found.time == START + timedelta(hours=10)
