"""Converts attribute values to their stored form. The user's values must read back equal."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, TypeVar

from pynamodb.attributes import (
    Attribute,
    AttributeContainer,
    BinarySetAttribute,
    BooleanAttribute,
    DynamicMapAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.constants import LIST, MAP, NULL, NUMBER, NUMBER_SET
from pynamodb.exceptions import AttributeNullError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item
from pynamodb_tracker.dynamodb.limits import FOR_DECIMALS, MAX_DIGITS, SETS, is_key, number_problems, without_zeros
from pynamodb_tracker.exceptions import ValueNotStorableError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import did_you_mean, shown
from pynamodb_tracker.model.codecs import MOST

T = TypeVar("T")

TOKEN = re.compile("[0-7][0-9a-f]{23}")
"""A time in nanoseconds, below 2**63, comes first, so that adding one never needs another digit."""

_STAMP = 31
_NO_ENTRIES = frozenset({"self", "_user_instantiated"})  # parameters of PynamoDB's constructor
_SHORT = 200  # a text's characters, or an integer's bits, in an error

_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    BinarySetAttribute: ((set, frozenset), "a set"),
    ListAttribute: ((list,), "a list"),
    NumberSetAttribute: ((set, frozenset), "a set"),
    UnicodeSetAttribute: ((set, frozenset), "a set"),
    UTCDateTimeAttribute: ((datetime,), "a datetime"),
}
"""The types that PynamoDB's attributes read back. They would store some others as something else."""


class IntegerAttribute(Attribute[int]):
    """A code or a count from 0 to 9,999,999,999, because chunk versions have 10 digits for a fence."""

    attr_type = NUMBER

    def serialize(self, value: int) -> str:
        return str(int(value))

    def deserialize(self, value: str) -> int:
        if 0 <= (number := int(value)) <= MOST:
            return number
        raise ValueError(f"{shown(value)} is not from 0 to {MOST:,}")


class TokenAttribute(UnicodeAttribute):
    def deserialize(self, value: str) -> str:
        if TOKEN.fullmatch(value) is None:
            raise ValueError(f"{shown(value)} is not a token of 24 hex digits")
        return value


class TimeAttribute(UTCDateTimeAttribute):
    """A time in UTC with microseconds. The stored strings sort by time."""

    def serialize(self, value: datetime) -> str:
        if value.tzinfo is None:
            raise ValueError(f"{self.attr_name} needs an aware datetime, not {value!r}: add tzinfo=UTC")
        return clock.stamp(value)

    def deserialize(self, value: str) -> datetime:
        if len(value) == _STAMP and value.endswith("+0000"):
            return datetime.fromisoformat(value)
        return super().deserialize(value)  # type: ignore[no-any-return,no-untyped-call]


class Coded(Attribute[T]):
    def __init__(
        self, attr_type: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any], *, null: bool = True
    ) -> None:
        super().__init__(null=null)
        self.attr_type = attr_type
        self._encode = encode
        self._decode = decode

    def serialize(self, value: T) -> Any:
        return None if value is None else self._encode(value)

    def deserialize(self, value: Any) -> Any:
        try:
            return self._decode(value)
        except KeyError as missing:
            raise ValueError(f"{missing} is missing, or of another type") from missing


class DecimalAttribute(Attribute[Decimal]):
    """An exact number, such as an amount of money, as a `decimal.Decimal`.

    It has at most 38 digits and a size from 1E-130 to 9.9E+125. NaN, infinity and floats are refused. Trailing zeros
    are not stored: 3.10 reads back as 3.1, which is equal.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html

    Args:
        null: Whether the attribute may be missing.
        default: Assigned when a row without the attribute is created or loaded.
        default_for_new: Assigned only when a row is created.
        attr_name: The stored name, by default the attribute's name.
        hash_key: Whether it is an index's hash key.
        range_key: Whether it is an index's range key.

    Examples:
        >>> amount = DecimalAttribute(null=True)
    """

    attr_type = NUMBER

    def __init__(
        self,
        *,
        null: bool | None = None,
        default: Decimal | Callable[[], Decimal] | None = None,
        default_for_new: Decimal | Callable[[], Decimal] | None = None,
        attr_name: str | None = None,
        hash_key: bool = False,
        range_key: bool = False,
    ) -> None:
        if default is not None and default_for_new is not None:
            raise ValueError("a DecimalAttribute has a default or a default_for_new, not both")
        super().__init__(hash_key, range_key, null=null, attr_name=attr_name)
        self.default = default  # PynamoDB takes a Decimal for mutable
        self.default_for_new = default_for_new

    def __set__(self, instance: Any, value: Decimal | int | None) -> None:
        super().__set__(instance, Decimal(value) if type(value) is int else value)  # type: ignore[arg-type]

    def serialize(self, value: object) -> str:
        """Return the digits. Raise TypeError or ValueError if the value cannot be stored."""
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            exact = f": write Decimal({shown(str(value))})" if isinstance(value, float | str) else ""
            raise TypeError(f"it takes a decimal.Decimal, not a {type(value).__name__}{exact}")
        for problem in number_problems(value):
            raise ValueError(problem)
        number = without_zeros(Decimal(value))  # as DynamoDB returns it
        return f"{number:f}" if -MAX_DIGITS < number.adjusted() < MAX_DIGITS else str(number)

    def deserialize(self, value: str) -> Decimal:
        return Decimal(value)


