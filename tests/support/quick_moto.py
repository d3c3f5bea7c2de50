"""Makes moto twice as fast by caching what it would compute for each request.

It decides as before, but if paths overlap, its error may name a different pair. The patched names are from moto 5.2.
"""

import functools
from collections import deque
from copy import deepcopy
from typing import Any

from moto.core import responses, utils
from moto.core.serialize import ResponseSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.parsing import ast_nodes, expressions, validators

_Traverser, _Node, _UpdateParser, _Counts, _Overlaps = (  # moto hides them from type checkers
    getattr(module, name)
    for module, name in (
        (ast_nodes, "DepthFirstTraverser"),
        (ast_nodes, "Node"),
        (expressions, "UpdateExpressionParser"),
        (validators, "ActionCountValidator"),
        (validators, "OverlappingPathsValidator"),
    )
)

_MOST = 2000
"""How many expressions to cache."""


def hurry() -> None:
    """Replace the slow functions, for the rest of this process."""
    for owner, name, quicker in (
        (_UpdateParser, "make", staticmethod(_parsed)),  # callers copy before changing it
        (ConditionExpressionParser, "_lex_condition_expression", _lex),
        (_Traverser, "traverse_node_recursively", _traverse),
        (ResponseSerializer, "get_value", _value_of),
        (responses, "method_names_from_class", functools.cache(utils.method_names_from_class)),
        (validators, "deepcopy", _copied),
        (DynamoType, "__deepcopy__", _copy_of_value),
    ):
        setattr(owner, name, quicker)


_parsed = functools.lru_cache(_MOST)(_UpdateParser.make)
_lex_anew = ConditionExpressionParser._lex_condition_expression
_value_of_any = ResponseSerializer.get_value


@functools.lru_cache(_MOST)
def _lexed(condition: str) -> tuple[Any, ...]:
    return tuple(_lex_anew(ConditionExpressionParser(condition, {}, {})))


def _lex(parser: Any) -> deque[Any]:
    """Return a condition's tokens, which the parser takes from the left."""
    return deque(_lexed(parser.condition_expression))


_known: dict[tuple[type, type], tuple[bool | None, bool]] = {}
"""By traverser and class: whether nodes are processed (None for other classes), and whether children are, before."""


def _ask(traverser: Any, kind: type) -> tuple[bool | None, bool]:
    """Determine and cache how a traverser treats a class."""
    is_node = issubclass(kind, _Node)
    processed = issubclass(kind, traverser.nodes_to_be_processed()) if is_node else None
    looks = type(traverser).pre_processing_of_child is not _Traverser.pre_processing_of_child
    return _known.setdefault((type(traverser), kind), (processed, looks))


def _traverse(traverser: Any, node: Any, child_id: int = -1) -> Any:
    """Traverse like moto does, but decide once per class, not per node, whether it is processed.

    moto would count clauses and look for overlapping paths in each part again, not only in the whole.
    """
    if type(traverser) in {_Counts, _Overlaps}:
        traverser.process(node)
        return node
    processed, looks = _known.get((type(traverser), type(node))) or _ask(traverser, type(node))
    if processed is None:
        return node
    parent = node.parent
    for number, child in enumerate(node.children or ()):
        if looks:
            traverser.pre_processing_of_child(node, number)
        _traverse(traverser, child, number)
    if processed:
        node = traverser.process(node)
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


def _value_of(serializer: Any, value: Any, key: str, shape: Any) -> Any:
    """Look up an attribute value's type by its own name, because it has no other."""
    if type(value) is dict and getattr(getattr(shape, "parent", None), "name", "") == "AttributeValue":
        return value.get(key)
    return _value_of_any(serializer, value, key, shape)
