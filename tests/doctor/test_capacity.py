"""Limits that few tasks a second reach."""

from typing import Any

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Severity
from tests.doctor.tables import answering, by_hand, make, one, subjects, there

SUBJECT = "write capacity"


def provisioned(units: int) -> dict[str, Any]:
    return by_hand() | {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": units}}


def status_index(described: type[Task], **changes: Any) -> list[dict[str, Any]]:
    indexes = there(described)["GlobalSecondaryIndexes"]
    return [{**index, **(changes if index["IndexName"] == "status-index" else {})} for index in indexes]


def test_few_provisioned_units_are_reported_with_the_tasks_per_second_that_they_allow(shop: type[Task]) -> None:
    make(shop, provisioned(12))
    finding = one(shop, SUBJECT)
    assert (finding.severity, finding.found) == (Severity.ADVICE, "provisioned, table 12 and index 12 units per second")
    assert "The limit allows 2 per second, unless auto scaling raises it" in finding.meaning
    assert "on demand" in finding.to_do


def test_fewer_units_than_one_task_takes_are_reported_as_such(shop: type[Task]) -> None:
    make(shop, provisioned(1))
    assert "The limit allows less than one per second" in one(shop, SUBJECT).meaning


def test_many_provisioned_units_are_nothing_to_say(shop: type[Task]) -> None:
    make(shop, provisioned(50))
    assert SUBJECT not in subjects(shop)


def test_an_index_with_few_units_slows_a_table_with_many(described: type[Task]) -> None:
    make(described, provisioned(1000))
    few = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
    with answering(described, table={"GlobalSecondaryIndexes": status_index(described, ProvisionedThroughput=few)}):
        assert "The limit allows 1 per second" in one(described, SUBJECT).meaning


def test_a_table_with_few_units_is_slower_than_its_index(described: type[Task]) -> None:
    make(described, provisioned(1000))
    with answering(described, table={"ProvisionedThroughput": {"WriteCapacityUnits": 6}}):
        assert "The limit allows 2 per second" in one(described, SUBJECT).meaning


def test_a_table_that_says_no_billing_mode_is_provisioned(described: type[Task]) -> None:
    make(described, provisioned(5))
    with answering(described, table={"BillingModeSummary": None}):
        assert one(described, SUBJECT).found.startswith("provisioned")


def test_a_low_limit_on_demand_is_reported(described: type[Task]) -> None:
    with answering(described, table={"OnDemandThroughput": {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": 9}}):
        finding = one(described, SUBJECT)
    assert (finding.severity, finding.found) == (Severity.ADVICE, "on demand, at most table 9 units per second")
    assert "The limit allows 3 per second, and DynamoDB throttles the rest." in finding.meaning


@pytest.mark.parametrize("units", [-1, 1000])
def test_no_limit_and_a_high_one_on_demand_are_nothing_to_say(described: type[Task], units: int) -> None:
    limit = {"OnDemandThroughput": {"MaxWriteRequestUnits": units}}
    indexes = status_index(described, **limit)
    with answering(described, table={**limit, "GlobalSecondaryIndexes": indexes}):
        assert SUBJECT not in subjects(described)
