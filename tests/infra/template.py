"""A CloudFormation template with values for its parameters: what CloudFormation would ask of each service."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cfnlint.config import ConfigMixIn
from cfnlint.decode import cfn_yaml, decode_str
from cfnlint.runner import Runner

INFRA = Path(__file__).parent.parent.parent / "infra"

_PSEUDO_PARAMETERS = {"AWS::AccountId": "123456789012", "AWS::Partition": "aws"}

_LEFT_OUT = object()
"""What AWS::NoValue is while a template is resolved."""


class Template:
    """A template of this repository by its name, or another one by its text; an unknown function is a KeyError."""

    def __init__(self, name: str, /, **parameters: str) -> None:
        text = name if "\n" in name else (INFRA / name).read_text(encoding="utf-8")
        self.source: dict[str, Any] = json.loads(_as_json(text))
        unknown = parameters.keys() - self.source["Parameters"].keys()
        assert not unknown, f"{name} has no {unknown}"
        declared = self.source["Parameters"].items()
        given = {key: parameters.get(key, parameter.get("Default")) for key, parameter in declared}
        for key, value in given.items():
            assert value is not None, f"{name} needs {key}"
            assert self._takes(key, value), f"{key} of {name} cannot be {value!r}"
        self.parameters = {key: str(value) for key, value in given.items()}

    def _takes(self, key: str, value: str) -> bool:
        parameter = self.source["Parameters"][key]
        return bool(re.fullmatch(parameter.get("AllowedPattern", ".*"), str(value))) and (
            value in parameter.get("AllowedValues", [value])
        )

    def properties(self, resource: str) -> dict[str, Any]:
        resolved: dict[str, Any] = self.resolved(self.source["Resources"][resource]["Properties"])
        return resolved

    def outputs(self) -> dict[str, dict[str, Any]]:
        return {key: output for key, output in self.source["Outputs"].items() if self._is_there(output)}

    def body(self) -> str:
        """Return it as JSON, without outputs that there are not: moto asks for their values all the same."""
        return json.dumps({**self.source, "Outputs": self.outputs()})

    def resolved(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for each in node if (value := self.resolved(each)) is not _LEFT_OUT]
        if not isinstance(node, dict):
            return node
        if len(node) == 1 and (next(iter(node)) in {"Ref", "Condition"} or next(iter(node)).startswith("Fn::")):
            ((function, argument),) = node.items()
            return getattr(self, _FUNCTIONS[function])(argument)
        found = {key: self.resolved(each) for key, each in node.items()}
        return {key: value for key, value in found.items() if value is not _LEFT_OUT}

    def _is_there(self, part: Mapping[str, Any]) -> bool:
        return "Condition" not in part or self._condition(part["Condition"])

    def _ref(self, name: str) -> Any:
        return _LEFT_OUT if name == "AWS::NoValue" else self._value(name)

    def _condition(self, name: str) -> bool:
        return bool(self.resolved(self.source["Conditions"][name]))

    def _if(self, argument: list[Any]) -> Any:
        name, then, otherwise = argument
        return self.resolved(then if self._condition(name) else otherwise)

    def _not(self, argument: list[Any]) -> bool:
        return not self.resolved(argument[0])

    def _equals(self, argument: list[Any]) -> bool:
        first, second = map(self.resolved, argument)
        return str(first) == str(second)

    def _select(self, argument: list[Any]) -> Any:
        index, values = argument
        return self.resolved(values)[int(index)]

    def _split(self, argument: list[Any]) -> list[str]:
        separator, text = argument
        return str(self.resolved(text)).split(separator)

    def _sub(self, text: str) -> str:
        return re.sub(r"\$\{([\w:]+)\}", lambda name: self._value(name[1]), text)

    def _value(self, name: str) -> str:
        return _PSEUDO_PARAMETERS.get(name) or self.parameters[name]


def problems(text: str) -> list[Any]:
    """Return what cfn-lint finds in a template, also what it only mentions."""
    template, errors = decode_str(text)
    return errors or list(_linter().validate_template(template))


@cache
def _linter() -> Runner:
    """Return a linter, with its rules: reading them takes longer than most templates."""
    return Runner(ConfigMixIn(regions=["us-east-1"], include_checks=["I"]))


@cache
def _as_json(text: str) -> str:
    return json.dumps(cfn_yaml.loads(text))


_FUNCTIONS = {
    "Condition": "_condition",
    "Fn::Equals": "_equals",
    "Fn::If": "_if",
    "Fn::Not": "_not",
    "Fn::Select": "_select",
    "Fn::Split": "_split",
    "Fn::Sub": "_sub",
    "Ref": "_ref",
}
