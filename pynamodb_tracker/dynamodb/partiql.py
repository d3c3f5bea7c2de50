"""Translates expressions for UpdateItem, PutItem and DeleteItem into PartiQL statements for BatchExecuteStatement.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

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
from pynamodb.expressions.condition import And, Comparison, Condition
from pynamodb.expressions.operand import Path, Value
from pynamodb.expressions.update import Action, RemoveAction, SetAction

_KEY = ("task_id", "use_case_id")
IF_ABSENT = {CONDITION_EXPRESSION: f"attribute_not_exists ({_KEY[0]})"}
_LONGEST = 8_000  # characters, where DynamoDB allows 8,192
_MOST_TEXTS = 512  # a step has about twenty, plus one for each set of changes
_TESTS = {"attribute_exists": "IS NOT MISSING", "attribute_not_exists": "IS MISSING"}
_SUMS = ("{0} + {1}", "{0} - {1}")

_SUMMANDS = frozenset({"attempt", "fence"})
"""Attributes that a sum may contain. AWS documents only unquoted names there.

Such a name must not be a PartiQL keyword or a reserved word
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html)."""

_QUOTE = "'"
Typed = Mapping[str, Any]


class Rendered(str):
    """An expression rendered by PynamoDB, with its source."""

    __slots__ = ("source", "values")

    source: Condition | Sequence[Action]
    values: Mapping[str, Typed]

    @classmethod
    def of(cls, text: str, source: Condition | Sequence[Action], values: Mapping[str, Typed]) -> Self:
        rendered = cls(text)
        rendered.source, rendered.values = source, values
        return rendered


class Statement(NamedTuple):
    text: str
    parameters: list[Typed]

    def as_entry(self) -> dict[str, Any]:
        """Return the request's entry. A refusal returns the row, for which DynamoDB does not charge."""
        on_failure = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        return {"Statement": self.text, "Parameters": self.parameters, **on_failure}


_Text = tuple[str, list[str]]  # A translated expression, and its parameters' placeholders in order
_texts: dict[tuple[object, ...], _Text | None] = {}


def statement(operation: str, request: Mapping[str, Any]) -> Statement | None:
    """Return the write as a statement, or None if PartiQL cannot express it."""
    is_put = operation == "PutItem"
    attributes: Mapping[str, Typed] = request[ITEM if is_put else KEY]
    update, condition = request.get(UPDATE_EXPRESSION), request.get(CONDITION_EXPRESSION)
    is_rendered = isinstance(condition, Rendered) and (update is None or isinstance(update, Rendered))
    if not (IF_ABSENT.items() <= request.items() if is_put else is_rendered):  # INSERT never replaces an item
        return None
    names = request.get(EXPRESSION_ATTRIBUTE_NAMES, {}).values()
    shape = (operation, request[TABLE_NAME], update, condition, request.get(RETURN_VALUES), *attributes, *names)
    if shape not in _texts:
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        _texts[shape] = _translate_put(request) if is_put else _translate(operation, request)
    found = _texts.get(shape)
    if found is None:
        return None
    (text, places), values = found, request.get(EXPRESSION_ATTRIBUTE_VALUES, {})
    return Statement(text, [values[place] if place[0] == ":" else attributes[place] for place in places])


def item_key(request: Mapping[str, Any]) -> Mapping[str, Typed]:
    return request.get(KEY) or {name: request[ITEM][name] for name in _KEY}


