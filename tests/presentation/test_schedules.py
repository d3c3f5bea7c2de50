"""Rules of tasks that repeat, in words."""

from datetime import UTC, datetime, timedelta

import pytest

from pynamodb_tracker import Repeat
from pynamodb_tracker.presentation.schedules import in_words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * *", "every day at 02:00"),
        ("@daily", "every day at 00:00"),
        ("*/5 * * * *", "every 5 minutes"),
        ("* * * * *", "every minute"),
        ("5 * * * *", "every hour at :05"),
        ("30 2 * * MON-FRI", "Monday to Friday at 02:30"),
        ("30 2 ? * 0,3,7", "Sunday, Wednesday, Sunday at 02:30"),
        ("0 9 1 * *", "day 1 of each month at 09:00"),
        ("0 9 L * *", "the last day of each month at 09:00"),
        ("0 9 1 * MON", "0 9 1 * MON"),
        ("*/7 3 * * *", "*/7 3 * * *"),
        ("0 9 1,15 * *", "0 9 1,15 * *"),
        ("0 9 * 6 *", "0 9 * 6 *"),
        ("0 2 * * 1-5,0", "0 2 * * 1-5,0"),
    ],
)
def test_a_cron_expression_is_told_in_words_where_these_say_the_same(expression: str, words: str) -> None:
    assert in_words(Repeat.cron(expression, tz="Europe/Berlin")) == f"{words}, Europe/Berlin"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "every day at 02:30"),
        ("FREQ=DAILY;INTERVAL=3", "every 3 days"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR", "every 2 weeks on Monday, Friday"),
        ("FREQ=MONTHLY;BYDAY=1MO", "every month on the first Monday"),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0", "every month on the last Friday at 09:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=15", "every month on day 15"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "every month on the last day"),
        ("FREQ=DAILY;COUNT=3", "FREQ=DAILY;COUNT=3"),
        ("FREQ=DAILY;BYHOUR=2,14", "FREQ=DAILY;BYHOUR=2,14"),
        ("FREQ=DAILY;BYMINUTE=30", "FREQ=DAILY;BYMINUTE=30"),
        ("FREQ=YEARLY;BYDAY=20MO", "FREQ=YEARLY;BYDAY=20MO"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,15", "FREQ=MONTHLY;BYMONTHDAY=1,15"),
    ],
)
def test_a_recurrence_rule_is_told_in_words_where_these_say_the_same(rule: str, words: str) -> None:
    assert in_words(Repeat.rrule(rule, start=datetime(2026, 1, 5, tzinfo=UTC))) == f"{words}, UTC"


def test_a_period_is_told_in_words() -> None:
    assert in_words(Repeat.every(timedelta(hours=1, minutes=30))) == "every 1h30m"
    assert in_words(Repeat.every(timedelta(hours=12, minutes=30))) == "every 12:30:00"
