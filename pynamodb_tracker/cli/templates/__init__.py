"""CloudFormation and Terraform templates that deploy a table, as text."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from operator import attrgetter
from typing import Any

from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.row import StatusIndex
from pynamodb_tracker.task.task import Task

_STATUS_INDEX: str = StatusIndex.Meta.index_name

_KNOWN = {"task_id", "use_case_id", "status_key", "due_time"}
"""Keys of the table and of the status index. Each template contains their types."""


@dataclass(frozen=True, slots=True)
class _Index:
    name: str
    is_local: bool
    keys: tuple[tuple[str, str], ...]  # attribute names with their types, the hash key first
    projection: str
    included: tuple[str, ...]


def _find_indexes(model: type[Task]) -> list[_Index]:
    schema: Any = model.tracker.table.owner._get_schema()  # noqa: SLF001 - the same that PynamoDB sends
    found = []
    for kind in ("global", "local"):
        for index in schema[f"{kind}_secondary_indexes"]:
            if index["index_name"] == _STATUS_INDEX:
                continue
            types = {each["AttributeName"]: each["AttributeType"] for each in index["attribute_definitions"]}
            names = [key["AttributeName"] for key in sorted(index["key_schema"], key=lambda key: key["KeyType"])]
            keys, projection = tuple((name, types[name]) for name in names), index["projection"]
            included = tuple(projection.get("NonKeyAttributes", ()))
            found.append(_Index(index["index_name"], kind == "local", keys, projection["ProjectionType"], included))
    return sorted(found, key=attrgetter("name"))


def _index_names(indexes: Iterable[_Index]) -> list[str]:
    return [_STATUS_INDEX, *(index.name for index in indexes)]


def policies(model: type[Task]) -> str:
    indexes = (f'              - !Sub "${{TableArn}}/index/{name}"\n' for name in _index_names(_find_indexes(model)))
    return _fill("policies.yaml", {"indexes": "".join(indexes)})


def cloudformation(model: type[Task]) -> str:
    indexes = _find_indexes(model)
    parts = {
        "table_name": _quote(model.Meta.table_name),
        "stream": _stream_of(model) or "NONE",
        "attributes": "".join(
            f"        - AttributeName: {_quote(name)}\n          AttributeType: {kind}\n"
            for name, kind in _more_attributes(indexes)
        ),
        "global_indexes": "".join(_index_as_yaml(each) for each in indexes if not each.is_local),
        "local_indexes": "".join(_index_as_yaml(each) for each in indexes if each.is_local),
    }
    if parts["local_indexes"]:
        parts["local_indexes"] = f"      LocalSecondaryIndexes:\n{parts['local_indexes']}"
    return _fill("table.yaml", parts)


def terraform(model: type[Task]) -> str:
    indexes, stream = _find_indexes(model), _stream_of(model)
    parts = {
        "table_name": _hcl(model.Meta.table_name),
        "stream": _hcl(stream) if stream else "null",
        "attributes": "".join(
            f"\n  attribute {{\n    name = {_hcl(name)}\n    type = {_hcl(kind)}\n  }}\n"
            for name, kind in _more_attributes(indexes)
        ),
        "indexes": "".join(map(_index_as_hcl, indexes)),
        "index_names": ", ".join(map(_hcl, _index_names(indexes))),
    }
    return _fill("module.tf", parts)


def _stream_of(model: type[Task]) -> str | None:
    """Return the stream view type. Refuse provisioned capacity, which no template supports."""
    meta = model.tracker.table.owner.Meta
    if getattr(meta, "billing_mode", None) != "PAY_PER_REQUEST":
        raise TrackerError(
            f"{model.tracker.table.owner.__name__}.Meta asks for provisioned capacity, but the template is for "
            "on-demand mode: remove the capacity from Meta, or write your own template"
        )
    view: str | None = getattr(meta, "stream_view_type", None)
    return view


def _more_attributes(indexes: list[_Index]) -> list[tuple[str, str]]:
    keys = dict(chain.from_iterable(index.keys for index in indexes))
    return [(name, kind) for name, kind in keys.items() if name not in _KNOWN]


def _index_as_yaml(index: _Index) -> str:
    keys = "".join(
        f"            - AttributeName: {_quote(name)}\n              KeyType: {kind}\n"
        for (name, _), kind in zip(index.keys, ("HASH", "RANGE"), strict=False)
    )
    included = f"            NonKeyAttributes: {_quote(index.included)}\n" if index.included else ""
    return f"""\
        - IndexName: {_quote(index.name)}
          KeySchema:
{keys}          Projection:
            ProjectionType: {index.projection}
{included}"""


def _index_as_hcl(index: _Index) -> str:
    keys = "" if index.is_local else "".join(map(_key_schema, index.keys, ("HASH", "RANGE")))
    arguments: dict[str, object] = {"projection_type": index.projection}
    if index.included:
        arguments["non_key_attributes"] = index.included
    if index.is_local:
        arguments = {"name": index.name, "range_key": index.keys[1][0], **arguments}
        return f"\n  local_secondary_index {{\n{_arguments(4, arguments)}  }}\n"
    name = _arguments(4, {"name": index.name})
    return f"\n  global_secondary_index {{\n{name}{keys}\n{_arguments(4, arguments)}  }}\n"


def _key_schema(key: tuple[str, str], kind: str) -> str:
    return f"\n    key_schema {{\n{_arguments(6, {'attribute_name': key[0], 'key_type': kind})}    }}\n"


def _arguments(indent: int, values: Mapping[str, object]) -> str:
    width = max(map(len, values))
    return "".join(f"{'':{indent}}{name:{width}} = {_hcl(value)}\n" for name, value in values.items())


def _quote(value: object) -> str:
    """Quote text, or a list of it, for YAML and JSON."""
    return strict_json.dumps(value, ensure_ascii=False)


def _hcl(value: object) -> str:
    """Quote text, or a list of it, for Terraform, which would otherwise evaluate `${}` and `%{}`."""
    return _quote(value).replace("${", "$${").replace("%{", "%%{")


def _fill(name: str, parts: dict[str, str]) -> str:
    """Replace each `@name@` in a template."""
    text = (files("pynamodb_tracker.cli.templates") / name).read_text(encoding="utf-8")
    return re.sub("@([a-z_]+)@", lambda place: parts[place[1]], text)
