"""Tables with nothing wrong: as their class makes them, and as a template may."""

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Finding, Severity, examine
from tests.doctor.shops import Parcel
from tests.doctor.tables import answering, by_hand, make, worse


def test_of_a_table_as_its_class_makes_it_there_is_only_advice(shop: type[Task]) -> None:
    assert [(finding.severity, finding.subject) for finding in examine(shop)] == [
        (Severity.ADVICE, "point-in-time recovery"),
        (Severity.ADVICE, "deletion protection"),
    ]


def test_a_table_with_keep_for_as_its_class_makes_it_is_right(archive: type[Task]) -> None:
    assert worse(archive) == []


def test_a_local_index_as_its_class_makes_it_is_right(local: type[Task]) -> None:
    assert worse(local) == []


def test_a_table_made_by_hand_in_the_same_way_is_right(shop: type[Task]) -> None:
    before = examine(shop)
    make(shop, by_hand())
    assert examine(shop) == before


def test_further_indexes_are_not_checked(shop: type[Task]) -> None:
    before = examine(shop)
    table = by_hand()
    table["AttributeDefinitions"] |= {"worker": "S", "status": "N", "found_by": "B"}
    table["GlobalSecondaryIndexes"] |= {
        "by-state": (["status_key", "worker"], {"ProjectionType": "ALL"}),
        "by-number": (["status"], {"ProjectionType": "KEYS_ONLY"}),
        "another": (["found_by", "use_case_id"], {"ProjectionType": "KEYS_ONLY"}),
    }
    make(shop, table)
    assert examine(shop) == before


def test_a_use_case_is_examined_by_its_table(shop: type[Task]) -> None:
    assert examine(Parcel) == examine(shop)


def test_a_class_without_a_table_cannot_be_examined() -> None:
    with pytest.raises(TypeError, match="lacks a table"):
        examine(Task)


def test_a_finding_cannot_be_changed_and_says_all_in_words(shop: type[Task]) -> None:
    for finding in examine(shop):
        assert all(isinstance(each, str) and each for each in vars_of(finding))
        with pytest.raises(AttributeError):
            finding.found = "all is well"  # type: ignore[misc]  # it is frozen


def vars_of(finding: Finding) -> list[object]:
    return [getattr(finding, name) for name in ("severity", "subject", "found", "expected", "meaning", "to_do")]


def test_the_worst_comes_first(described: type[Task]) -> None:
    table = by_hand()
    del table["GlobalSecondaryIndexes"]["by-customer"], table["AttributeDefinitions"]["customer"]
    make(described, table)
    replicas = [{"RegionName": "eu-west-1"}]
    with answering(described, table={"TableStatus": "UPDATING", "Replicas": replicas}):
        severities = [finding.severity for finding in examine(described)]
    assert severities == [Severity.WRONG, Severity.DANGER, *[Severity.ADVICE] * 3]
