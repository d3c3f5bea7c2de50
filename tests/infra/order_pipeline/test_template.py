"""What the template says: settings that depend on each other, and roles."""

import json
import re
import sys
from types import ModuleType
from typing import Any

import boto3
import pytest
from cfnlint.decode import cfn_yaml

from tests.infra.order_pipeline.stack import PARAMETERS
from tests.infra.order_pipeline.template import FOLDER, STEPS, UNKNOWN_TO_MOTO, of_type, packaged, transformed, written
from tests.infra.template import problems
from tests.support.pages import ROOT, Page

TEMPLATE = transformed(packaged("packages", "key"))
RESOURCES = TEMPLATE["Resources"]
FUNCTIONS = dict(of_type(TEMPLATE, "AWS::Lambda::Function"))
ROLES = dict(of_type(TEMPLATE, "AWS::IAM::Role"))


LONGEST_RETENTION = 14 * 24 * 3600


def arn_of(resource: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [resource, "Arn"]}


def statements(role: str) -> list[dict[str, Any]]:
    return [each for policy in ROLES[role]["Policies"] for each in policy["PolicyDocument"]["Statement"]]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_cfn_lint_finds_nothing() -> None:
    assert problems((FOLDER / "template.yaml").read_text(encoding="utf-8")) == []


def test_a_handler_exists_for_each_function(app: ModuleType) -> None:
    names = {function["Handler"] for function in FUNCTIONS.values()}
    assert len(names) == len(FUNCTIONS) == 7
    for name in names:
        module, _, function = name.rpartition(".")
        assert module == app.__name__
        assert callable(getattr(app, function))
    assert {name.rpartition(".")[2] for name in names} == set(app.__all__)


@pytest.mark.parametrize("name", STEPS)
def test_the_settings_of_a_queue_fit_its_function_and_its_step(name: str, app: ModuleType) -> None:
    queue, function = RESOURCES[f"{name}Queue"]["Properties"], FUNCTIONS[name]
    mapping = RESOURCES[f"{name}Messages"]["Properties"]
    dead_letters = RESOURCES[f"{name}DeadLetters"]["Properties"]
    step = getattr(app.Order, STEPS[name])

    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == arn_of(f"{name}DeadLetters")
    receives = queue["RedrivePolicy"]["maxReceiveCount"]
    if name == "ConfirmPayment":
        assert receives == {"Ref": "MaxReceives"}
        receives = written()["Parameters"]["MaxReceives"]["Default"]
        assert receives * queue["VisibilityTimeout"] > 18 * 3600, "an outage of the table does not lose new orders"
    assert receives > step.max_attempts
    assert dead_letters["MessageRetentionPeriod"] == LONGEST_RETENTION >= queue["MessageRetentionPeriod"]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "MaxConcurrency"}}
    assert mapping["BatchSize"] * sys.modules["pipeline.services"]._TIMEOUT < function["Timeout"]


def test_an_order_that_only_its_message_knows_is_kept_as_long_as_can_be() -> None:
    for name in ("ConfirmPaymentQueue", "ConfirmPaymentDeadLetters", "UndeliveredEvents"):
        assert RESOURCES[name]["Properties"]["MessageRetentionPeriod"] == LONGEST_RETENTION
        kept = RESOURCES[name]["DeletionPolicy"], RESOURCES[name]["UpdateReplacePolicy"]
        assert kept == ("RetainExceptOnCreate", "Retain"), "the stack may go, and the order may not"


@pytest.mark.parametrize("name", STEPS)
def test_schedules_do_not_pile_up(name: str) -> None:
    assert RESOURCES[f"Retry{name}EachMinute"]["Properties"]["ScheduleExpression"] == "rate(1 minute)"
    assert FUNCTIONS[f"Retry{name}"]["Timeout"] < 60
    assert RESOURCES[f"Retry{name}EventInvokeConfig"]["Properties"]["MaximumRetryAttempts"] == 0