class StoredValue:
    """A value in stored form, to be written unchanged. Otherwise, numbers could lose digits."""

    __slots__ = ("stored",)

    def __init__(self, stored: dict[str, Any]) -> None:
        self.stored = stored


def serialized(
    row: AttributeContainer, name: str, attribute: Attribute[Any], *, loaded: Item | None = None, complete: bool = True
) -> dict[str, Any] | None:
    """Return a row's attribute in stored form, or None for None. Errors name the attribute.

    `loaded` is the item of the row. Unless `complete`, a map may lack a required entry, because the row may be older
    than that declaration.
    """
    value = row.attribute_values.get(name)
    if isinstance(value, StoredValue):
        return value.stored
    try:
        stored = _serialize(value, attribute, loaded, name, complete=complete)
    except AttributeNullError as error:
        raise ValueNotStorableError(
            f"{_describe(row, name)}: {error.attr_path} is missing, and it is required", attribute=name
        ) from error
    except Exception as error:  # noqa: BLE001 - a user's attribute may raise anything
        hint = FOR_DECIMALS if "Decimal" in str(error) and not isinstance(attribute, DecimalAttribute) else ""
        is_data = name == "data"  # its errors name the entry
        kind = "JSON" if is_data else type(attribute).__name__
        raise ValueNotStorableError(
            f"{_describe(row, name)} cannot be stored as {kind}: {error}{hint}", attribute=name
        ) from (None if is_data else error)
    if stored is None or (stored == "" and is_key(attribute)):
        return None
    return {attribute.attr_type: stored}


def _serialize(value: Any, attribute: Attribute[Any], loaded: Item | None, name: str, *, complete: bool) -> Any:
    if value is None:
        return None
    kind: Any = type(attribute)
    own = _pynamodb_class(kind)
    if own is not None:
        _check_kind(own, value)
    if isinstance(value, MapAttribute) and not value.validate(null_check=complete):
        raise ValueError("it is not correctly typed")
    if isinstance(attribute, ListAttribute | MapAttribute):
        return attribute.serialize(value, null_check=complete)
    try:
        text = attribute.serialize(value)
    except RecursionError:
        refuse_json(value, name)
        raise
    if own is JSONAttribute and not _is_as_loaded(loaded, attribute, text) and not reads_back(text, value):
        refuse_json(value, name)
        raise ValueError(f"{name} does not read back equal from JSON")
    return text


def _check_kind(own: Any, value: object) -> None:
    """Refuse values that PynamoDB would store as something else, such as text as a list of letters."""
    if own is BooleanAttribute and value not in (True, False):
        raise TypeError("write True or False")
    if own in _KINDS and not isinstance(value, _KINDS[own][0]):
        raise TypeError(f"write {_KINDS[own][1]}, not a {type(value).__name__}")


@cache
def _pynamodb_class(kind: Any) -> Any:
    """Return an attribute's PynamoDB class, or None if the user overrides `serialize`."""
    known = (*_KINDS, BooleanAttribute, JSONAttribute)
    return next((own for own in known if issubclass(kind, own) and kind.serialize is own.serialize), None)


