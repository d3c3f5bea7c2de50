"""The Terraform module makes the same table as the template, with the same settings.

`terraform validate` needs the provider, which is a large download, so it is not run here. What is in the module is
compared with the template instead, argument by argument.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra.declared import ALL, comparable, declared, typed
from tests.infra.shop import ShopTask
from tests.infra.template import Template
from tests.infra.terraform import MODULE, Module
from tests.support.pages import ROOT, Page

NAME = ShopTask.Meta.table_name

needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason="there is no terraform on the PATH")

BAD = [
    ("table_name", "a table"),
    ("kms_key_arn", "alias/mine"),
    ("stream_view_type", "NONE"),
    ("warm_units", "{ read = 1 }"),
    ("deletion_protection", "maybe"),
]


def variable(parameter: str) -> str:
    """Return the variable that a parameter of the template is called in the module."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", parameter).lower()


def value(parameter: str) -> Any:
    if not parameter.endswith("Units"):
        return ALL[parameter]
    read, write = ALL[parameter].split(",")
    return {"read": int(read), "write": int(write)}


EVERYTHING = {variable(parameter): value(parameter) for parameter in ALL}


def as_properties(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what the provider asks DynamoDB for, in the words of the template; a KeyError for an unknown argument."""
    left = dict(arguments)
    throughput = left.pop("warm_throughput"), left.pop("on_demand_throughput")
    (expire,), (backups,), keys = (
        left.pop("ttl"),
        left.pop("point_in_time_recovery"),
        left.pop("server_side_encryption"),
    )
    properties = {
        "TableName": left.pop("name"),
        "BillingMode": left.pop("billing_mode"),
        "KeySchema": [
            {"AttributeName": left.pop("hash_key"), "KeyType": "HASH"},
            {"AttributeName": left.pop("range_key"), "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [renamed(each, "Attribute") for each in left.pop("attribute")],
        "GlobalSecondaryIndexes": [index_of(each) for each in left.pop("global_secondary_index")],
        **locals_of(left.pop("local_secondary_index", [])),
        "DeletionProtectionEnabled": left.pop("deletion_protection_enabled"),
        "TimeToLiveSpecification": renamed(expire),
        "PointInTimeRecoverySpecification": renamed(backups, "PointInTimeRecovery"),
        **units(*throughput),
    }
    for key in keys:
        assert key.pop("enabled")
        properties["SSESpecification"] = {
            "SSEEnabled": True,
            "SSEType": "KMS",
            "KMSMasterKeyId": key.pop("kms_key_arn"),
        }
        assert not key
    view = left.pop("stream_view_type")
    if left.pop("stream_enabled"):
        properties["StreamSpecification"] = {"StreamViewType": view}
    assert left == {"tags": {}}, "nothing but deletion protection keeps it, which can be turned off"
    return properties


def index_of(block: dict[str, Any]) -> dict[str, Any]:
    left = dict(block)
    projection = projection_of(left)
    keys = [renamed(each) for each in left.pop("key_schema")]
    throughput = units(left.pop("warm_throughput", []), left.pop("on_demand_throughput", []))
    index = {"IndexName": left.pop("name"), "KeySchema": keys, "Projection": projection, **throughput}
    assert not left
    return index


def projection_of(left: dict[str, Any]) -> dict[str, Any]:
    included = {"NonKeyAttributes": left.pop("non_key_attributes")} if "non_key_attributes" in left else {}
    return {"ProjectionType": left.pop("projection_type"), **included}


def locals_of(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the local indexes, which have the hash key of the table."""
    found = []
    for block in blocks:
        left = dict(block)
        keys = {"task_id": "HASH", left.pop("range_key"): "RANGE"}
        schema = [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()]
        found.append({"IndexName": left.pop("name"), "KeySchema": schema, "Projection": projection_of(left)})
        assert not left
    return {"LocalSecondaryIndexes": found} if found else {}


def units(warm: list[dict[str, Any]], most: list[dict[str, Any]]) -> dict[str, Any]:
    named = {"WarmThroughput": warm, "OnDemandThroughput": most}
    return {name: renamed(block) for name, blocks in named.items() for block in blocks}


def renamed(block: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    return {prefix + "".join(word.title() for word in key.split("_")): each for key, each in block.items()}


def test_without_variables_it_is_the_declared_table_and_protected() -> None:
    assert comparable(as_properties(Module().arguments(table_name=NAME))) == declared()


@pytest.mark.parametrize("parameter", ALL)
def test_a_variable_adds_what_the_parameter_of_the_template_does(parameter: str) -> None:
    arguments = Module().arguments(table_name=NAME, **{variable(parameter): value(parameter)})
    assert comparable(as_properties(arguments)) == declared(parameter)


def test_with_all_variables_it_is_the_table_of_the_template_with_all_parameters() -> None:
    properties = Template("table.yaml", **ALL).properties("Table")
    assert comparable(as_properties(Module().arguments(**EVERYTHING))) == comparable(properties)


def test_a_variable_is_there_for_each_parameter_with_the_same_default() -> None:
    parameters, variables = Template("table.yaml").source["Parameters"], dict(Module().variables)
    assert variables.pop("tags")["default"] == {}  # CloudFormation puts those of the stack on the table
    assert variables.pop("policies")["default"] is False  # a template of its own
    assert variables.pop("job_store")["default"] == "default"  # a parameter of that
    assert variables.keys() == {variable(parameter) for parameter in parameters}
    for parameter, declaration in parameters.items():
        absent = declaration["Default"] in {"", "NONE"}
        assert variables[variable(parameter)]["default"] == (None if absent else typed(declaration["Default"]))


def test_the_page_lists_every_parameter_and_variable() -> None:
    page = Page(ROOT / "docs" / "how-to" / "deploy-the-table.md")
    told = {line.split("|")[1].strip() for line in page.prose() if line.startswith("| `")}
    assert {f"`{parameter}`, `{variable(parameter)}`" for parameter in Template("table.yaml").parameters} <= told


def test_it_says_of_each_variable_and_output_what_it_is() -> None:
    module = Module()
    assert all(each["description"] for each in [*module.variables.values(), *module.outputs.values()])


def test_tags_reach_the_table() -> None:
    assert Module().arguments(tags={"team": "shop"})["tags"] == {"team": "shop"}


def test_it_has_the_outputs_of_the_template() -> None:
    outputs = {name: output["value"] for name, output in Module().outputs.items()}
    assert outputs.keys() == {variable(name) for name in Template("table.yaml").source["Outputs"]} | {"policy_arns"}
    assert outputs["table_arn"] == "${aws_dynamodb_table.tasks.arn}"
    assert outputs["index_arn"] == "${aws_dynamodb_table.tasks.arn}/index/status-index"


def test_limits_can_be_taken_off_again() -> None:
    arguments = Module().arguments(max_units={"read": -1, "write": -1}, index_max_units={"read": -1, "write": 10})
    index = as_properties(arguments)["GlobalSecondaryIndexes"][0]
    assert as_properties(arguments)["OnDemandThroughput"] == {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": -1}
    assert index["OnDemandThroughput"] == {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": 10}


def test_throttled_keys_of_the_index_are_shown_where_that_is_wanted() -> None:
    assert Module().resources["aws_dynamodb_contributor_insights"]["throttled_keys"] == {
        "count": "${var.throttled_keys ? 1 : 0}",
        "table_name": "${aws_dynamodb_table.tasks.name}",
        "index_name": "status-index",
        "mode": "THROTTLED_KEYS",
    }


@pytest.mark.parametrize("name", ["Worker", "Reader", "Operator", "Scheduler"])
def test_the_policies_are_those_of_the_template(name: str) -> None:
    template = Template("policies.yaml", TableArn="arn:aws:dynamodb:us-east-1:123456789012:table/tasks")
    wanted = template.properties(name)

    settings = Module().locals
    policy = settings["policies"][name.lower()]

    assert policy["description"] == wanted["Description"]
    statements = {each["Sid"]: each for each in wanted["PolicyDocument"]["Statement"]}
    assert policy["statements"].keys() == statements.keys()
    for sid, actions in policy["statements"].items():
        assert [f"dynamodb:{action}" for action in actions] == statements[sid]["Action"]
        assert statements[sid]["Resource"][0].endswith("/index/status-index") == (sid == "States")
        limits = json.loads(json.dumps(settings["conditions"]).replace("${var.job_store}", "default"))
        condition = {"Bool": {"aws:SecureTransport": "true"}, **limits.get(sid, {})}
        assert statements[sid]["Condition"] == condition


def test_it_names_the_provider_and_the_versions_that_know_all_of_it() -> None:
    (providers,) = Module().requirements["required_providers"]
    assert providers["aws"] == {"source": "hashicorp/aws", "version": ">= 6.37, < 7.0"}


def terraform(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run terraform without a setting of the machine, and without a question to a server."""
    settings = folder / "no-settings.tfrc"
    settings.touch()
    variables = {"TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    kept = {name: each for name, each in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(  # noqa: S603 - arguments of its own, through no shell
        ["terraform", *arguments],  # noqa: S607 - the one on the PATH
        cwd=folder,
        env=kept | variables,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_terraform
def test_it_is_formatted_as_terraform_formats(tmp_path: Path) -> None:
    checked = terraform(tmp_path, "fmt", "-check", "-diff", str(MODULE))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.fixture
def without_provider(tmp_path: Path) -> Path:
    """Have a folder with the variables of the module, and the arguments of its table as a local value."""
    variables = re.findall(r"^variable .*?^}", MODULE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "variables.tf").write_text("\n".join(variables), encoding="utf-8")
    local = f"locals {{\n  table = {Module().expression()}\n}}\n"
    (tmp_path / "table.tf").write_text(local, encoding="utf-8")
    return tmp_path


@needs_terraform
@pytest.mark.parametrize("variables", [{}, EVERYTHING], ids=["as it is", "with variables"])
def test_terraform_evaluates_the_arguments_as_these_tests_do(without_provider: Path, variables: dict[str, Any]) -> None:
    (without_provider / "terraform.tfvars.json").write_text(json.dumps(variables), encoding="utf-8")
    assert terraform(without_provider, "plan", "-input=false").returncode == 0
    evaluated = terraform(without_provider, "console", text="jsonencode(local.table)\n")
    assert json.loads(json.loads(evaluated.stdout)) == Module().arguments(**variables)


@needs_terraform
@pytest.mark.parametrize(("name", "bad"), BAD, ids=[name for name, _ in BAD])
def test_terraform_refuses_a_value_that_cannot_be_meant(without_provider: Path, name: str, bad: str) -> None:
    refused = terraform(without_provider, "plan", "-input=false", "-no-color", f"-var={name}={bad}")
    assert refused.returncode == 1
    assert f"var.{name}" in refused.stderr or f'variable "{name}"' in refused.stderr, refused.stderr
