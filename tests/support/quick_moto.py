"""Makes moto twice as fast by caching what it would compute for each request.

It decides as before, but if paths overlap, its error may name a different pair. The patched names are from moto 5.2.
"""

import functools
import itertools
import json
import re
from collections import deque
from copy import deepcopy
from typing import Any

from moto.core import models, responses, utils
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.serialize import ResponseSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing import ast_nodes, expressions, validators
from moto.dynamodb.responses import DynamoHandler
from moto.utilities.utils import get_partition
from responses import CallbackResponse

from pynamodb_tracker.testing.tables import OneAtATime

_Traverser, _Node, _Leaf, _Expression, _Function, _UpdateParser, _Counts, _Overlaps = (  # moto's types are hidden
    getattr(module, name)
    for module, name in (
        (ast_nodes, "DepthFirstTraverser"),
        (ast_nodes, "Node"),
        (ast_nodes, "LeafNode"),
        (ast_nodes, "Expression"),
        (ast_nodes, "UpdateExpressionFunction"),
        (expressions, "UpdateExpressionParser"),
        (validators, "ActionCountValidator"),
        (validators, "OverlappingPathsValidator"),
    )
)

_MOST = 2000


def hurry() -> None:
    """Replace the slow functions for the rest of this process."""
    for owner, name, quicker in (
        (BotocoreStubber, "process_request", _process),
        (DynamoHandler, "serialized", _serialize),
        (models, "CallbackResponse", functools.cache(CallbackResponse)),  # of each address, at each start
        (responses, "gen_amzn_requestid_long", _number_request),
        (_UpdateParser, "make", staticmethod(_parsed)),  # callers copy before changing it
        (ConditionExpressionParser, "parse", _parse),
        (ConditionExpressionParser, "_lex_condition_expression", _lex),
        (_Traverser, "traverse_node_recursively", _traverse),
        (ResponseSerializer, "get_value", _value_of),
        (responses, "method_names_from_class", functools.cache(utils.method_names_from_class)),
        (validators, "deepcopy", _copied),
        (DynamoType, "__deepcopy__", _copy_of_value),
        (LimitedSizeDict, "__setitem__", _set_attribute),
        (Table, "__deepcopy__", _copy_of_table),
        (DynamoDBBackend, "transact_write_items", _transact),
        (_Node, "find_clauses", _find_clauses),
    ):
        setattr(owner, name, quicker)


_URL = re.compile(r"https?://dynamodb\.([a-z0-9-]+)\.amazonaws\.com/?")
_QUICK = re.compile(rb"DynamoDB_\d+\.(\w*(?:Items?|Statement|Table|TimeToLive)|Query|Scan)")
"""Operations with inputs and outputs that already have the form in which they are sent."""
_process_any = BotocoreStubber.process_request
_serialize_any = DynamoHandler.serialized
_requests = itertools.count()


def _process(stubber: Any, request: Any) -> Any:
    """Pass a request on without moto's general parser for services and protocols.

    A request with bytes takes the usual way, which decodes them.
    """
    target, url = request.headers.get("X-Amz-Target", ""), _URL.fullmatch(request.url)
    named = target if isinstance(target, bytes) else target.encode()
    if not (url and _QUICK.fullmatch(named)) or b'"B"' in request.body or b'"BS"' in request.body:
        return _process_any(stubber, request)
    handler = DynamoHandler()
    handler.headers = {name: _as_text(value) for name, value in request.headers.items()}
    handler.querystring = handler.uri_match = {}
    handler.params = json.loads(request.body)
    handler.region, handler.uri = url[1], request.url
    handler.partition = get_partition(handler.region)
    handler.response_headers = {"server": "amazon.com"}
    handler.access_key = handler.get_access_key()
    handler.current_account = handler.get_current_account()
    return handler.call_action()


def _as_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _serialize(handler: Any, action_result: Any) -> Any:
    """Send an operation's output as it is, unless it contains bytes or an error."""
    if type(action_result.result) is dict and _QUICK.fullmatch(handler.headers["X-Amz-Target"].encode()):
        try:
            body = json.dumps(action_result.result)
        except TypeError:
            return _serialize_any(handler, action_result)
        return 200, {"Content-Type": "application/x-amz-json-1.0", **handler.response_headers}, body.encode()
    return _serialize_any(handler, action_result)


def _number_request(headers: dict[str, Any]) -> str:
    """Give the response an id as long as AWS's, without drawing 52 random characters."""
    headers["x-amzn-requestid"] = number = f"{next(_requests):052}"
    return number


_parsed = functools.lru_cache(_MOST)(_UpdateParser.make)
_parse_anew = ConditionExpressionParser.parse
_conditions: dict[tuple[str, ...], tuple[Any, list[str], list[str]]] = {}


def _parse(parser: Any) -> Any:
    """Parse a condition once. moto does it twice, to see its names and values, and to decide."""
    if not parser.condition_expression:
        return _parse_anew(parser)
    given = (parser.expression_attribute_names, parser.expression_attribute_values)
    key = (parser.condition_expression, *map(repr, given))
    if key not in _conditions:
        condition = _parse_anew(parser)
        if len(_conditions) >= _MOST:
            _conditions.clear()
        _conditions[key] = condition, parser.expr_attr_names_found[:], parser.expr_attr_values_found[:]
        return condition
    condition, names, values = _conditions[key]
    parser.expr_attr_names_found.extend(names)
    parser.expr_attr_values_found.extend(values)
    return condition


