"""Time to live: it matters where a use case lets its tasks go."""

from __future__ import annotations

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
    assert "keep_for of Receipt has no effect" in finding.meaning


def test_with_keep_for_it_is_wrong_that_it_goes_by_another_attribute(archive: type[Task]) -> None:
    make(archive, archive_by_hand(), expire="ttl")
    finding = one(archive, "time to live")
    assert (finding.severity, finding.found) == (Severity.WRONG, "on, by ttl")
    assert "keep_for of Receipt has no effect" in finding.meaning
    assert "deletes tasks by the other attribute" in finding.meaning


def test_without_keep_for_it_is_advice_to_turn_it_on(shop: type[Task]) -> None:
    make(shop, by_hand(), expire=None)
    finding = one(shop, "time to live")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "off")
    assert finding.meaning == "No use case that is known here has keep_for: it makes no difference yet."


def test_without_keep_for_another_attribute_is_told_as_advice(shop: type[Task]) -> None:
    make(shop, by_hand(), expire="ttl")
    finding = one(shop, "time to live")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "on, by ttl")
    assert "deletes tasks by the other attribute" in finding.meaning


def test_one_that_is_being_turned_on_is_on(described_archive: type[Task]) -> None:
    with answering(described_archive, time_to_live={"TimeToLiveStatus": "ENABLING"}):
        assert "time to live" not in subjects(described_archive)


def test_one_that_is_being_turned_off_is_off(described_archive: type[Task]) -> None:
    with answering(described_archive, time_to_live={"TimeToLiveStatus": "DISABLING"}):
        assert one(described_archive, "time to live").found == "off"


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnknownOperationException"])
def test_one_that_cannot_be_looked_at_is_told_as_such_and_not_as_wrong(
    described_archive: type[Task], code: str
) -> None:
    with answering(described_archive, time_to_live=code):
        finding = one(described_archive, "time to live")
    assert (finding.severity, finding.found) == (Severity.ADVICE, f"not looked at: {code}: this is why")
    assert "Without it, keep_for of Receipt has no effect" in finding.meaning
