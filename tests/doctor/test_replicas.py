"""Replicas in other regions; no server here has any, so the answers are written down."""

from typing import Any

import pytest

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Severity
from tests.doctor.tables import answering, one, subjects, worse

IRELAND = {"RegionName": "eu-west-1", "ReplicaStatus": "ACTIVE"}
OHIO = {"RegionName": "us-east-2", "ReplicaStatus": "ACTIVE"}
HERE = {"RegionName": "us-east-1", "ReplicaStatus": "ACTIVE"}
WITNESS = {"RegionName": "us-west-2", "WitnessStatus": "ACTIVE"}


@pytest.mark.parametrize("consistency", [{}, {"MultiRegionConsistency": "EVENTUAL"}], ids=["unsaid", "eventual"])
def test_eventually_consistent_replicas_are_dangerous(described: type[Task], consistency: dict[str, Any]) -> None:
    with answering(described, table={"Replicas": [OHIO, IRELAND], **consistency}):
        (finding,) = worse(described)
    assert (finding.severity, finding.subject) == (Severity.DANGER, "replicas")
    assert finding.found == "also in eu-west-1, us-east-2, eventually consistent"
    assert "Workers in two regions can hold the same task's lock at the same time" in finding.meaning
    assert "write in one region only" in finding.to_do


def test_strongly_consistent_replicas_are_reported_with_what_does_not_work_there(described: type[Task]) -> None:
    strong = {"Replicas": [HERE, OHIO], "GlobalTableWitnesses": [WITNESS], "MultiRegionConsistency": "STRONG"}
    off = {"TimeToLiveStatus": "DISABLED"}
    with answering(described, table=strong, time_to_live=off):
        finding = one(described, "replicas")
    assert finding.severity is Severity.ADVICE
    assert finding.found == "also in us-east-2, us-west-2, strongly consistent"
    assert "A lock holds in all regions." in finding.meaning
    assert "ctx.transaction" in finding.meaning
    assert "keep_for" in finding.meaning
    assert "let a run save it, or raise max_inline_data" in finding.to_do


def test_nothing_says_to_turn_on_what_strongly_consistent_replicas_cannot_have(described: type[Task]) -> None:
    strong = {"Replicas": [OHIO, IRELAND], "MultiRegionConsistency": "STRONG"}
    with answering(described, table=strong, time_to_live={"TimeToLiveStatus": "DISABLED"}):
        assert "time to live" not in subjects(described)


def test_keep_for_with_strongly_consistent_replicas_is_wrong(described_archive: type[Task]) -> None:
    strong = {"Replicas": [OHIO, IRELAND], "MultiRegionConsistency": "STRONG"}
    with answering(described_archive, table=strong, time_to_live={"TimeToLiveStatus": "DISABLED"}):
        (finding,) = worse(described_archive)
    assert (finding.severity, finding.subject, finding.expected) == (
        Severity.WRONG,
        "time to live",
        "no keep_for or keep_ignored_for",
    )
    assert "Remove keep_for" in finding.to_do


@pytest.mark.parametrize("replicas", [[], [HERE]], ids=["none left", "itself"])
def test_a_table_in_one_region_has_no_replicas(described: type[Task], replicas: list[Any]) -> None:
    with answering(described, table={"Replicas": replicas, "GlobalTableVersion": "2019.11.21"}):
        assert "replicas" not in subjects(described)
