"""A use case with an attribute of every kind, and values that are nested, or that compare as plain ones."""

import json
from collections.abc import Mapping
from typing import Any

from pynamodb.attributes import (
    Attribute,
    BinaryAttribute,
    BinarySetAttribute,
    BooleanAttribute,
    DynamicMapAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
)

from pynamodb_tracker import Step, UseCase
from tests.support.shop import AppTask


class Line(MapAttribute[str, object]):
    sku = UnicodeAttribute()
    count = NumberAttribute(default=1)
    tags = UnicodeSetAttribute(null=True)


class Address(MapAttribute[str, object]):
    street = UnicodeAttribute()
    floor = NumberAttribute(null=True)
    lines = ListAttribute[Line](of=Line, null=True)


class Anything(DynamicMapAttribute):
    kind = UnicodeAttribute()


class Picky(Attribute[str]):
    """An attribute of the user's own, whose check fails in a way of its own."""

    attr_type = "S"

    def serialize(self, value: str) -> str:
        if value == "refused":
            raise RuntimeError("not this one")
        return value


class Odd(AppTask):
    use_case_id = UseCase("odd")

    work = Step(10)

    text = UnicodeAttribute(null=True)
    renamed = UnicodeAttribute(null=True, attr_name="r")
    number = NumberAttribute(null=True)
    flag = BooleanAttribute(null=True)
    when = UTCDateTimeAttribute(null=True)
    json = JSONAttribute(null=True)
    binary = BinaryAttribute(null=True, legacy_encoding=False)
    legacy = BinaryAttribute(null=True, legacy_encoding=True)
    raw_list = ListAttribute[Any](null=True)
    numbered = ListAttribute[Any](of=NumberAttribute, null=True)
    worded = ListAttribute[Any](of=UnicodeAttribute, null=True)
    addresses = ListAttribute[Any](of=Address, null=True)
    lines = ListAttribute[Line](of=Line, null=True)
    raw_map = MapAttribute[str, Any](null=True)
    address = Address(null=True)
    anything = Anything(null=True)
    texts = UnicodeSetAttribute(null=True)
    numbers = NumberSetAttribute(null=True)
    binaries = BinarySetAttribute(null=True, legacy_encoding=False)
    picky = Picky(null=True)


def nested_map(depth: int) -> dict[str, Any]:
    """Return so many maps in each other, and one with a number in the innermost."""
    value: dict[str, Any] = {"end": 1}
    for _ in range(depth):
        value = {"in": value}
    return value


def recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def plain(value: Any) -> Any:
    """Return maps of attributes as dictionaries, so that they compare."""
    if isinstance(value, MapAttribute):
        return {name: plain(entry) for name, entry in value.attribute_values.items()}
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def check_equal(name: str, found: Any, given: Any) -> None:
    """Check that a value read back is the one that was given; in JSON, 1 is not 1.0, nor True."""
    assert plain(found) == plain(given)
    if name in {"data", "json"}:
        assert json.dumps(found) == json.dumps(given)
    if isinstance(given, str | bool):
        assert type(found) is (bool if isinstance(given, bool) else str)