_lex_anew = ConditionExpressionParser._lex_condition_expression
_value_of_any = ResponseSerializer.get_value


@functools.lru_cache(_MOST)
def _lexed(condition: str) -> tuple[Any, ...]:
    return tuple(_lex_anew(ConditionExpressionParser(condition, {}, {})))


def _lex(parser: Any) -> deque[Any]:
    """Return a condition's tokens, which the parser takes from the left."""
    return deque(_lexed(parser.condition_expression))


class _Kind:
    """How a traverser processes nodes of one class."""

    def __init__(self, traverser: Any, kind: type) -> None:
        self.is_node = issubclass(kind, _Node)
        methods = traverser._processing_map().items() if self.is_node else ()
        self.process = next((method.__func__ for of, method in methods if issubclass(kind, of)), None)
        self.looks = type(traverser).pre_processing_of_child is not _Traverser.pre_processing_of_child
        self.is_passed = not self.is_node or (self.process is None and not self.looks and issubclass(kind, _Leaf))


class _Kinds(dict[type, _Kind]):
    def __init__(self, traverser: Any) -> None:
        self._traverser = traverser

    def __missing__(self, kind: type) -> _Kind:
        found = self[kind] = _Kind(self._traverser, kind)
        return found


_kinds: dict[type, _Kinds] = {}


def _traverse(traverser: Any, node: Any, child_id: int = -1) -> Any:
    """Do the same as moto, but ask once per class of nodes how to process it.

    moto would also count clauses and look for overlapping paths again in each part.
    """
    if type(traverser) in {_Counts, _Overlaps}:
        traverser.process(node)
        return node
    kinds = _kinds.get(type(traverser))
    if kinds is None:
        kinds = _kinds[type(traverser)] = _Kinds(traverser)
    return _walk(traverser, node, child_id, kinds) if kinds[type(node)].is_node else node


def _walk(traverser: Any, node: Any, child_id: int, kinds: _Kinds) -> Any:
    kind, parent = kinds[type(node)], node.parent
    for number, child in enumerate(node.children or ()):
        if kind.looks:
            traverser.pre_processing_of_child(node, number)
        if not kinds[type(child)].is_passed:
            _walk(traverser, child, number, kinds)
    if kind.process is not None:
        node = kind.process(traverser, node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


def _copied(value: Any, parent: Any = None) -> Any:
    """Copy an expression node by node, and anything else by deepcopy."""
    if not isinstance(value, _Node):
        return deepcopy(value)
    copy = object.__new__(type(value))
    vars(copy).update(vars(value), parent=parent)
    if value.children is not None:
        copy.children = [_copied(child, copy) for child in value.children]
    return copy


def _copy_of_value(value: Any, _memo: object) -> Any:
    """Copy an attribute value. moto changes lists, maps and sets in place, but replaces other values."""
    copy = object.__new__(type(value))
    copy.type = value.type
    inner = value.value
    if value.type == "L":
        inner = [_copy_of_value(each, None) for each in inner]
    elif value.type == "M":
        inner = {name: _copy_of_value(each, None) for name, each in inner.items()}
    elif type(inner) is list:
        inner = list(inner)
    copy.value = inner
    return copy


_set_and_measure = LimitedSizeDict.__setitem__
_MOST_BYTES = 405_000
"""The largest item that moto takes."""


def _set_attribute(attributes: Any, name: str, value: Any) -> None:
    """Set an attribute, and let moto measure the item only if it may be too large."""
    names, values = (name, *attributes), (value, *attributes.values())
    if 4 * sum(map(len, names)) + sum(map(_bytes_at_most, values)) > _MOST_BYTES:
        _set_and_measure(attributes, name, value)
    else:
        dict.__setitem__(attributes, name, value)


def _bytes_at_most(value: Any) -> int:
    if type(value) is not DynamoType:
        return _MOST_BYTES
    return 4 * len(value.value) if type(value.value) is str else value.size()


_transact_anew = DynamoDBBackend.transact_write_items
_before: dict[int, Table] = {}
"""The copies of a transaction's tables, by their ids. moto asks for one per write, before it writes anything."""


def _transact(backend: Any, items: Any) -> None:
    with OneAtATime._gate:  # which a user's own connection does not take
        try:
            _transact_anew(backend, items)
        finally:
            _before.clear()


def _copy_of_table(table: Any, memo: Any) -> Any:
    """Copy what a transaction changes in a table: its items, and the records of its stream."""
    if id(table) not in _before:
        of_tables: Any = type(table)
        copy = memo[id(table)] = _before[id(table)] = object.__new__(of_tables)
        changed = deepcopy({"items": table.items, "stream_shard": table.stream_shard}, memo)
        vars(copy).update(vars(table), **changed)
    return _before[id(table)]


def _find_clauses(node: Any, kinds: Any) -> list[Any]:
    found = []
    for child in node.children or ():
        kind: Any = type(child)
        if kind in kinds:
            found.append(child)
        elif _may_have_clauses(kind):
            found += _find_clauses(child, kinds)
    return found


@functools.cache
def _may_have_clauses(kind: type) -> bool:
    return issubclass(kind, _Expression | _Function)


def _value_of(serializer: Any, value: Any, key: str, shape: Any) -> Any:
    """Look up an attribute value's type by its own name, because it has no other."""
    if type(value) is dict and getattr(getattr(shape, "parent", None), "name", "") == "AttributeValue":
        return value.get(key)
    return _value_of_any(serializer, value, key, shape)
