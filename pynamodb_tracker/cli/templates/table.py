"""The table of a class, as a CloudFormation template and as a Terraform module."""

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import chain

from pynamodb_tracker import strict_json
from pynamodb_tracker.cli.templates.indexes import Index, index_names, own_indexes
from pynamodb_tracker.cli.templates.policies import ROLES, Role
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.task.task import Task

_KNOWN = {"task_id", "use_case_id", "status_key", "due_time"}
"""Keys of the table and of the status index, whose types are in the text of each template."""


def cloudformation(model: type[Task]) -> str:
    """Return a stack of the table; TrackerError if its class asks for provisioned capacity."""
    indexes = own_indexes(model)
    parts = {
        "table_name": _quoted(model.Meta.table_name),
        "stream": _stream_of(model) or "NONE",
        "attributes": "".join(
            f"        - AttributeName: {_quoted(name)}\n          AttributeType: {kind}\n"
            for name, kind in _more_attributes(indexes)
        ),
        "global_indexes": "".join(_of_cloudformation(each) for each in indexes if not each.is_local),
        "local_indexes": "".join(_of_cloudformation(each) for each in indexes if each.is_local),
    }
    if parts["local_indexes"]:
        parts["local_indexes"] = f"      LocalSecondaryIndexes:\n{parts['local_indexes']}"
    return _filled("table.yaml", parts)


def terraform(model: type[Task]) -> str:
    """Return a module of the table and of its policies; TrackerError if its class asks for provisioned capacity."""
    indexes, stream = own_indexes(model), _stream_of(model)
    parts = {
        "table_name": _hcl(model.Meta.table_name),
        "stream": _hcl(stream) if stream else "null",
        "attributes": "".join(
            f"\n  attribute {{\n    name = {_hcl(name)}\n    type = {_hcl(kind)}\n  }}\n"
            for name, kind in _more_attributes(indexes)
        ),
        "indexes": "".join(map(_of_terraform, indexes)),
        "policies": "\n".join(_policy(name, role) for name, role in ROLES.items()),
        "index_names": ", ".join(map(_hcl, index_names(model))),
    }
    return _filled("module.tf", parts)


def _stream_of(model: type[Task]) -> str | None:
    """Return what the stream has that the class declares; refuse provisioned capacity, which no template has."""
    meta = model.tracker.table.owner.Meta
    if getattr(meta, "billing_mode", None) != "PAY_PER_REQUEST":
        raise TrackerError(
            f"{model.tracker.table.owner.__name__}.Meta asks for provisioned capacity, and the template is for "
            "on-demand mode: remove the capacity from Meta, or write a template of your own"
        )
    view: str | None = getattr(meta, "stream_view_type", None)
    return view


def _more_attributes(indexes: list[Index]) -> list[tuple[str, str]]:
    keys = dict(chain.from_iterable(index.keys for index in indexes))
    return [(name, kind) for name, kind in keys.items() if name not in _KNOWN]


def _of_cloudformation(index: Index) -> str:
    keys = "".join(
        f"            - AttributeName: {_quoted(name)}\n              KeyType: {kind}\n"
        for (name, _), kind in zip(index.keys, ("HASH", "RANGE"), strict=False)
    )
    included = f"            NonKeyAttributes: {_quoted(index.included)}\n" if index.included else ""
    return f"""\
        - IndexName: {_quoted(index.name)}
          KeySchema:
{keys}          Projection:
            ProjectionType: {index.projection}
{included}"""


def _of_terraform(index: Index) -> str:
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


def _policy(name: str, role: Role) -> str:
    return f"""\
    {name} = {{
      description = {_hcl(role.description)}
      statements = {{
{_arguments(8, role.statements)}      }}
    }}
"""


def _arguments(indent: int, values: Mapping[str, object]) -> str:
    """Return a line for each argument, as `terraform fmt` aligns them."""
    width = max(map(len, values))
    return "".join(f"{'':{indent}}{name:{width}} = {_hcl(value)}\n" for name, value in values.items())


def _quoted(value: object) -> str:
    """Return text, or a list of it, as YAML and JSON have it."""
    return strict_json.dumps(value, ensure_ascii=False)


def _hcl(value: object) -> str:
    """Return text, or a list of it, as Terraform has it, which would fill in what stands in `${}` or `%{}`."""
    return _quoted(value).replace("${", "$${").replace("%{", "%%{")


def _filled(name: str, parts: dict[str, str]) -> str:
    """Return a template with its parts, each in the place of its `@name@`."""
    text = (files("pynamodb_tracker.cli.templates") / name).read_text(encoding="utf-8")
    return re.sub("@([a-z_]+)@", lambda place: parts[place[1]], text)
