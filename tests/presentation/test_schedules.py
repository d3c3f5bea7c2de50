"""Rules of tasks that repeat, in words."""

from datetime import timedelta

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


def test_a_period_is_told_in_words() -> None:
    assert in_words(Repeat.every(timedelta(hours=1, minutes=30))) == "every 1h30m"
    assert in_words(Repeat.every(timedelta(hours=12, minutes=30))) == "every 12:30:00"
