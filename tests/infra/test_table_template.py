"""The template asks for the table that the model declares, nothing missing and nothing more."""

from typing import Any

import pytest
from cfnlint.decode import cfn_yaml

from pynamodb_tracker.model.row import StatusIndex
from tests.infra.declared import ALL, comparable, declared
from tests.infra.shop import ShopTask
from tests.infra.template import INFRA, Template, problems

NAME = ShopTask.Meta.table_name
APPLICATIONS = ("events", "history", "one_step", "order_pipeline")


def asked_for(**parameters: str) -> dict[str, Any]:
    return Template("table.yaml", TableName=NAME, **parameters).properties("Table")


@pytest.mark.parametrize("name", ["table.yaml", "policies.yaml"])
def test_a_template_has_nothing_that_cfn_lint_finds(name: str) -> None:
    assert problems((INFRA / name).read_text(encoding="utf-8")) == []


def test_without_parameters_it_is_the_declared_table_and_protected() -> None:
    assert comparable(asked_for()) == declared()


@pytest.mark.parametrize("parameter", ALL)
def test_a_parameter_adds_what_it_names_and_nothing_else(parameter: str) -> None:
    assert comparable(asked_for(**{parameter: ALL[parameter]})) == declared(parameter)


def test_parameters_do_not_get_into_each_others_way() -> None:
    assert comparable(asked_for(**ALL)) == declared(*ALL)


def test_limits_can_be_taken_off_again() -> None:
    table = asked_for(MaxUnits="-1,-1", IndexMaxUnits="-1,10")
    assert table["OnDemandThroughput"] == {"MaxReadRequestUnits": "-1", "MaxWriteRequestUnits": "-1"}
    limits = {"MaxReadRequestUnits": "-1", "MaxWriteRequestUnits": "10"}
    assert table["GlobalSecondaryIndexes"][0]["OnDemandThroughput"] == limits


def test_throttled_keys_of_the_index_are_shown_where_that_is_wanted() -> None:
    [index] = asked_for(ThrottledKeys="true")["GlobalSecondaryIndexes"]
    assert index.pop("ContributorInsightsSpecification") == {"Enabled": True, "Mode": "THROTTLED_KEYS"}
    assert [index] == asked_for()["GlobalSecondaryIndexes"]


def test_deletion_protection_can_be_turned_off() -> None:
    assert comparable(asked_for(DeletionProtection="false")) == {**declared(), "DeletionProtectionEnabled": False}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TableName", "a table"),
        ("DeletionProtection", "maybe"),
        ("KmsKeyArn", "alias/mine"),
        ("StreamViewType", "EVERYTHING"),
        ("WarmUnits", "24000"),
        ("MaxUnits", "0,1"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(name: str, value: str) -> None:
    with pytest.raises(AssertionError, match="cannot be"):
        Template("table.yaml", **{name: value})


@pytest.mark.parametrize("name", ["table.yaml", *(f"{each}/template.yaml" for each in APPLICATIONS)])
def test_tables_can_be_restored_and_queues_are_encrypted(name: str) -> None:
    resources = [each for each in cfn_yaml.load(str(INFRA / name))["Resources"].values() if "Properties" in each]
    tables = [each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table"]
    queues = [each["Properties"] for each in resources if each["Type"] == "AWS::SQS::Queue"]
    assert tables or queues
    assert all(each["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] for each in tables)
    assert all(each["SqsManagedSseEnabled"] for each in queues)


def test_a_table_outlives_its_stack() -> None:
    resource = Template("table.yaml").source["Resources"]["Table"]
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.parametrize(("parameters", "stream"), [({}, set()), ({"StreamViewType": "KEYS_ONLY"}, {"StreamArn"})])
def test_it_exports_what_other_stacks_need(parameters: dict[str, str], stream: set[str]) -> None:
    outputs = Template("table.yaml", **parameters).outputs()
    assert set(outputs) == {"TableName", "TableArn", "IndexArn"} | stream
    for name, output in outputs.items():
        assert output["Export"] == {"Name": {"Fn::Sub": f"${{AWS::StackName}}-{name}"}}


def test_the_index_is_named_as_the_model_names_it() -> None:
    for name in ("table.yaml", "policies.yaml"):
        assert f"/index/{StatusIndex.Meta.index_name}" in (INFRA / name).read_text(encoding="utf-8")
