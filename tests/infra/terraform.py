"""The Terraform module, read by python-hcl2, with values for its variables: what the provider would get."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import hcl2
from hcl2.utils import SerializationOptions

from tests.infra.template import INFRA

MODULE = INFRA / "terraform" / "main.tf"

_PLAIN = SerializationOptions(explicit_blocks=False, strip_string_quotes=True, with_comments=False)

Arguments = dict[str, Any]


class Module:
    """The module of this repository, or another text; an expression of a kind that it does not have is an error."""

    def __init__(self, text: str | None = None) -> None:
        text = MODULE.read_text(encoding="utf-8") if text is None else text
        source: dict[str, list[dict[str, Any]]] = json.loads(_as_json(text))
        self.resources: dict[str, Arguments] = {kind: each for one in source["resource"] for kind, each in one.items()}
        self.table: Arguments = self.resources["aws_dynamodb_table"]["tasks"]
        (self.locals,) = source["locals"]
        self.variables: dict[str, Arguments] = {key: each for one in source["variable"] for key, each in one.items()}
        self.outputs: dict[str, Arguments] = {key: each for one in source["output"] for key, each in one.items()}
        (self.requirements,) = source["terraform"]

    def arguments(self, **variables: Any) -> Arguments:
        """Return the arguments of the table, every block as a list of what is in it."""
        unknown = variables.keys() - self.variables.keys()
        assert not unknown, f"there is no variable {unknown}"
        names = {f"var.{key}": variables.get(key, each["default"]) for key, each in self.variables.items()}
        arguments: Arguments = _evaluated(self.table, names)
        return arguments

    def expression(self) -> str:
        """Return the arguments of the table as one expression, which Terraform can evaluate without the provider."""
        return _as_expression(self.table)


@cache
def _as_json(text: str) -> str:
    """Return a module as JSON, read once: python-hcl2 takes its time."""
    return json.dumps(hcl2.loads(text, serialization_options=_PLAIN))


def _evaluated(node: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_evaluated(each, names) for each in node]
    if isinstance(node, dict):
        plain = {key: _evaluated(each, names) for key, each in node.items() if key != "dynamic"}
        return plain | {
            key: [_evaluated(content, {**names, f"{key}.value": each}) for each in _evaluated(many, names)]
            for key, many, content in _dynamic(node)
        }
    expression = re.fullmatch(r"\$\{(.*)\}", node) if isinstance(node, str) else None
    return _value(expression[1], names) if expression else node


def _value(expression: str, names: Mapping[str, Any]) -> Any:
    if several := re.fullmatch(r"(\S+) == null \? \[\] : \[\1\]", expression):
        return [] if names[several[1]] is None else [names[several[1]]]
    if given := re.fullmatch(r"(\S+) != null", expression):
        return names[given[1]] is not None
    if expression in names:
        return names[expression]
    name, _, member = expression.rpartition(".")
    return names[name][member]


def _dynamic(node: Arguments) -> Iterator[tuple[str, Any, Arguments]]:
    """Yield dynamic blocks: the name, what there is one for, and what is in each."""
    for block in node.get("dynamic", ()):
        ((key, each),) = block.items()
        (content,) = each["content"]
        yield key, each["for_each"], content


def _as_expression(node: Any) -> str:
    if isinstance(node, list):
        return f"[{', '.join(map(_as_expression, node))}]"
    if isinstance(node, dict):
        parts = [f"{key} = {_as_expression(each)}" for key, each in node.items() if key != "dynamic"]
        for key, many, content in _dynamic(node):
            blocks = (
                f"for {key} in [for each in {_as_expression(many)} : {{ value = each }}] : {_as_expression(content)}"
            )
            parts.append(f"{key} = [{blocks}]")
        return f"{{ {', '.join(parts)} }}"
    expression = re.fullmatch(r"\$\{(.*)\}", node) if isinstance(node, str) else None
    return f"({expression[1]})" if expression else json.dumps(node)
