"""Filters for the templates. They escape control characters and direction marks, and Jinja escapes HTML."""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote, urlencode

from pynamodb_tracker import clock
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.task_facts import GAVE_UP
from pynamodb_tracker.presentation.text import between, clock_time, escaped, span, took_in_words


def visible(value: object) -> str:
    r"""Return a value as one line, with unprintable characters escaped as in `\x1b`."""
    return escaped(str(value))


def status_words(status: object) -> str:
    """Return a status in words, as in `in progress` or `gave up`."""
    return str(status).replace("_", " ").replace("ignored", GAVE_UP)


def action(verb: str) -> str:
    return verb.removesuffix("_task").replace("_", " ")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def lines(text: str) -> str:
    """Return a text of several lines, with unprintable characters escaped."""
    return "\n".join(map(escaped, text.splitlines()))


AS_OF: ContextVar[datetime | None] = ContextVar("pynamodb_tracker_as_of", default=None)
"""When a cached answer was read. Its ages count to that time, so they do not grow."""


def now() -> datetime:
    """Return the time to which ages count."""
    return AS_OF.get() or clock.now()


def ago(time: datetime | None) -> str:
    """Return how far away a time is, as in `in 4m` or `1d 17h ago`, or `?` if it is unreadable."""
    return "?" if time is None else between(time, now())


def since(time: datetime | None) -> str:
    return "?" if time is None else span(now() - time)


def moment(time: datetime | None) -> str:
    return "?" if time is None else clock.in_words(time)


def number(value: float) -> str:
    """Return a number with separators, and one decimal if it is below 100 and not whole."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"  # noqa: PLR2004 - three digits


def money(dollars: float) -> str:
    """Return a price, with more digits below a cent."""
    return f"${dollars:,.2f}" if dollars >= 0.01 else f"${dollars:.7f}".rstrip("0").rstrip(".")  # noqa: PLR2004 - a cent


def json_text(value: object) -> str:
    if isinstance(value, str):
        return escaped(value)
    indent = 2 if isinstance(value, dict | list) else None
    return lines(exact_json.dumps(value, indent=indent, ensure_ascii=False))


def in_form(task_id: str) -> str:
    """Return an id quoted for a form field, because browsers change line breaks."""
    return quote(task_id, safe="")


@lru_cache(4096, typed=True)
def query(**values: object) -> str:
    """Return an address's query without empty values."""
    return urlencode([(name, str(value)) for name, value in values.items() if value not in (None, "", False)])


_OWN = (visible, status_words, action, sentence, lines, ago, since, moment, number, money, json_text, in_form)
FILTERS: dict[str, Callable[..., str]] = {each.__name__: each for each in (*_OWN, clock_time, span, took_in_words)}
