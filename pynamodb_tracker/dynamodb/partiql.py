"""Writes as PartiQL statements: what UpdateItem, PutItem and DeleteItem say by expressions, one statement says as text.

A `BatchExecuteStatement` has up to 25 of them, each with its own condition and its own answer
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pynamodb.constants import (
    CONDITION_EXPRESSION,
    EXPRESSION_ATTRIBUTE_NAMES,
    EXPRESSION_ATTRIBUTE_VALUES,
    ITEM,
    KEY,
    RETURN_VALUES,
    TABLE_NAME,
    UPDATE_EXPRESSION,
)

_KEY = ("task_id", "use_case_id")
"""The attributes of the table's key."""

_LONGEST = 8_000
"""Characters of a statement; DynamoDB refuses more than 8,192."""

_MOST_TEXTS = 512
"""How many translated expressions are kept; a step has about twenty, and one more for each set of changes."""

_PLACE = re.compile(r"[#:]\d+")
"""The placeholder of a name or a value in an expression of PynamoDB."""

_PATH = r"#\d+(?:\[\d+\]|\.#\d+)*"
_CLAUSES = re.compile(r"(?:^| )(SET|REMOVE|ADD|DELETE) ")
_ASSIGNMENT = re.compile(rf", (?={_PATH} = )")
_LACKS = re.compile(rf"attribute_not_exists \(({_PATH})\)")
_HAS = re.compile(rf"attribute_exists \(({_PATH})\)")
_LIST = re.compile(r"IN \(([^()]*)\)")
_UNKNOWN = re.compile(r"[a-z_]+ \(|\b(?:ADD|DELETE) ")
"""What has no counterpart in PartiQL, or none that this module knows, such as if_not_exists."""

_QUOTE = "'"

Typed = Mapping[str, Any]
"""A value in the form of DynamoDB's API, `{"S": "text"}`."""


class Statement(NamedTuple):
    """A write, as `BatchExecuteStatement` takes it."""

    text: str
    parameters: list[Typed]

    def as_entry(self) -> dict[str, Any]:
        """Return it as an entry of the request; its refusal has the row in it, for which DynamoDB does not charge."""
        return {
            "Statement": self.text,
            "Parameters": self.parameters,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }


class _Text(NamedTuple):
    """A translated expression: its text, and the placeholder of each of its parameters, in their order."""

    text: str
    places: list[str]


_texts: dict[tuple[object, ...], _Text | None] = {}


def statement(operation: str, request: Mapping[str, Any]) -> Statement | None:
    """Return the write as one statement; None if PartiQL cannot express it, or not in a text that is short enough."""
    if operation == "PutItem":
        return _insert(request)
    key: Mapping[str, Typed] = request[KEY]
    expressions = request.get(UPDATE_EXPRESSION), request.get(CONDITION_EXPRESSION), request.get(RETURN_VALUES)
    names = request.get(EXPRESSION_ATTRIBUTE_NAMES, {})
    shape = (operation, request[TABLE_NAME], *expressions, *key, *names.values())
    if shape not in _texts:
        _keep(shape, _translated(operation, request))
    text = _texts.get(shape)
    if text is None:
        return None
    values = request.get(EXPRESSION_ATTRIBUTE_VALUES, {})
    return Statement(text.text, [values[place] if place[0] == ":" else key[place] for place in text.places])


def item_key(request: Mapping[str, Any]) -> Mapping[str, Typed]:
    """Return the key of the item that a write is about."""
    return request.get(KEY) or {name: request[ITEM][name] for name in _KEY}


