"""Times, durations and rates, as people write them."""

import time as clock
from datetime import UTC, datetime, timedelta

import pytest
import typer

from pynamodb_tracker.cli.options import later, moment, rate
from pynamodb_tracker.clock import in_words
from pynamodb_tracker.presentation.text import age
from pynamodb_tracker.testing import StoppedClock, stopped_clock


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("45m", timedelta(minutes=45)),
        ("2w", timedelta(weeks=2)),
        ("90s", timedelta(seconds=90)),
        ("1d12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_a_duration_is_that_long_ago(stopped_clock: StoppedClock, text: str, ago: timedelta) -> None:
    assert moment(text) == stopped_clock.now() - ago


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:30", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("2026-01-31 12:30:05Z", datetime(2026, 1, 31, 12, 30, 5, tzinfo=UTC)),
        ("2026-01-31T12:30:00+02:00", datetime(2026, 1, 31, 10, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch, text: str, time: datetime) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clock.tzset()
    assert moment(text) == time
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.parametrize(
    "text", ["", "30", "d", "30x", "-5d", "last week", "9999999999d", "0d", "0001-01-01T00:00+14:00"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment(text)


@pytest.mark.parametrize(
    ("text", "a_second"), [("50/s", 50), ("10/m", 1 / 6), ("36/h", 0.01), ("2", 2), ("0.5/s", 0.5)]
)
def test_a_rate_is_in_seconds_minutes_or_hours(text: str, a_second: float) -> None:
    assert rate(text) == pytest.approx(a_second)


@pytest.mark.parametrize("text", ["fast", "50/d", "0/s", "1/h", "-1/s", "nan", "99999999/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        rate(text)


@pytest.mark.parametrize(
    ("length", "output"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(seconds=61), "1m1s"),
        (timedelta(minutes=45, seconds=10), "45m"),
        (timedelta(hours=3, minutes=5), "3h5m"),
        (timedelta(days=3), "3d"),
        (timedelta(days=400, hours=5), "400d"),
        (-timedelta(seconds=5), "0s"),
    ],
)
def test_an_age_has_a_unit_or_two(length: timedelta, output: str) -> None:
    assert age(length) == output


@pytest.mark.parametrize(
    ("text", "ago", "ahead"),
    [
        ("09:00", timedelta(hours=3, minutes=30), timedelta(hours=20, minutes=30)),
        ("13:00", timedelta(hours=23, minutes=30), timedelta(minutes=30)),
        ("today", timedelta(hours=12, minutes=30), None),
        ("yesterday", timedelta(hours=36, minutes=30), None),
    ],
)
def test_a_time_of_day_is_the_last_one_or_the_next_one_of_the_zone_here(
    text: str,
    ago: timedelta,
    ahead: timedelta | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    clock.tzset()
    with stopped_clock(datetime(2026, 1, 31, 7, 0, tzinfo=UTC)) as at:
        assert at.now() - (found := moment(text)) == ago
        assert capsys.readouterr().err == f"{text} is {in_words(found)}\n"
        if ahead is not None:
            assert later(text) - at.now() == ahead
    monkeypatch.undo()
    clock.tzset()
