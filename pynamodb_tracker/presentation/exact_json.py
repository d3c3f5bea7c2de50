"""JSON that keeps all digits of numbers, which a float would not."""

import json
import secrets
from decimal import Decimal, InvalidOperation
from typing import Any

from pynamodb.attributes import Attribute, JSONAttribute

from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown

TOO_DEEP = "its JSON is nested deeper than Python can walk"


def loads(text: str, **options: Any) -> Any:
    """Parse JSON. A number that a float would change becomes a Decimal."""
    return json.loads(text, parse_float=_parse_number, **options)


def read(text: str) -> Any:
    """Parse JSON that a person wrote. A ValueError says how to write it."""
    try:
        value = with_floats(loads(text))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except ValueError:
        raise ValueError(f'{shown(text)} is not JSON: write text in quotes, as in "yes"') from None
    if value is None:
        raise ValueError("null is not a value: write true, a number, or text in quotes")
    return value


def dumps(value: object, **options: Any) -> str:
    """Write a value that may have Decimals, with `json.dumps` options. NaN becomes "<NaN>"."""
    mark = secrets.token_hex(16)  # json writes a Decimal as a marked string, which loses its quotes below

    def marked(number: object) -> str:
        if not (isinstance(number, Decimal) and number.is_finite()):
            raise TypeError(f"JSON has no {number!r}")
        return f"{mark}{number}{mark}"

    try:
        text = strict_json.dumps(value, default=marked, **options)
    except ValueError:
        text = strict_json.dumps(strict_json.marked(value), default=marked, **options)
    return text.replace(f'"{mark}', "").replace(f'{mark}"', "")


def has_decimals(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(has_decimals, value.values()))
    return any(map(has_decimals, value)) if isinstance(value, list) else isinstance(value, Decimal)


def with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(with_floats, value))
    return float(value) if isinstance(value, Decimal) else value


def is_text_of(attribute: Attribute[Any]) -> bool:
    """Return whether an attribute stores plain JSON. A subclass may store something else."""
    kind = type(attribute)
    return (kind.serialize, kind.deserialize) == (JSONAttribute.serialize, JSONAttribute.deserialize)


def _parse_number(text: str) -> float | Decimal:
    number = float(text)
    try:
        return number if repr(number) == text else Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the exponent of {text} is too large") from None