def key_of(request: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what identifies the item that a write is about: a batch has each item once."""
    return request[TABLE_NAME], *(each for value in item_key(request).values() for each in value.items())


def impossible(operation: str, request: Mapping[str, Any]) -> Statement | None:
    """Return the statement of this write under its own condition and another one that never holds.

    An update changes nothing even if it is applied; a delete returns the item then.
    """
    names = {"#9998": next(iter(request[KEY])), "#9999": "no such attribute"}
    harmless = {UPDATE_EXPRESSION: "REMOVE #9999"} if operation == "UpdateItem" else {RETURN_VALUES: "ALL_OLD"}
    probe = {
        **request,
        **harmless,
        CONDITION_EXPRESSION: f"{request[CONDITION_EXPRESSION]} AND attribute_not_exists (#9998)",
        EXPRESSION_ATTRIBUTE_NAMES: {**request.get(EXPRESSION_ATTRIBUTE_NAMES, {}), **names},
    }
    return statement(operation, probe)


def _keep(shape: tuple[object, ...], text: _Text | None) -> None:
    """Keep a translation for the next write of that shape."""
    if len(_texts) >= _MOST_TEXTS:
        _texts.clear()
    _texts[shape] = text


def _translated(operation: str, request: Mapping[str, Any]) -> _Text | None:
    table, names = _quoted(request[TABLE_NAME]), request.get(EXPRESSION_ATTRIBUTE_NAMES, {})
    clauses = " ".join(_clauses(request.get(UPDATE_EXPRESSION, "")))
    condition = _translated_condition(request.get(CONDITION_EXPRESSION, ""))
    if _UNKNOWN.search(clauses) or _UNKNOWN.search(condition) or not all(map(_can_be_named, names.values())):
        return None
    changes, places = _filled(clauses, names)
    guard, places_of_guard = _filled(f" AND ({condition})" if condition else "", names)
    verb = f"UPDATE {table} {changes}" if operation == "UpdateItem" else f"DELETE FROM {table}"  # noqa: S608 - names are quoted, and values are parameters
    key = " AND ".join(f"{_quoted(name)} = ?" for name in request[KEY])
    returned = request.get(RETURN_VALUES)
    returning = f" RETURNING {returned.replace('_', ' ')} *" if returned else ""
    text = f"{verb} WHERE {key}{guard}{returning}"
    return None if len(text) > _LONGEST else _Text(text, [*places, *request[KEY], *places_of_guard])


def _clauses(update: str) -> Iterator[str]:
    """Yield a clause for each action of an update expression."""
    _, *parts = _CLAUSES.split(update)
    for verb, actions in zip(parts[::2], parts[1::2], strict=True):
        for action in _ASSIGNMENT.split(actions) if verb == "SET" else actions.split(", "):
            yield f"{verb} {action}"


def _translated_condition(condition: str) -> str:
    condition = _LACKS.sub(r"\1 IS MISSING", condition)
    condition = _HAS.sub(r"\1 IS NOT MISSING", condition)
    return _LIST.sub(r"IN [\1]", condition)


def _filled(text: str, names: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the text with names and question marks in place of the placeholders, and those of its parameters."""
    places = []

    def fill(match: re.Match[str]) -> str:
        if match[0][0] == "#":
            return _quoted(names[match[0]])
        places.append(match[0])
        return "?"

    return _PLACE.sub(fill, text), places


def _insert(request: Mapping[str, Any]) -> Statement | None:
    """Return a put that must not replace an item; an INSERT never does."""
    item: Mapping[str, Typed] = request[ITEM]
    names = list(request.get(EXPRESSION_ATTRIBUTE_NAMES, {}).values())
    if request.get(CONDITION_EXPRESSION) != "attribute_not_exists (#0)" or names != [_KEY[0]]:
        return None
    shape = ("PutItem", request[TABLE_NAME], *item)
    if shape not in _texts:
        attributes = ", ".join(f"'{name.replace(_QUOTE, 2 * _QUOTE)}': ?" for name in item)
        text = f"INSERT INTO {_quoted(request[TABLE_NAME])} VALUE {{{attributes}}}"
        is_possible = len(text) <= _LONGEST and all(map(_can_be_named, item))
        _keep(shape, _Text(text, list(item)) if is_possible else None)
    found = _texts.get(shape)
    return None if found is None else Statement(found.text, [item[name] for name in found.places])


def _can_be_named(name: str) -> bool:
    """Return whether a statement can name an attribute; the engine takes some names for placeholders, quoted or not."""
    return not name.startswith(("#", ":"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