def _is_as_loaded(loaded: Item | None, attribute: Attribute[Any], text: str) -> bool:
    """Return whether the row was loaded with this JSON, which may be more than JSON allows."""
    before = (loaded or {}).get(attribute.attr_name, {}).get(attribute.attr_type)
    return before is not None and text in (before, attribute.serialize(attribute.deserialize(before)))


def reads_back(text: str, value: object) -> bool:
    try:
        return not strict_json.is_too_deep(value, text) and bool(_JSON.decode(text) == value)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def refuse_json(value: object, path: str, parents: tuple[int, ...] = ()) -> None:
    """Raise for the first entry that JSON would refuse or change, with its path."""
    if id(value) in parents:
        raise ValueError(f"{path} contains itself")
    parents = (*parents, id(value))
    if len(parents) > strict_json.MAX_DEPTH and isinstance(value, dict | list):
        raise strict_json.too_deep(path.partition("[")[0])
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: keys are strings in JSON")
            refuse_json(entry, f"{path}[{key!r}]", parents)
    elif isinstance(value, list):
        for position, entry in enumerate(value):
            refuse_json(entry, f"{path}[{position}]", parents)
    elif not isinstance(value, str | int | float | bool | None):
        hint = " (write its isoformat())" if hasattr(value, "isoformat") else ""
        raise TypeError(
            f"{path} is a {type(value).__name__}: JSON has text, numbers, booleans, None, lists and dicts{hint}"
        )
    elif isinstance(value, float) and not float("-inf") < value < float("inf"):
        raise ValueError(f"{path} is {value!r}, which JSON does not have")


def check_map(owner: str, name: str, attribute: MapAttribute[Any, Any], value: Mapping[Any, Any]) -> None:
    """Refuse map entries that PynamoDB would drop, because it takes them as keyword arguments."""
    known = attribute.get_attributes()
    for key in value:
        if not isinstance(key, str):
            problem = f"{key!r} is not text"
        elif key in _NO_ENTRIES:
            problem = f"an entry cannot be named {key!r}"
        elif known and key not in known and not isinstance(attribute, DynamicMapAttribute):
            problem = f"it has no {key!r}{did_you_mean(key, known)}"
        else:
            continue
        raise ValueNotStorableError(f"{owner}.{name} cannot be stored: {problem}", attribute=name)


def rewrite_value(
    row: AttributeContainer, name: str, attribute: Attribute[Any], old: dict[str, Any]
) -> dict[str, Any] | None:
    """Return a stored value as this program writes it, because other programs may use another format."""
    if NULL in old:
        return None
    try:
        value, loaded = attribute.deserialize(attribute.get_value(old)), {attribute.attr_name: old}
        return serialize_value(type(row), name, attribute, value, loaded=loaded, complete=False)
    except Exception:  # noqa: BLE001 - unreadable, so that any assigned value is a change
        return old


def serialize_value(
    model: type[AttributeContainer], name: str, attribute: Attribute[Any], value: object, **options: Any
) -> dict[str, Any] | None:
    row = model.__new__(model)
    vars(row)["attribute_values"] = {}
    attribute.__set__(row, value)
    return serialized(row, name, attribute, **options)


def _describe(row: AttributeContainer, name: str) -> str:
    value = row.attribute_values.get(name)
    short = isinstance(value, float | None) or (isinstance(value, int) and value.bit_length() < _SHORT)
    shown = repr(value) if short else repr(value[:_SHORT]) if isinstance(value, str) else f"a {type(value).__name__}"
    return f"{type(row).__name__}.{name} = {shown}"


def same(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Return whether two stored values are equal. Set order and number formats do not matter."""
    if old is None or new is None or NULL in old or NULL in new:
        return (old is None or NULL in old) and (new is None or NULL in new)
    ((kind, before),) = old.items()
    ((new_kind, after),) = new.items()
    return kind == new_kind and (before == after or _is_same(kind, before, after))


def _is_same(kind: str, before: Any, after: Any) -> bool:
    if kind == NUMBER:
        return _parse_number(before) == _parse_number(after)
    if kind == NUMBER_SET:
        return set(map(_parse_number, before)) == set(map(_parse_number, after))
    if kind in SETS:
        return set(before) == set(after)
    if kind == LIST:
        return len(before) == len(after) and all(map(same, before, after))
    if kind == MAP:
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    return False


def _parse_number(content: str) -> Decimal | str:
    try:
        return Decimal(content)
    except InvalidOperation:
        return content
