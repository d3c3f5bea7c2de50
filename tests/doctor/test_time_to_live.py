"""Time to live: it matters where a use case lets its tasks go."""

from typing import Any

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Severity
from tests.doctor.tables import answering, by_hand, make, one, subjects


def archive_by_hand() -> dict[str, Any]:
    table = by_hand()
    del table["GlobalSecondaryIndexes"]["by-customer"], table["AttributeDefinitions"]["customer"]
    return table


def test_with_keep_for_it_is_wrong_that_it_is_off(archive: type[Task]) -> None:
    make(archive, archive_by_hand(), expire=None)
    finding = one(archive, "time to live")
    assert (finding.severity, finding.found, finding.expected) == (Severity.WRONG, "off", "on, by expire_time")
    assert "ended tasks of Receipt are not deleted in time" in finding.meaning
    assert finding.to_do == "Call ArchiveTask.update_ttl(ignore_update_ttl_errors=False)."
    archive.update_ttl(ignore_update_ttl_errors=False)
    assert "time to live" not in subjects(archive)


def test_with_keep_for_it_is_wrong_that_it_goes_by_another_attribute(archive: type[Task]) -> None:
    make(archive, archive_by_hand(), expire="ttl")
    finding = one(archive, "time to live")
    assert (finding.severity, finding.found) == (Severity.WRONG, "on, by ttl")
    assert "ended tasks of Receipt are not deleted in time" in finding.meaning
    assert "stores ttl as a number, so it deletes no tasks" in finding.meaning
    assert "Turn it off, wait an hour" in finding.to_do


def test_without_keep_for_it_is_advice_to_turn_it_on(shop: type[Task]) -> None:
    make(shop, by_hand(), expire=None)
    finding = one(shop, "time to live")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "off")
    assert finding.meaning == "No imported use case has keep_for or keep_ignored_for, so this does not matter yet."


def test_without_keep_for_another_attribute_is_advice(shop: type[Task]) -> None:
    make(shop, by_hand(), expire="ttl")
    finding = one(shop, "time to live")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "on, by ttl")
    assert "stores ttl as a number, so it deletes no tasks" in finding.meaning


@pytest.mark.parametrize("name", ["amount", "weight"])
def test_an_attribute_by_which_tasks_are_deleted_is_dangerous(shop: type[Task], name: str) -> None:
    make(shop, by_hand(), expire=name)
    finding = one(shop, "time to live")
    assert (finding.severity, finding.found) == (Severity.DANGER, f"on, by {name}")
    assert finding.meaning == f"DynamoDB deletes tasks at the time in {name}, even while they are in progress."


def test_an_attribute_that_is_text_deletes_nothing(shop: type[Task]) -> None:
    make(shop, by_hand(), expire="due_time")
    assert one(shop, "time to live").severity is Severity.ADVICE


def test_one_that_is_being_turned_on_is_on(described_archive: type[Task]) -> None:
    with answering(described_archive, time_to_live={"TimeToLiveStatus": "ENABLING"}):
        assert "time to live" not in subjects(described_archive)


def test_one_that_is_being_turned_off_is_off(described_archive: type[Task]) -> None:
    with answering(described_archive, time_to_live={"TimeToLiveStatus": "DISABLING"}):
        assert one(described_archive, "time to live").found == "off"


@pytest.mark.parametrize(
    ("code", "why", "to_do"),
    [
        (
            "AccessDeniedException",
            "AccessDeniedException: this is why",
            "Grant dynamodb:DescribeTimeToLive to the role that runs this check.",
        ),
        ("UnknownOperationException", "the server does not return it", "Check the table on AWS."),
    ],
)
def test_one_that_is_unknown_is_advice_and_not_wrong(
    described_archive: type[Task], code: str, why: str, to_do: str
) -> None:
    with answering(described_archive, time_to_live=code):
        finding = one(described_archive, "time to live")
    assert (finding.severity, finding.found, finding.to_do) == (Severity.ADVICE, f"unknown: {why}", to_do)
    assert "Without it, ended tasks of Receipt are not deleted" in finding.meaning
