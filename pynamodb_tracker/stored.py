"""The stored form of values: what a row would hold, whether DynamoDB takes it, how large it is, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pynamodb.attributes import Attribute, ListAttribute, MapAttribute
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
from pynamodb.exceptions import AttributeNullError

from pynamodb_tracker.attributes import DataAttribute
from pynamodb_tracker.exceptions import ValueNotStorableError

if TYPE_CHECKING:
    from pynamodb_tracker.model import TaskRow

__all__ = ["MAX_ITEM_BYTES", "Stored", "check", "item_size", "same", "serialized", "size"]

Stored = dict[str, dict[str, Any]]
"""A row, or a part of one, as DynamoDB's API has it."""

MAX_ITEM_BYTES = 400 * 1024
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-items"""

_SETS = {STRING_SET, NUMBER_SET, BINARY_SET}
_MOST_DIGITS = 38
_HIGHEST_EXPONENT, _LOWEST_EXPONENT = 125, -130


def serialized(row: TaskRow, name: str, attribute: Attribute[Any]) -> dict[str, Any] | None:
    """Return the stored form of one attribute of a row, None where it has none; any failure names the attribute."""
    value = row.attribute_values.get(name)
    try:
        if isinstance(attribute, DataAttribute):
            stored: Any = attribute.stored(row)
        elif value is None:
            stored = None
        elif isinstance(value, MapAttribute) and not value.validate(null_check=True):
            raise ValueError("it is not correctly typed")
        elif isinstance(attribute, ListAttribute | MapAttribute):
            stored = attribute.serialize(value, null_check=True)
        else:
            stored = attribute.serialize(value)
    except AttributeNullError as error:
        raise ValueNotStorableError(
            f"{_told(row, name)}: {error.attr_path} is missing, and it is required", attribute=name
        ) from error
    except (ArithmeticError, AttributeError, KeyError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueNotStorableError(
            f"{_told(row, name)} cannot be stored as {type(attribute).__name__}: {error}", attribute=name
        ) from error
    return None if stored is None else {attribute.attr_type: stored}


def _told(row: TaskRow, name: str) -> str:
    value = row.attribute_values.get(name)
    shown = repr(value) if isinstance(value, str | int | float | None) else f"of type {type(value).__name__}"
    return f"{type(row).__name__}.{name} = {shown[:80]}"


def check(owner: str, name: str, attribute: Attribute[Any], value: dict[str, Any] | None) -> None:
    """Raise a ValueNotStorableError where DynamoDB would refuse the stored form; moto accepts what is refused here."""
    if value is None:
        if not attribute.null:
            raise ValueNotStorableError(
                f"{owner}.{name} is None, and it is required: assign a value, or declare it with null=True",
                attribute=name,
            )
        return
    try:
        _check(value)
    except ValueError as error:
        raise ValueNotStorableError(f"{owner}.{name} cannot be stored: {error}", attribute=name) from None


def _check(value: Mapping[str, Any]) -> None:
    ((kind, content),) = value.items()
    if kind == NUMBER:
        _check_number(content)
    elif kind == STRING:
        _check_text(content)
    elif kind == BINARY:
        if not isinstance(content, bytes | bytearray):
            raise ValueError(f"{content!r} is not bytes")
    elif kind == LIST:
        for entry in content:
            _check(entry)
    elif kind == MAP:
        for name, entry in content.items():
            _check_text(name)
            _check(entry)
    elif kind in _SETS:
        for entry in content:
            _check({kind[0]: entry})


def _check_text(content: object) -> None:
    if not isinstance(content, str):
        raise ValueError(f"{content!r} is not text")  # noqa: TRY004 - one error for whatever cannot be stored
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text has a lone surrogate at {error.start}, which has no UTF-8") from None


def _check_number(content: object) -> None:
    """See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html."""
    try:
        number = Decimal(str(content))
    except InvalidOperation:
        raise ValueError(f"{content} is not a number") from None
    if not number.is_finite():
        raise ValueError(f"{content} is not a finite number")
    if len(number.normalize().as_tuple().digits) > _MOST_DIGITS:
        raise ValueError(f"{content} has more than {_MOST_DIGITS} digits")
    if number and not _LOWEST_EXPONENT <= number.adjusted() <= _HIGHEST_EXPONENT:
        raise ValueError(f"{content} is outside of 1E{_LOWEST_EXPONENT} to 9.9E+{_HIGHEST_EXPONENT}")


def same(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Tell whether two stored values mean the same: sets in any order, numbers by value, None as nothing stored."""
    if old is None or new is None or NULL in old or NULL in new:
        return (old is None or NULL in old) and (new is None or NULL in new)
    ((kind, before),) = old.items()
    ((new_kind, after),) = new.items()
    if kind != new_kind:
        return False
    if kind == NUMBER:
        return before == after or _number(before) == _number(after)
    if kind == NUMBER_SET:
        return {_number(entry) for entry in before} == {_number(entry) for entry in after}
    if kind in _SETS:
        return set(before) == set(after)
    if kind == LIST:
        return len(before) == len(after) and all(map(same, before, after))
    if kind == MAP:
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    return bool(before == after)


def _number(content: str) -> Decimal | str:
    try:
        return Decimal(content)
    except InvalidOperation:
        return content


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
    if kind in _SETS:
        return sum(size({kind[0]: entry}) for entry in content)
    return len(content.encode() if isinstance(content, str) else content)
