"""`pynamodb-tracker template` prints the files of this repository, and the indexes that a class declares besides."""

import json
from pathlib import Path
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, IncludeProjection, LocalSecondaryIndex

from pynamodb_tracker import FindBy, Task
from tests.cli.command import run
from tests.infra.declared import comparable, declared
from tests.infra.template import INFRA, Template, problems
from tests.infra.terraform import Module
from tests.infra.test_terraform import as_properties, needs_terraform, terraform

PLAIN = f"{__name__}:AppTask"
INDEXED = f"{__name__}:IndexedTask"
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/stock"


class AppTask(Task):
    """Has nothing of its own, not even a region: it is never asked for."""

    class Meta:
        table_name = "tasks"


class ByWeight(GlobalSecondaryIndex[Any]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    class Meta:
        index_name = "by-weight"
        projection = IncludeProjection(["${customer}", "no"])

    weight = NumberAttribute(hash_key=True, attr_name="weight: kg")


class Local(LocalSecondaryIndex[Any]):  # type: ignore[no-untyped-call]  # PynamoDB's hook is untyped
    class Meta:
        index_name = "a-local-one"
        projection = AllProjection()

    task_id = UnicodeAttribute(hash_key=True)
    weight = NumberAttribute(range_key=True, attr_name="weight: kg")


class IndexedTask(Task):
    class Meta:
        table_name = "stock"
        region = "us-east-1"
        stream_view_type = "NEW_IMAGE"

    customer = UnicodeAttribute(null=True)
    weight = NumberAttribute(null=True, attr_name="weight: kg")

    by_customer = FindBy(customer, index_name="by-customer")
    by_weight = ByWeight()
    local = Local()


class ProvisionedTask(Task):
    class Meta:
        table_name = "stock"
        read_capacity_units = write_capacity_units = 5


def printed(*options: str, of: str = INDEXED) -> str:
    ended = run("template", *options, of=of)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def indexed_module() -> Module:
    return Module(printed("--terraform").replace("$${customer}", "customer"))  # another test looks at the escape


@pytest.mark.parametrize(
    ("option", "file"), [(None, "table.yaml"), ("--policies", "policies.yaml"), ("--terraform", "terraform/main.tf")]
)
def test_for_a_class_without_indexes_it_prints_the_file_of_this_repository(
    option: str | None, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert printed(*filter(None, [option]), of=PLAIN) == (INFRA / file).read_text(encoding="utf-8")


def test_for_a_class_with_indexes_it_prints_the_table_that_create_table_asks_for() -> None:
    asked = Template(printed()).properties("Table")
    assert problems(printed()) == []
    wanted = declared(model=IndexedTask)
    wanted["StreamSpecification"].pop("StreamEnabled")
    assert comparable(asked) == wanted
    for index in [*asked["GlobalSecondaryIndexes"], *asked["LocalSecondaryIndexes"]]:
        assert index["KeySchema"][0]["KeyType"] == "HASH", "CloudFormation wants it first"


def test_the_module_of_a_class_with_indexes_is_the_same_table() -> None:
    wanted = json.dumps(comparable(Template(printed()).properties("Table"))).replace("${customer}", "customer")
    assert comparable(as_properties(indexed_module().arguments())) == comparable(json.loads(wanted))


@needs_terraform
def test_the_module_of_a_class_with_indexes_is_formatted_and_escaped(tmp_path: Path) -> None:
    text = printed("--terraform")
    checked = terraform(tmp_path, "fmt", "-check", "-diff", "-", text=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert '"$${customer}", "no"' in text


def test_its_policies_allow_queries_of_all_indexes() -> None:
    template = Template(printed("--policies"), TableArn=ARN)
    indexes = [f"{ARN}/index/{name}" for name in ("status-index", "a-local-one", "by-customer", "by-weight")]
    for name in ("Worker", "Reader", "Operator", "Scheduler"):
        statements = template.properties(name)["PolicyDocument"]["Statement"]
        assert statements
        for statement in statements:
            assert statement["Resource"] == (indexes if statement["Sid"] == "States" else [ARN])


@needs_terraform
def test_the_module_names_the_same_resources_in_its_policies(tmp_path: Path) -> None:
    expression = 'sid == "States" ? local.index_arns : [local.table_arn]'
    module = indexed_module()
    index_arns = module.locals["index_arns"].removeprefix("${").removesuffix("}")
    (tmp_path / "main.tf").write_text(
        f'locals {{\n  table_arn = "{ARN}"\n  index_arns = {index_arns}\n}}\n', encoding="utf-8"
    )
    assert expression in module.resources["aws_iam_policy"]["users"]["policy"]
    asked = f'jsonencode([for sid in ["Rows", "States"] : {expression}])\n'
    evaluated = json.loads(json.loads(terraform(tmp_path, "console", text=asked).stdout))
    template = Template(printed("--policies"), TableArn=ARN).properties("Reader")["PolicyDocument"]["Statement"]
    assert evaluated == [template[0]["Resource"], template[2]["Resource"]]


@pytest.mark.parametrize(
    ("of", "options", "why", "code"),
    [
        (f"{__name__}:ProvisionedTask", [], "ProvisionedTask.Meta asks for provisioned capacity", 1),
        (PLAIN, ["--terraform", "--policies"], "leave --policies out", 2),
    ],
)
def test_what_no_template_can_be_is_refused(of: str, options: list[str], why: str, code: int) -> None:
    ended = run("template", *options, of=of)
    assert (ended.code, ended.out) == (code, "")
    assert why in ended.err
