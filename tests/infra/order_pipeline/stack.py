"""The pipeline deployed to moto, by CloudFormation: its table, its policies, and its own resources."""

import io
import json
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from cfnlint.decode import cfn_yaml
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from tests.infra.order_pipeline.template import CODE, INFRA, UNKNOWN_TO_MOTO, of_type, packaged, transformed

BUCKET, KEY = "packages", "order-pipeline"

PARAMETERS = {
    "GatewayUrl": "https://gateway.test",
    "CarrierUrl": "https://carrier.test",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:alarms",
    "MaxReceives": "12",
}


@dataclass(frozen=True)
class Stack:
    name: str
    template: dict[str, Any]
    """As CloudFormation got it, before anything was left out for moto."""
    ids: dict[str, str]
    """What each logical id is called in the account; moto has no name for a bus of events."""
    outputs: dict[str, str]

    _clients: dict[str, Any] = field(default_factory=dict)
    _targets: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(service)
        return self._clients[service]

    def queues_of(self, event: dict[str, Any]) -> list[str]:
        """Return the URLs of the queues to which the bus brings an event, by the rules that are deployed."""
        if not self._targets:
            events, sqs, bus = self.client("events"), self.client("sqs"), self.outputs["EntranceName"]
            for rule in events.list_rules(EventBusName=bus)["Rules"]:
                targets = events.list_targets_by_rule(EventBusName=bus, Rule=rule["Name"])["Targets"]
                names = [target["Arn"].rpartition(":")[2] for target in targets]
                urls = [sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in names]
                self._targets.append((json.loads(rule["EventPattern"]), urls))
        taken = [urls for rule, urls in self._targets if all(event[name] in rule[name] for name in rule)]
        return [url for urls in taken for url in urls]

    def queue(self, logical_id: str) -> Any:
        return sqs_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].queues[self.ids[logical_id].rpartition("/")[2]]

    def __getitem__(self, logical_id: str) -> str:
        return self.ids[logical_id]

    def properties(self, logical_id: str) -> dict[str, Any]:
        properties: dict[str, Any] = self.template["Resources"][logical_id]["Properties"]
        return properties


def deploy() -> Stack:
    """Deploy the table, its policies and the pipeline, as the how-to does, and return the pipeline."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=_zipped(CODE))
    table = _created("shop-tasks", _without_missing_outputs(_read("table.yaml")), TableName="orders")
    _created("shop-access", _read("policies.yaml"), TableArn=table.outputs["TableArn"])
    return _created("order-pipeline", transformed(packaged(BUCKET, KEY)), **PARAMETERS)


def _created(name: str, template: dict[str, Any], **parameters: str) -> Stack:
    """Create a stack, without what moto does not make, and without options, all of which are off."""
    resources = {
        key: each
        for key, each in template["Resources"].items()
        if each["Type"] not in UNKNOWN_TO_MOTO and "Condition" not in each
    }
    body = json.dumps({**template, "Resources": resources})
    for alarm, _ in of_type(template, "AWS::CloudWatch::Alarm"):  # the dashboard shows them, too
        body = body.replace(f"${{{alarm}.Arn}}", f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{alarm}")
    client = boto3.client("cloudformation")
    client.create_stack(
        StackName=name,
        TemplateBody=body,
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    [about] = client.describe_stacks(StackName=name)["Stacks"]
    assert about["StackStatus"] == "CREATE_COMPLETE", about.get("StackStatusReason")
    found = client.describe_stack_resources(StackName=name)["StackResources"]
    ids = {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in found}
    assert ids.keys() == resources.keys()
    return Stack(name, template, ids, {each["OutputKey"]: each["OutputValue"] for each in about["Outputs"]})


def _read(name: str) -> dict[str, Any]:
    template: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(str(INFRA / name))))
    return template


def _without_missing_outputs(template: dict[str, Any]) -> dict[str, Any]:
    """Leave out outputs with a condition, none of which holds here: moto asks for their values all the same."""
    outputs = {key: output for key, output in template["Outputs"].items() if "Condition" not in output}
    return {**template, "Outputs": outputs}


def _zipped(folder: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as package:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                package.write(path, path.relative_to(folder))
    return content.getvalue()


@cache
def environment(function_name: str) -> dict[str, str]:
    """Return the environment of a deployed function; its values are text, also where moto has kept numbers."""
    about = boto3.client("lambda").get_function_configuration(FunctionName=function_name)
    return {name: str(value) for name, value in about["Environment"]["Variables"].items()}
