"""DynamoDB's limits: which values it refuses, and how large values are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from itertools import chain
from typing import Any

from pynamodb.attributes import Attribute
from pynamodb.constants import BINARY, BINARY_SET, BOOLEAN, LIST, MAP, NULL, NUMBER, NUMBER_SET, STRING, STRING_SET

from pynamodb_tracker.exceptions import ValueNotStorableError

MAX_ITEM_BYTES = 400 * 1024
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-items"""

MAX_KEY_BYTES = 1024
_KEY = "pynamodb_tracker_key"
_ENTRY: Mapping[str, Callable[[Any], object]] = {STRING_SET: str, NUMBER_SET: Decimal, BINARY_SET: bytes}
SETS = frozenset(_ENTRY)
MAX_DIGITS = 38
FOR_DECIMALS = "; for a Decimal, declare a DecimalAttribute() of pynamodb_tracker, or store its text"
_MOST_LEVELS = 31  # of nested maps and lists, without the innermost values
_LONGEST_NAME = 65_535
_EXACT = Context(prec=10_000, traps=[])  # never rounds
_HIGHEST_EXPONENT, _LOWEST_EXPONENT = 125, -130


def mark_as_key(attribute: Attribute[Any]) -> None:
    vars(attribute)[_KEY] = True


def is_key(attribute: Attribute[Any]) -> bool:
    """Return whether an attribute is a FindBy's hash key. DynamoDB refuses rows in which it is empty."""
    return _KEY in vars(attribute)


def check(owner: str, name: str, attribute: Attribute[Any], value: dict[str, Any] | None) -> None:
    if value is None:
        if not attribute.null:
            message = f"{owner}.{name} is None, and it is required: assign a value, or declare it with null=True"
            raise ValueNotStorableError(message, attribute=name)
        return
    key_problems = _key_problems(value) if is_key(attribute) else ()
    for problem in chain(_value_problems(value), key_problems):  # only the first, because others may not be computable
        raise ValueNotStorableError(f"{owner}.{name} cannot be stored: {problem}", attribute=name)


def _value_problems(value: Mapping[str, Any], level: int = 0) -> Iterator[str]:
    ((kind, content),) = value.items()
    if kind in (LIST, MAP) and level == _MOST_LEVELS:
        yield f"it is nested deeper than the {_MOST_LEVELS + 1} levels that DynamoDB allows"
    elif kind == NUMBER:
        yield from number_problems(content)
    elif kind == STRING:
        yield from _text_problems(content)
    elif kind == BINARY and not isinstance(content, bytes | bytearray):
        yield f"{content!r} is not bytes"
    elif kind == LIST:
        for entry in content:
            yield from _value_problems(entry, level + 1)
    elif kind == MAP:
        for name, entry in content.items():
            yield from _name_problems(name)
            yield from _value_problems(entry, level + 1)
    elif kind in SETS:
        yield from _set_problems(kind, content)


def _key_problems(value: Mapping[str, Any]) -> Iterator[str]:
    size = value_size(value)
    if not 1 <= size <= MAX_KEY_BYTES:
        yield f"a FindBy key has 1 to {MAX_KEY_BYTES:,} bytes, or is removed, but this has {size:,}"


def _set_problems(kind: str, content: Sequence[Any]) -> Iterator[str]:
    for entry in content:
        yield from _value_problems({kind[0]: entry})
    if len(set(map(_ENTRY[kind], content))) < len(content):
        yield "a set entry occurs twice"


def _name_problems(name: object) -> Iterator[str]:
    yield from _text_problems(name)
    if not name:
        yield "a map entry has an empty name"
    elif len(str(name).encode()) > _LONGEST_NAME:
        yield f"a map entry has a name of more than {_LONGEST_NAME:,} bytes"


def _text_problems(content: object) -> Iterator[str]:
    if not isinstance(content, str):
        yield f"{content!r} is not text{FOR_DECIMALS if isinstance(content, Decimal) else ''}"
        return
    try:
        content.encode()
    except UnicodeEncodeError as error:
        yield f"the text has a lone surrogate at {error.start}, which UTF-8 cannot encode"


def number_problems(content: object) -> Iterator[str]:
    try:
        number = Decimal(str(content))
    except InvalidOperation:
        yield f"{content} is not a number"
        return
    if not number.is_finite():
        yield f"{content} is not a finite number"
    elif number and not _LOWEST_EXPONENT <= number.adjusted() <= _HIGHEST_EXPONENT:
        yield f"{content} is outside 1E{_LOWEST_EXPONENT} to 9.9E+{_HIGHEST_EXPONENT}"
    elif len(without_zeros(number).as_tuple().digits) > MAX_DIGITS:
        yield f"{content} has more than {MAX_DIGITS} digits"


def without_zeros(number: Decimal) -> Decimal:
    """Return an equal number without trailing zeros, in any decimal context."""
    return number.normalize(_EXACT) if number else Decimal()


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return an item's size in bytes. Numbers are exact to one byte each.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
    """
    total, values = sum(map(len, map(str.encode, item))), [*item.values()]
    while values:
        ((kind, content),) = values.pop().items()
        if kind == STRING:
            total += len(content.encode())
        elif kind == NUMBER:  # a byte per two significant digits, one or two more, and one for a minus sign
            text = str(content)
            digits = text.strip("0") if text.isdigit() else text.upper().partition("E")[0].replace(".", "").strip("-0")
            total += len(digits) // 2 + 2 + text.startswith("-")
        elif kind == LIST:
            total += 3 + len(content)
            values += content
        elif kind == MAP:
            total += 3 + len(content) + sum(map(len, map(str.encode, content)))
            values += content.values()
        elif kind in SETS:
            values += [{kind[0]: entry} for entry in content]
        else:
            total += 1 if kind in (BOOLEAN, NULL) else len(content.encode() if isinstance(content, str) else content)
    return total


def value_size(value: Mapping[str, Any]) -> int:
    return item_size({"": value})
