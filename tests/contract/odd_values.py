"""What the tables share: odd values, and the check that one is refused before any request."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest

from tests.support.network import unreached
from tests.support.shop import Order

KB = 1024
NAN, INF = float("nan"), float("inf")
LONGEST = timedelta(days=36_500)
CENTURY = LONGEST + timedelta(microseconds=1)

STEP: Any = Order.confirm_payment
STATE: Any = STEP.pending


class Text(str):
    __slots__ = ()


class Colour(StrEnum):
    RED = "red"


class Member(str, Enum):  # noqa: UP042 - its str() is "Member.RED", unlike that of a StrEnum
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Plain(Enum):
    A = "a"


class Time(datetime):
    """As libraries that freeze time derive it."""


class Duration(timedelta):
    """As libraries of calendars derive it."""


class Point(NamedTuple):
    x: int
    y: int


class NoOffset(tzinfo):
    def utcoffset(self, _when: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
YEAR_1, YEAR_9999 = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

LATER = [
    datetime(2999, 1, 1, tzinfo=UTC),
    datetime(2999, 1, 1, 0, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2999, 1, 1, tzinfo=timezone(timedelta(seconds=1))),
    Time(2999, 1, 1, tzinfo=UTC),
    YEAR_9999,
    datetime.max.replace(tzinfo=EAST),
]
EARLIER = [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), YEAR_1, datetime.min.replace(tzinfo=WEST)]


def nothing(_ctx: object) -> None:
    """Do what there is to do in a block that only succeeds."""


def refuses(call: Callable[[], object], message: str | None = None) -> None:
    """Check that a call is refused before any request, in these words."""
    with unreached(), pytest.raises((TypeError, ValueError), match=message):
        call()


@contextmanager
def of_value(number: int, value: object) -> Iterator[None]:
    """Name the value in whatever fails meanwhile."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"value {number} of its kind, a {type(value).__name__}: {_told(value)}")
        raise


def columns(*names: str) -> Callable[[list[Any]], pytest.MarkDecorator]:
    """Return what makes a parametrisation of a table with these columns."""
    return lambda rows: pytest.mark.parametrize(names if len(names) > 1 else names[0], rows, ids=_told)


def wrong(reason: str, *row: object) -> Any:
    """Return a row that says what is right, and that the library gets wrong for this reason."""
    return pytest.param(*row, marks=pytest.mark.xfail(strict=True, reason=reason))


def _told(part: object) -> str:
    if isinstance(part, str | bytes | float | None) or (isinstance(part, int) and abs(part) <= sys.maxsize):
        return ascii(part)[:28]
    return getattr(part, "__name__", type(part).__name__)
