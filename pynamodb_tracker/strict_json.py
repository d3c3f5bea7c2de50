"""JSON that every other program can read: without NaN and infinity, and not nested deeper than any Python can walk.

https://datatracker.ietf.org/doc/html/rfc8259#section-6
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 200
"""How many lists and dictionaries may be nested in each other where a value is stored as JSON. Python stops at its own
limit, which depends on its version, and on how deep the stack is when it reads."""


def dumps(value: object, **options: Any) -> str:
    """Return the text of a value; a ValueError if it has a NaN or an infinity. Options are those of `json.dumps`."""
    return json.dumps(value, allow_nan=False, **options)


def is_too_deep(value: object, text: str) -> bool:
    """Return whether a value, whose text this is, has more than 200 levels of lists and dictionaries."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(MAX_DEPTH):
        below = [each for parent in level for each in (parent.values() if isinstance(parent, dict) else parent)]
        level = list({id(each): each for each in below if isinstance(each, dict | list | tuple)}.values())
    return bool(level)


def too_deep(name: str) -> ValueError:
    """Return the error for a value that is nested too deep."""
    return ValueError(f"{name} is nested more than {MAX_DEPTH} levels deep")


def marked(value: Any) -> Any:
    """Return the value with text in place of numbers that JSON does not have: "<NaN>", "<Infinity>", "<-Infinity>".

    Other programs may have stored such numbers: Python's own `json` writes them.
    """
    if isinstance(value, dict):
        return {name: marked(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [marked(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"<{json.dumps(value)}>"
    return value
