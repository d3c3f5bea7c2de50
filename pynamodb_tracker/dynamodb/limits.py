"""What DynamoDB takes: which values it would refuse, and how large they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import (
    BINARY,
    BINARY_SET,
    BOOLEAN,
    LIST,
    MAP,
    NULL,
    NUMBER,
    NUMBER_SET,
    STRING,
    STRING_SET,
)

from pynamodb_tracker.exceptions import ValueNotStorableError

__all__ = ["MAX_ITEM_BYTES", "SETS", "check", "item_size", "size"]

MAX_ITEM_BYTES = 400 * 1024
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-items"""

_ENTRY: Mapping[str, Callable[[Any], object]] = {STRING_SET: str, NUMBER_SET: Decimal, BINARY_SET: bytes}
"""What the entries of a set are compared as."""
SETS = frozenset(_ENTRY)
_MOST_DIGITS = 38
_MOST_LEVELS = 31
"""Of maps and lists in each other; the 32 levels of DynamoDB have what the innermost one holds among them."""
_LONGEST_NAME = 65_535
"""Bytes of the name of an entry of a map."""
_EXACT = Context(prec=10_000)
"""So that counting the digits of a number rounds none of them away."""
_HIGHEST_EXPONENT, _LOWEST_EXPONENT = 125, -130


def check(owner: str, name: str, attribute: Attribute[Any], value: dict[str, Any] | None) -> None:
    """Raise a ValueNotStorableError where DynamoDB would refuse the stored form; moto accepts what is refused here."""
    if value is None:
        if not attribute.null:
            raise ValueNotStorableError(
                f"{owner}.{name} is None, and it is required: assign a value, or declare it with null=True",
                attribute=name,
            )
        return
    for mistake in _mistakes(value):
        raise ValueNotStorableError(f"{owner}.{name} cannot be stored: {mistake}", attribute=name)


def _mistakes(value: Mapping[str, Any], level: int = 0) -> Iterator[str]:
    ((kind, content),) = value.items()
    if kind in (LIST, MAP) and level == _MOST_LEVELS:
        yield f"it is nested deeper than the {_MOST_LEVELS + 1} levels that DynamoDB has"
    elif kind == NUMBER:
        yield from _number_mistakes(content)
    elif kind == STRING:
        yield from _text_mistakes(content)
    elif kind == BINARY and not isinstance(content, bytes | bytearray):
        yield f"{content!r} is not bytes"
    elif kind == LIST:
        for entry in content:
            yield from _mistakes(entry, level + 1)
    elif kind == MAP:
        for name, entry in content.items():
            yield from _name_mistakes(name)
            yield from _mistakes(entry, level + 1)
    elif kind in SETS:
        yield from _set_mistakes(kind, content)


def _set_mistakes(kind: str, content: Sequence[Any]) -> Iterator[str]:
    for entry in content:
        yield from _mistakes({kind[0]: entry})
    if len(set(map(_ENTRY[kind], content))) < len(content):
        yield "an entry of the set is there twice"


def _name_mistakes(name: object) -> Iterator[str]:
    yield from _text_mistakes(name)
    if not name:
        yield "an entry of a map has an empty name"
    elif len(str(name).encode()) > _LONGEST_NAME:
        yield f"an entry of a map has a name of more than {_LONGEST_NAME:,} bytes"


def _text_mistakes(content: object) -> Iterator[str]:
    if not isinstance(content, str):
        yield f"{content!r} is not text"
        return
    try:
        content.encode()
    except UnicodeEncodeError as error:
        yield f"the text has a lone surrogate at {error.start}, which has no UTF-8"


def _number_mistakes(content: object) -> Iterator[str]:
    """See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html."""
    try:
        number = Decimal(str(content))
    except InvalidOperation:
        yield f"{content} is not a number"
        return
    if not number.is_finite():
        yield f"{content} is not a finite number"
    elif len(number.normalize(_EXACT).as_tuple().digits) > _MOST_DIGITS:
        yield f"{content} has more than {_MOST_DIGITS} digits"
    elif number and not _LOWEST_EXPONENT <= number.adjusted() <= _HIGHEST_EXPONENT:
        yield f"{content} is outside of 1E{_LOWEST_EXPONENT} to 9.9E+{_HIGHEST_EXPONENT}"


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the size of a row as DynamoDB counts it, attribute names included, to within a byte per number."""
    return sum(len(name.encode()) + size(value) for name, value in item.items())


def size(value: Mapping[str, Any]) -> int:
    """Return the size of a stored value in bytes.

    See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html.
    """
    ((kind, content),) = value.items()
    if kind in (BOOLEAN, NULL):
        return 1
    if kind == NUMBER:
        return len(content) // 2 + 2
    if kind == LIST:
        return 3 + sum(1 + size(entry) for entry in content)
    if kind == MAP:
        return 3 + sum(1 + len(name.encode()) + size(entry) for name, entry in content.items())
    if kind in SETS:
        return sum(size({kind[0]: entry}) for entry in content)
    return len(content.encode() if isinstance(content, str) else content)
