"""JSON that every program can read: without NaN and infinity, and with limited nesting.

https://datatracker.ietf.org/doc/html/rfc8259#section-6
"""

import json
import math
from decimal import Decimal
from typing import Any

MAX_DEPTH = 200
"""The deepest nesting of lists and dictionaries. Python's own limit varies with its version and the call stack."""


def dumps(value: object, **options: Any) -> str:
    """Serialize a value with the options of `json.dumps`. NaN and infinity raise a ValueError."""
    return json.dumps(value, allow_nan=False, **options)


def are_equal(text: str, other: str) -> bool:
    """Return whether two JSON texts have equal values. 1 equals 1.0, but not true."""

    def number(digits: str) -> tuple[str, Decimal]:
        return "number", Decimal(digits)

    one, another = (json.loads(each, parse_int=number, parse_float=number) for each in (text, other))
    return bool(one == another)


def is_too_deep(value: object, text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(MAX_DEPTH):
        below = [each for parent in level for each in (parent.values() if isinstance(parent, dict) else parent)]
        level = list({id(each): each for each in below if isinstance(each, dict | list | tuple)}.values())
    return bool(level)


def too_deep(name: str) -> ValueError:
    return ValueError(f"{name} is nested more than {MAX_DEPTH} levels deep")


def marked(value: Any) -> Any:
    """Replace numbers that JSON does not have, but Python stores, by "<NaN>", "<Infinity>" or "<-Infinity>"."""
    if isinstance(value, dict):
        return {name: marked(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [marked(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"<{json.dumps(value)}>"
    return value
