"""moto in half of its time: what it works out anew for each request, though it depends on no row, is kept.

It answers as before. The names are those of moto 5.2.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

from moto.core.serialize import ResponseSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.parsing import ast_nodes, expressions

__all__ = ["hurry"]

_Traverser, _Node, _UpdateParser = (  # moto keeps them from type checkers
    getattr(module, name)
    for module, name in (
        (ast_nodes, "DepthFirstTraverser"),
        (ast_nodes, "Node"),
        (expressions, "UpdateExpressionParser"),
    )
)

_MOST = 2000
"""Expressions that are kept."""


def hurry() -> None:
    """Replace what takes long, in this process and for good."""
    for owner, name, quicker in (
        (_UpdateParser, "make", staticmethod(_parsed)),  # its users copy what they change
        (ConditionExpressionParser, "_lex_condition_expression", _lex),
        (_Traverser, "traverse_node_recursively", _traverse),
        (ResponseSerializer, "get_value", _value_of),
    ):
        setattr(owner, name, quicker)


_parsed = functools.lru_cache(_MOST)(_UpdateParser.make)
_lex_anew = ConditionExpressionParser._lex_condition_expression
_value_of_any = ResponseSerializer.get_value


@functools.lru_cache(_MOST)
def _lexed(condition: str) -> tuple[Any, ...]:
    return tuple(_lex_anew(ConditionExpressionParser(condition, {}, {})))


def _lex(parser: Any) -> deque[Any]:
    """Return the tokens of a condition, which the parser takes from the left."""
    return deque(_lexed(parser.condition_expression))


_processed: dict[tuple[type, type], bool | None] = {}
"""Whether a traverser processes nodes of a class, or None where the class is none of a node."""


def _traverse(traverser: Any, node: Any, child_id: int = -1) -> Any:
    """Do what moto does, but ask once for each class of nodes, not for each node, whether it is to be processed."""
    kinds = type(traverser), type(node)
    if kinds not in _processed:
        is_node = issubclass(kinds[1], _Node)
        _processed[kinds] = issubclass(kinds[1], traverser.nodes_to_be_processed()) if is_node else None
    processed = _processed[kinds]
    if processed is None:
        return node
    parent = node.parent
    for number, child in enumerate(node.children or ()):
        traverser.pre_processing_of_child(node, number)
        _traverse(traverser, child, number)
    if processed:
        node = traverser.process(node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


def _value_of(serializer: Any, value: Any, key: str, shape: Any) -> Any:
    """Look a type of an attribute value up under its own name: it has no other."""
    if type(value) is dict and getattr(getattr(shape, "parent", None), "name", "") == "AttributeValue":
        return value.get(key)
    return _value_of_any(serializer, value, key, shape)
