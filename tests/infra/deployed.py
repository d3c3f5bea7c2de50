"""The table of the template: made by CloudFormation on moto, and on dynoxide by what it would be asked for."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import boto3
from moto import mock_aws

from pynamodb_tracker.testing.tables import OneAtATime
from tests.infra.declared import typed
from tests.infra.shop import ShopTask
from tests.infra.template import Template
from tests.support.rows import client

STACK = "shop"


@contextmanager
def on_moto(**parameters: str) -> Iterator[Template]:
    template = Template("table.yaml", TableName=ShopTask.Meta.table_name, **parameters)
    table = ShopTask.tracker.table
    with mock_aws():
        given = [{"ParameterKey": key, "ParameterValue": value} for key, value in template.parameters.items()]
        stacks = boto3.client("cloudformation", region_name="us-east-1")
        stacks.create_stack(StackName=STACK, TemplateBody=template.body(), Parameters=given)
        before = table.reconnect(OneAtATime)
        try:
            yield template
        finally:
            client(ShopTask).close()
            table.reconnect(before)


@contextmanager
def on_dynoxide(endpoint: str, **parameters: str) -> Iterator[Template]:
    """Send what CloudFormation would send, and let the class use the table that comes out."""
    template = Template("table.yaml", TableName=f"shop-{uuid.uuid4().hex}", DeletionProtection="false", **parameters)
    table, name = ShopTask.tracker.table, template.parameters["TableName"]
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(ShopTask.Meta, host=endpoint, table_name=name))
        stack.callback(table.reconnect)
        table.reconnect()
        stack.callback(client(ShopTask).close)
        client(ShopTask).create_table(**_of_create_table(template))
        stack.callback(ShopTask.delete_table)
        finish(template, backups=False)
        yield template


def finish(template: Template, *, backups: bool = True) -> None:
    """Send what CloudFormation sends after the table is there; moto's CloudFormation leaves it out."""
    asked, name = template.properties("Table"), ShopTask.Meta.table_name
    client(ShopTask).update_time_to_live(TableName=name, TimeToLiveSpecification=asked["TimeToLiveSpecification"])
    if backups:
        client(ShopTask).update_continuous_backups(
            TableName=name, PointInTimeRecoverySpecification=asked["PointInTimeRecoverySpecification"]
        )


def _of_create_table(template: Template) -> dict[str, Any]:
    """Return the request; botocore refuses a member that CreateTable does not have, and a value of another type."""
    asked: dict[str, Any] = _typed(template.properties("Table"))
    del asked["TimeToLiveSpecification"], asked["PointInTimeRecoverySpecification"]
    if "StreamSpecification" in asked:
        asked["StreamSpecification"]["StreamEnabled"] = True
    return asked


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _typed(each) for key, each in value.items()}
    return [_typed(each) for each in value] if isinstance(value, list) else typed(value)
