"""DynamoDB in memory: requests as the library sends them, applied to items that are kept as text.

Only what the library sends is known; anything else raises. Every answer is text as well, so states can be compared.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

Rows = tuple[tuple[str, str], ...]
"""The keys and the items of a table, as JSON."""
Item = dict[str, Any]
Names = Mapping[str, str]
Evaluated = Callable[[Item, Names, Item], Any]
Change = Callable[[Item, Item, Names, Item], None]

_TOKENS = re.compile(r"[#:]?\w+|<=|>=|<>|[=<>()+,.\[\]-]")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheck"}


def dumped(value: Any) -> str:
    """Return the text of a request, an item or an answer."""
    return json.dumps(value, sort_keys=True, default=bytes.hex)


@cache
def loaded(text: str) -> Any:
    """Return what such a text is about, as a client has it. It is the same object each time."""
    return json.loads(text, object_hook=_Unchanged)


class _Unchanged(dict[str, Any]):
    """A part of an answer that all calls get which are answered so. It has bytes in place of their text."""

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__({"B": bytes.fromhex(value["B"])} if isinstance(value.get("B"), str) else value)

    __setitem__ = __delitem__ = pop = update = setdefault = None  # type: ignore[assignment]


def keys_of(item: Item) -> str:
    """Return the key of an item, as text."""
    return f"{item['task_id']['S']} {item['use_case_id']['S']}"


def item_at(rows: Rows, key: str) -> Item:
    """Return an item of the table; an empty one if there is none."""
    item: Item = loaded(dict(rows).get(key, "{}"))
    return item


@cache
def answered(rows: Rows, operation: str, text: str) -> tuple[Rows, str]:
    """Return the table after a request, and the answer: what it returns, or the error, under its code."""
    request, before = loaded(text), {key: loaded(item) for key, item in rows}
    items = dict(before)
    if operation == "TransactWriteItems":
        answer = _transaction(items, request)
    elif operation == "GetItem":
        found = items.get(keys_of(request["Key"]))
        answer = {"Item": found} if found else {}
    elif operation == "BatchGetItem":
        ((table, asked),) = request["RequestItems"].items()
        found = [items[keys_of(key)] for key in asked["Keys"] if keys_of(key) in items]
        answer = {"Responses": {table: found}}
    elif operation == "Query":
        answer = _queried(items.values(), request)
    else:
        answer = _written(items, operation, request)
    changed = {key: dumped(item) for key, item in items.items() if item is not before.get(key)}
    after = {key: item for key, item in rows if key in items} | changed
    return tuple(sorted(after.items())), dumped(answer)


def _transaction(items: dict[str, Item], request: Item) -> Item:
    before, reasons = dict(items), []
    for each in request["TransactItems"]:
        ((kind, write),) = each.items()
        answer = _written(items, _WRITES[kind], write)
        met = {"Item": answer["Item"]} if "Item" in answer else {}
        reasons.append({"Code": "ConditionalCheckFailed", **met} if "error" in answer else {"Code": "None"})
    if all(reason["Code"] == "None" for reason in reasons):
        return {}
    items.clear()
    items.update(before)
    return {"error": "TransactionCanceledException", "reasons": reasons}


def _written(items: dict[str, Item], operation: str, request: Item) -> Item:
    key = request.get("Key") or {name: request["Item"][name] for name in ("task_id", "use_case_id")}
    place, names, values = keys_of(key), request.get("ExpressionAttributeNames", {}), _values(request)
    before = items.get(place)
    condition = request.get("ConditionExpression")
    if condition is not None and not _condition(condition)(before or {}, names, values):
        shown = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and before is not None
        return {"error": "ConditionalCheckFailedException", **({"Item": before} if shown else {})}
    if operation == "PutItem":
        items[place] = request["Item"]
    elif operation == "DeleteItem":
        items.pop(place, None)
    elif operation == "UpdateItem":
        before = before or key
        items[place] = after = dict(before)
        for change in _changes(request.get("UpdateExpression", "")):
            change(before, after, names, values)
    returned = {"ALL_NEW": items.get(place), "ALL_OLD": before}.get(request.get("ReturnValues", ""))
    return {} if returned is None else {"Attributes": returned}


def _queried(items: Iterable[Item], request: Item) -> Item:
    names, values = request.get("ExpressionAttributeNames", {}), _values(request)
    tests = [_condition(request[name]) for name in ("KeyConditionExpression", "FilterExpression") if name in request]
    found = [item for item in sorted(items, key=keys_of) if all(test(item, names, values) for test in tests)]
    if not request.get("ScanIndexForward", True):
        found.reverse()
    found = found[: request.get("Limit", len(found))]
    return {"Items": found, "Count": len(found), "ScannedCount": len(found)}


def _values(request: Item) -> Item:
    values: Item = request.get("ExpressionAttributeValues", {})
    return values


class _Reader:
    """Reads an expression; what it returns evaluates it."""

    def __init__(self, text: str) -> None:
        self._left = _TOKENS.findall(text)[::-1]

    @property
    def next(self) -> str:
        return self._left[-1] if self._left else ""

    def take(self, expected: str | None = None) -> str:
        token: str = self._left.pop()
        assert expected in (None, token), (expected, token)
        return token

    def condition(self) -> Evaluated:
        return self._joined("OR", lambda: self._joined("AND", self._negated))

    def _joined(self, word: str, read: Callable[[], Evaluated]) -> Evaluated:
        parts, joined = [read()], any if word == "OR" else all
        while self.next == word:
            self.take()
            parts.append(read())
        return parts[0] if len(parts) == 1 else lambda *given: joined(part(*given) for part in parts)

    def _negated(self) -> Evaluated:
        if self.next == "NOT":
            self.take()
            part = self._negated()
            return lambda *given: not part(*given)
        if self.next == "(":
            self.take()
            part = self.condition()
            self.take(")")
            return part
        left = self.operand()
        if self.next == "IN":
            self.take()
            several = self._list()
            return lambda *given: left(*given) is not None and left(*given) in [each(*given) for each in several]
        if self.next == "BETWEEN":
            self.take()
            least = self.operand()
            self.take("AND")
            most = self.operand()
            return lambda *given: (
                _compare("<=", least(*given), left(*given)) and _compare("<=", left(*given), most(*given))
            )
        if self.next not in _COMPARED:
            return left
        sign, right = self.take(), self.operand()
        return lambda *given: _compare(sign, left(*given), right(*given))

    def operand(self) -> Evaluated:
        if self.next.startswith(":"):
            place = self.take()
            return lambda _item, _names, values: values[place]
        if self._left[-2:-1] == ["("] and not self.next.startswith("#"):
            return _function(self.take(), self._list())
        path = self.path()
        return lambda item, names, _values: _found(item, [names.get(each, each) for each in path])

    def path(self) -> list[str]:
        path = [self.take()]
        while self.next in (".", "["):
            is_index = self.take() == "["
            path.append(self.take())
            if is_index:
                path[-1] = f"[{path[-1]}"
                self.take("]")
        return path

    def _list(self) -> list[Evaluated]:
        self.take("(")
        parts = [self.operand()]
        while self.next == ",":
            self.take()
            parts.append(self.operand())
        self.take(")")
        return parts

    def changes(self) -> list[Change]:
        changes: list[Change] = []
        while self._left:
            kind = self.take()
            changes.append(self._change(kind))
            while self.next == ",":
                self.take()
                changes.append(self._change(kind))
        return changes

    def _change(self, kind: str) -> Change:
        path = self.path()
        if kind == "REMOVE":
            return lambda _before, after, names, _values: _stored(after, _named(path, names), None)
        if kind == "DELETE":
            value = self.operand()
            return lambda before, after, names, values: _stored(
                after, _named(path, names), _without(_found(before, _named(path, names)), value(before, names, values))
            )
        assert kind == "SET", kind
        self.take("=")
        value = self.operand()
        if self.next in ("+", "-"):
            sign, first, second = self.take(), value, self.operand()
            value = lambda *given: _sum(first(*given), sign, second(*given))  # noqa: E731 - one of two forms
        return lambda before, after, names, values: _stored(after, _named(path, names), value(before, names, values))


@cache
def _condition(text: str) -> Evaluated:
    return _Reader(text).condition()


@cache
def _changes(text: str) -> list[Change]:
    return _Reader(text).changes()


def _function(name: str, given: list[Evaluated]) -> Evaluated:
    match name:
        case "attribute_exists":
            return lambda *at: given[0](*at) is not None
        case "attribute_not_exists":
            return lambda *at: given[0](*at) is None
        case "contains":
            return lambda *at: _plain(given[1](*at)) in _plain(given[0](*at) or {"SS": []})
        case "begins_with":
            return lambda *at: str(_plain(given[0](*at))).startswith(_plain(given[1](*at)))
        case "if_not_exists":
            return lambda *at: given[1](*at) if given[0](*at) is None else given[0](*at)
        case "list_append":
            return lambda *at: {"L": [*given[0](*at)["L"], *given[1](*at)["L"]]}
        case _:
            raise TypeError(f"no rule for {name}")


def _named(path: list[str], names: Names) -> list[str]:
    return [names.get(each, each) for each in path]


def _found(item: Item, path: list[str]) -> Any:
    value = item.get(path[0])
    for each in path[1:]:
        value = None if value is None else value["M"].get(each)
    return value


def _stored(item: Item, path: list[str], value: Any) -> None:
    """Store a value in an item, or remove it; copy the maps and the list around it, which other items share."""
    if path[-1].startswith("["):
        *path, _ = path
        value = {"L": [*_found(item, path)["L"], value]}
    for each in path[:-1]:
        item[each] = {"M": dict(item[each]["M"])}
        item = item[each]["M"]
    if value is None:
        item.pop(path[-1], None)
    else:
        item[path[-1]] = value


def _without(several: Any, these: Any) -> Any:
    left = sorted({*several["SS"]} - {*these["SS"]}) if several else []
    return {"SS": left} if left else None


def _sum(one: Any, sign: str, other: Any) -> Any:
    return {"N": str(int(one["N"]) + (1 if sign == "+" else -1) * int(other["N"]))}


def _plain(value: Any) -> Any:
    ((kind, stored),) = value.items()
    if kind == "N":
        return Decimal(stored)
    return set(stored) if kind == "SS" else stored


def _compare(sign: str, one: Any, other: Any) -> bool:
    """Compare as DynamoDB does: what is not there, or of another type, is only unequal."""
    if one is None or other is None or one.keys() != other.keys():
        return sign == "<>" and one is not other
    return _COMPARED[sign](_plain(one), _plain(other))