def test_functions_log_json_to_a_group_that_forgets() -> None:
    for function in FUNCTIONS.values():
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert function["LoggingConfig"]["LogGroup"] == {"Ref": "Logs"}
    assert RESOURCES["Logs"]["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_each_function_has_a_role_of_its_own() -> None:
    assert sorted([function["Role"]["Fn::GetAtt"][0] for function in FUNCTIONS.values()]) == sorted(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_no_role_has_a_wildcard_and_rights_on_the_table_come_from_its_policies(role: str) -> None:
    policy = "Reader" if role == "WatchRole" else "Worker"
    export = {"Fn::ImportValue": {"Fn::Sub": f"${{PolicyStack}}-{policy}PolicyArn"}}
    assert ROLES[role]["ManagedPolicyArns"] == [export]
    for statement in statements(role):
        actions = as_list(statement["Action"])
        assert not [action for action in actions if "*" in action or action.startswith("dynamodb:")]
        assert "*" not in as_list(statement["Resource"])


def queues_allowed(role: str, action: str) -> list[str]:
    found = [each["Resource"] for each in statements(role) if action in as_list(each["Action"])]
    return [resource["Fn::GetAtt"][0] for resources in found for resource in as_list(resources)]


def test_a_role_receives_from_its_queue_and_sends_to_the_queues_in_its_environment() -> None:
    for name, function in FUNCTIONS.items():
        role = function["Role"]["Fn::GetAtt"][0]
        variables = function["Environment"]["Variables"]
        sent_to = [value["Ref"] for key, value in variables.items() if key.endswith("_QUEUE_URL")]
        assert queues_allowed(role, "sqs:SendMessage") == sent_to
        assert queues_allowed(role, "sqs:ReceiveMessage") == ([f"{name}Queue"] if name in STEPS else [])
    assert queues_allowed("ShipRole", "sqs:SendMessage") == ["DeliverQueue"]
    assert queues_allowed("DeliverRole", "sqs:SendMessage") == []


def test_only_the_entrance_may_send_to_the_first_queue_from_outside() -> None:
    [statement] = RESOURCES["EntranceToQueues"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": arn_of("OrderPlaced")}}
    [target] = RESOURCES["OrderPlaced"]["Properties"]["Targets"]
    assert [target["Arn"], target["DeadLetterConfig"]["Arn"]] == statement["Resource"]


OPTIONS = {"LogKmsKeyArn": ("HasLogKey", []), "ArchiveDays": ("HasArchive", ["EntranceArchive"])}
OPTIONS |= {"TracingMode": ("HasTraces", ["TracePolicy"])}


@pytest.mark.parametrize("parameter", OPTIONS)
def test_options_are_off_unless_they_are_set(parameter: str) -> None:
    condition, resources = OPTIONS[parameter]
    assert parameter in json.dumps(TEMPLATE["Conditions"][condition])
    assert [name for name, each in RESOURCES.items() if each.get("Condition") == condition] == resources
    assert written()["Parameters"][parameter]["Default"] in ("", 0, "PassThrough")


def test_traces_may_be_sent_by_every_function_and_logs_have_the_key() -> None:
    assert sorted(role["Ref"] for role in RESOURCES["TracePolicy"]["Properties"]["Roles"]) == sorted(ROLES)
    assert {json.dumps(function["TracingConfig"]) for function in FUNCTIONS.values()} == {
        json.dumps({"Mode": {"Ref": "TracingMode"}})
    }
    assert RESOURCES["Logs"]["Properties"]["KmsKeyId"]["Fn::If"][1] == {"Ref": "LogKmsKeyArn"}


def told_alarms() -> list[dict[str, str]]:
    page = Page(ROOT / "docs" / "how-to" / "deploy-a-pipeline.md")
    [text] = [block.text for block in page.blocks() if block.language == "yaml"]
    alarms: list[dict[str, str]] = cfn_yaml.loads(text)["Globals"]["Function"]["DeploymentPreference"]["Alarms"]
    return json.loads(json.dumps(alarms))  # type: ignore[no-any-return]  # as it was


def test_functions_can_be_deployed_gradually_as_the_how_to_says() -> None:
    template = packaged("packages", "key")
    preference = {"Type": "Canary10Percent5Minutes", "Alarms": told_alarms()}
    template["Globals"]["Function"] |= {"AutoPublishAlias": "live", "DeploymentPreference": preference}
    resources = transformed(template)["Resources"]
    mappings = [each for each in resources.values() if each["Type"] == "AWS::Lambda::EventSourceMapping"]
    assert {each["Properties"]["FunctionName"]["Ref"] for each in mappings} == {f"{name}Aliaslive" for name in STEPS}


def test_what_moto_does_not_make_is_listed_and_used() -> None:
    assert {resource["Type"] for resource in RESOURCES.values()} >= UNKNOWN_TO_MOTO.keys()


def test_the_table_that_is_deployed_is_the_one_that_functions_use(app: ModuleType) -> None:
    assert app.Order.Meta.table_name == "orders"
    app.Order.create("o-1", amount=1, address="1 Main Street")
    assert app.Order.get_task("o-1").state == app.Order.confirm_payment.pending
    assert boto3.client("dynamodb").describe_table(TableName="orders")["Table"]["ItemCount"] == 1
    app.Order.delete_task("o-1")


def test_parameters_say_what_they_are_and_refuse_what_cannot_be() -> None:
    parameters = written()["Parameters"]
    assert all(parameter.get("Description") for parameter in parameters.values())
    for name, value in PARAMETERS.items():
        if name == "MaxReceives":
            continue
        assert re.fullmatch(parameters[name]["AllowedPattern"], value)
    for url in ("https://gateway.test/", "http://gateway.test"):
        assert not re.fullmatch(parameters["GatewayUrl"]["AllowedPattern"], url)