def key_of(request: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the table and key of the written item. A batch may contain each only once."""
    return request[TABLE_NAME], *(each for value in item_key(request).values() for each in value.items())


def build_probe(operation: str, request: Mapping[str, Any]) -> Statement | None:
    """Return a harmless statement for this write, with a condition that never holds.

    If the engine applies it anyway, an update changes nothing, and a delete returns the item.
    """
    condition = request[CONDITION_EXPRESSION]
    never = And(condition.source, Path([next(iter(request[KEY]))]).does_not_exist())
    probe = {**request, CONDITION_EXPRESSION: Rendered.of(f"{condition} AND never", never, condition.values)}
    if operation == "UpdateItem":
        harmless = [RemoveAction(Path(["no such attribute"]))]
        return statement(operation, {**probe, UPDATE_EXPRESSION: Rendered.of("REMOVE nothing", harmless, {})})
    return statement(operation, {**probe, RETURN_VALUES: "ALL_OLD"})


class _Inexpressible(Exception):  # noqa: N818 - the write is sent alone
    """PartiQL lacks an equivalent, such as for if_not_exists."""


class _Writer:
    def __init__(self, expression: Rendered | None) -> None:
        self.places: list[str] = []
        self._values = {} if expression is None else expression.values

    def changes(self, actions: Sequence[Action]) -> str:
        """Return a clause per action, assignments first."""
        clauses = []
        for action in sorted(actions, key=lambda each: isinstance(each, RemoveAction)):
            if isinstance(action, RemoveAction):
                clauses.append(f"REMOVE {self._render_operand(action.values[0])}")
            elif isinstance(action, SetAction):
                clauses.append(f"SET {' = '.join(map(self._render_operand, action.values))}")
            else:
                raise _Inexpressible
        return " ".join(clauses)

    def condition(self, condition: Condition) -> str:
        operator, values = condition.operator, condition.values
        if operator in ("AND", "OR"):
            return f"({f' {operator} '.join(map(self.condition, values))})"
        if operator == "NOT":
            return f"(NOT {self.condition(values[0])})"
        first, *others = map(self._render_operand, values)
        if operator in _TESTS:
            return f"{first} {_TESTS[operator]}"
        if operator == "IN":
            return f"{first} IN [{', '.join(others)}]"
        if isinstance(condition, Comparison):
            return f"{first} {operator} {others[0]}"
        raise _Inexpressible

    def _render_operand(self, operand: Any) -> str:
        if isinstance(operand, Path):
            return ".".join(map(_render_segment, operand.path))
        if isinstance(operand, Value):
            self.places.append(self._find_place(operand.value))
            return "?"
        if operand.format_string in _SUMS:
            return str(operand.format_string.format(*map(self._render_summand, operand.values)))
        raise _Inexpressible

    def _render_summand(self, operand: Any) -> str:
        if not isinstance(operand, Path):
            return self._render_operand(operand)
        (name,) = operand.path if len(operand.path) == 1 else ("",)
        if name not in _SUMMANDS:
            raise _Inexpressible
        return str(name)

    def _find_place(self, value: Typed) -> str:
        """Return a value's placeholder. A plain text may equal the name of a Parameter, which is a type of text."""
        ((kind, content),) = value.items()
        for place, other in self._values.items():
            ((other_kind, other_content),) = other.items()
            if (kind, type(content), content) == (other_kind, type(other_content), other_content):
                return place
        raise _Inexpressible


def _render_segment(segment: str) -> str:
    name, bracket, elements = segment.partition("[")
    if not _can_be_named(name):
        raise _Inexpressible
    return f"{_quote(name)}{bracket}{elements}"


def _translate(operation: str, request: Mapping[str, Any]) -> _Text | None:
    update: Rendered | None = request.get(UPDATE_EXPRESSION)
    condition: Rendered = request[CONDITION_EXPRESSION]
    table, changed, guarded = _quote(request[TABLE_NAME]), _Writer(update), _Writer(condition)
    try:
        changes = "" if update is None else changed.changes(cast("Sequence[Action]", update.source))
        guard = guarded.condition(cast("Condition", condition.source))
    except _Inexpressible:
        return None
    verb = f"UPDATE {table} {changes}" if operation == "UpdateItem" else f"DELETE FROM {table}"  # noqa: S608 - quoted
    key = " AND ".join(f"{_quote(name)} = ?" for name in request[KEY])
    returned = request.get(RETURN_VALUES)
    returning = f" RETURNING {returned.replace('_', ' ')} *" if returned else ""
    text = f"{verb} WHERE {key} AND {guard}{returning}"
    return None if len(text) > _LONGEST else (text, [*changed.places, *request[KEY], *guarded.places])


def _translate_put(request: Mapping[str, Any]) -> _Text | None:
    attributes = ", ".join(f"'{name.replace(_QUOTE, 2 * _QUOTE)}': ?" for name in request[ITEM])
    text = f"INSERT INTO {_quote(request[TABLE_NAME])} VALUE {{{attributes}}}"
    is_possible = len(text) <= _LONGEST and all(map(_can_be_named, request[ITEM]))
    return (text, list(request[ITEM])) if is_possible else None


def _can_be_named(name: str) -> bool:
    """Return whether a statement can name an attribute. The engine mistakes some names for placeholders."""
    return not name.startswith(("#", ":"))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
