"""JSON that every program can read: without NaN and infinity, and with limited nesting.

https://datatracker.ietf.org/doc/html/rfc8259#section-6
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 200
"""How deep lists and dictionaries may be nested in a JSON value. Python's own limit varies with its version and with
the depth of the call stack."""


def dumps(value: object, **options: Any) -> str:
    """Serialize a value with the options of `json.dumps`. NaN and infinity raise a ValueError."""
    return json.dumps(value, allow_nan=False, **options)


def is_too_deep(value: object, text: str) -> bool:
    """Return whether the value, serialized as `text`, is nested deeper than 200 levels."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(MAX_DEPTH):
        below = [each for parent in level for each in (parent.values() if isinstance(parent, dict) else parent)]
        level = list({id(each): each for each in below if isinstance(each, dict | list | tuple)}.values())
    return bool(level)


def too_deep(name: str) -> ValueError:
    """Return the error for a value that is nested too deeply."""
    return ValueError(f"{name} is nested more than {MAX_DEPTH} levels deep")


def marked(value: Any) -> Any:
    """Return the value with "<NaN>", "<Infinity>" or "<-Infinity>" instead of numbers that JSON does not support.

    Python's `json` writes such numbers, so another program may have stored them.
    """
    if isinstance(value, dict):
        return {name: marked(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [marked(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"<{json.dumps(value)}>"
    return value
