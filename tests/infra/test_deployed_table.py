"""The table that the template makes is one that the tracker works on, and that its doctor has nothing to say about.

Of the template, moto's CloudFormation knows keys, index, billing mode, deletion protection, stream and warm throughput.
It leaves out time to live and point-in-time recovery, which are sent here as the template has them, and the maximum
throughput and the KMS key, which are only compared with the template. It takes deletion protection "false" for true.
"""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from pynamodb_tracker.doctor import Severity, examine
from tests.cli.command import run
from tests.engine.engine import Engine
from tests.infra.declared import ALL
from tests.infra.deployed import STACK, finish, on_dynoxide, on_moto
from tests.infra.shop import LETTERS, Letter, Parcel, ShopTask, pack, refuse
from tests.support.rows import client

KNOWN_TO_MOTO = {name: ALL[name] for name in ("StreamViewType", "WarmUnits", "IndexWarmUnits")}
KNOWN_TO_LOCAL = {name: value for name, value in ALL.items() if name != "KmsKeyArn"}

every_stack = pytest.mark.parametrize("parameters", [{}, KNOWN_TO_MOTO], ids=["as it is", "with parameters"])


def described() -> dict[str, Any]:
    answer: dict[str, Any] = client(ShopTask).describe_table(TableName=ShopTask.Meta.table_name)["Table"]
    return answer


def use_it() -> None:
    """Create, run, fail, query: what each task of a shop goes through."""
    Parcel.create("p-1")
    Parcel.create("p-2", data={"text": "large " * 1_000})
    with pytest.raises(ConnectionError):
        Parcel.pack.run("p-1", refuse)
    assert [parcel.task_id for parcel in Parcel.pack.failed.query()] == ["p-1"]
    assert sorted(Parcel.pack.run_all(pack).succeeded) == ["p-1", "p-2"]
    assert sorted(Parcel.send.run_all(pack).succeeded) == ["p-1", "p-2"]
    Letter.create("l-1")
    assert Parcel.counts()[Parcel.send.succeeded] == 2
    assert Letter.counts()[Letter.post.pending] == 1
    Parcel.delete_task("p-2")
    assert [parcel.task_id for parcel in Parcel.send.succeeded.query()] == ["p-1"]


@every_stack
def test_the_tracker_works_on_the_table_of_a_stack(parameters: dict[str, str]) -> None:
    with on_moto(**parameters):
        use_it()


@every_stack
def test_the_doctor_finds_nothing_on_the_table_of_a_stack(parameters: dict[str, str]) -> None:
    with on_moto(**parameters) as template:
        found = {finding.subject: finding.severity for finding in examine(ShopTask)}
        assert found == {"time to live": Severity.WRONG, "point-in-time recovery": Severity.ADVICE}  # moto's omissions
        finish(template)
        assert examine(ShopTask) == []
        assert "as the model declares it" in run("doctor", of=LETTERS).out


def test_a_stack_without_parameters_has_neither_stream_nor_more_throughput() -> None:
    with on_moto():
        table = described()
        assert "StreamSpecification" not in table
        assert table["WarmThroughput"]["WriteUnitsPerSecond"] == 4_000


def test_parameters_of_a_stack_reach_the_table_and_its_index() -> None:
    with on_moto(**KNOWN_TO_MOTO):
        table = described()
        assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
        assert table["WarmThroughput"]["WriteUnitsPerSecond"] == 8_000
        assert table["GlobalSecondaryIndexes"][0]["WarmThroughput"]["WriteUnitsPerSecond"] == 16_000


def test_a_stack_exports_the_names_of_the_table_that_it_made() -> None:
    with on_moto(**KNOWN_TO_MOTO):
        exports = boto3.client("cloudformation", region_name="us-east-1").list_exports()["Exports"]
        table = described()
        assert {export["Name"]: export["Value"] for export in exports} == {
            f"{STACK}-TableName": table["TableName"],
            f"{STACK}-TableArn": table["TableArn"],
            f"{STACK}-IndexArn": f"{table['TableArn']}/index/status-index",
            f"{STACK}-StreamArn": table["LatestStreamArn"],
        }


@pytest.fixture(params=[{}, KNOWN_TO_LOCAL], ids=["as it is", "with parameters"])
def local(request: pytest.FixtureRequest, dynamodb: Engine) -> Iterator[None]:
    with on_dynoxide(dynamodb.endpoint, **request.param):
        yield


@pytest.mark.usefixtures("local")
def test_the_tracker_works_on_the_table_that_the_template_asks_for() -> None:
    use_it()


@pytest.mark.usefixtures("local")
def test_the_doctor_finds_nothing_else_than_what_dynamodb_does_not_have() -> None:
    assert {finding.subject for finding in examine(ShopTask)} == {"point-in-time recovery", "deletion protection"}
