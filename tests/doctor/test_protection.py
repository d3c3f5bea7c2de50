"""The status of the table, and what is left after a mistake."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pynamodb_tracker import ConcurrencyLimit, Task
from pynamodb_tracker.control import item
from pynamodb_tracker.doctor import Severity, examine, settings
from pynamodb_tracker.testing import stopped_clock
from tests.doctor.shops import Parcel
from tests.doctor.tables import answering, client, one, subjects
from tests.support.engines import is_moto
from tests.support.rows import put

ON = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}


@pytest.mark.parametrize(
    ("status", "severity", "words"),
    [
        ("CREATING", Severity.WRONG, "Wait"),
        ("UPDATING", Severity.ADVICE, "can use it in the meantime"),
        ("DELETING", Severity.WRONG, "being deleted"),
        ("INACCESSIBLE_ENCRYPTION_CREDENTIALS", Severity.WRONG, "KMS key"),
        ("ARCHIVED", Severity.WRONG, "Restore the backup"),
        ("REPLICATION_NOT_AUTHORIZED", Severity.WRONG, "may refuse requests"),
    ],
)
def test_another_status_than_active_is_said(described: type[Task], status: str, severity: Severity, words: str) -> None:
    with answering(described, table={"TableStatus": status}):
        finding = one(described, "table status")
    assert (finding.severity, finding.found, finding.expected) == (severity, status, "ACTIVE")
    assert words in f"{finding.meaning} {finding.to_do}"


def test_a_pause_older_than_a_day_is_advice(described: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parcel.use_case_id, "pausable", True)
    with stopped_clock() as clock:
        Parcel.ship.pause(until=None, reason="the bank is down", by="ada")
        clock.advance(timedelta(days=1))
        assert "pause of Parcel.ship" not in subjects(described)
        clock.advance(timedelta(seconds=1))
        finding = one(described, "pause of Parcel.ship")
        Parcel.ship.resume()
    assert finding.found == "ship is paused until it is resumed, by ada: the bank is down"
    assert finding.to_do == "Resume it: pynamodb-tracker resume ship --use-case parcel"


def test_a_required_step_that_nobody_runs_is_dangerous(described: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parcel.use_case_id, "pausable", True)
    item.require(Parcel, 20, "ada")
    finding = one(described, "required step of Parcel")
    item.stop_requiring(Parcel, 20, "ada")
    assert (finding.severity, finding.to_do.endswith("steps require parcel NUMBER --remove")) == (Severity.DANGER, True)
    assert finding.found.startswith("Step(20) is required by ada, but no program")
    assert "required step of Parcel" not in subjects(described)


@pytest.mark.parametrize(
    ("retry_delay", "found"),
    [
        (lambda attempt: timedelta(seconds=attempt), None),
        (
            lambda attempt: timedelta(seconds=2 - attempt),
            "retry_delay(3) returns datetime.timedelta(days=-1, seconds=86399)",
        ),
        (
            lambda attempt: [timedelta(1), timedelta(2)][attempt],
            "retry_delay(2) raises IndexError('list index out of range')",
        ),
        (lambda _: 60, "retry_delay(1) returns 60"),
    ],
)
def test_a_retry_delay_that_fails_for_an_attempt_is_a_danger(
    described: type[Task], monkeypatch: pytest.MonkeyPatch, retry_delay: Any, found: str | None
) -> None:
    monkeypatch.setattr(Parcel.ship._definition.declared, "retry_delay", retry_delay)
    subject = "retry_delay of Parcel.ship"
    assert (one(described, subject).found if subject in subjects(described) else None) == found


SLOT = {"use_case_id": {"S": "#limit"}, "lock": {"S": "0" * 24}}


LOST = "1 of 2 slots cannot be taken, such as"


@pytest.mark.parametrize(
    ("slot", "found"),
    [
        ({"task_id": {"S": "bank#01"}, "lock_expire_time": {"S": "2026-01-01T00:00:30.000000+0000"}}, None),
        ({"task_id": {"S": "bank#01"}, "lock_expire_time": {"S": "soon"}}, f"{LOST} bank#01, #limit"),
        ({"task_id": {"S": "bank#00"}, "lock_expire_time": {"N": "1"}}, f"{LOST} bank#00, #limit"),
        ({"task_id": {"S": "bank#00"}, "lock": {"S": "mine"}}, f"{LOST} bank#00, #limit"),
        ({"task_id": {"S": "bank#01"}, "lock_expire_time": {"S": "2026-01-01T01:00:00.000000+0000"}}, LOST),
        ({"task_id": {"S": "bank#02"}, "lock_expire_time": {"S": "2026-01-01T00:00:30.000000+0000"}}, "1 slots above"),
        ({"task_id": {"S": "bank#02"}, "lock_expire_time": {"S": "2025-12-31T00:00:00.000000+0000"}}, None),
    ],
)
def test_slots_that_nobody_can_take_and_taken_ones_above_the_number_are_a_danger(
    described: type[Task], monkeypatch: pytest.MonkeyPatch, slot: dict[str, Any], found: str | None
) -> None:
    monkeypatch.setattr(settings, "limits_of", lambda _: [ConcurrencyLimit("bank", 2)])
    put(described, {**SLOT, **slot})
    with stopped_clock(datetime(2026, 1, 1, tzinfo=UTC)):
        if found is None:
            assert "limit bank" not in subjects(described)
        else:
            finding = one(described, "limit bank")
            assert (finding.severity, finding.found[: len(found)]) == (Severity.DANGER, found)


def test_several_numbers_of_a_limit_are_a_danger(described: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "limits_of", lambda _: [ConcurrencyLimit("bank", most) for most in (1, 2)])
    assert one(described, "limit bank").found == "limits of 1 and 2"


def test_there_is_nothing_to_say_of_a_table_that_has_it_all(described: type[Task]) -> None:
    with answering(described, table={"DeletionProtectionEnabled": True}, backups=ON):
        assert examine(described) == []


def test_point_in_time_recovery_that_is_off_is_advice(described: type[Task]) -> None:
    finding = one(described, "point-in-time recovery")
    assert (finding.severity, finding.found, finding.expected) == (Severity.ADVICE, "off", "on")


def test_point_in_time_recovery_that_is_turned_on_is_seen(described: type[Task]) -> None:
    specification = {"PointInTimeRecoveryEnabled": True}
    client(described).update_continuous_backups(
        TableName=described.Meta.table_name, PointInTimeRecoverySpecification=specification
    )
    assert "point-in-time recovery" not in subjects(described)


def test_point_in_time_recovery_that_the_caller_may_not_read_is_unknown(described: type[Task]) -> None:
    with answering(described, backups="AccessDeniedException"):
        finding = one(described, "point-in-time recovery")
    assert (finding.severity, finding.found) == (Severity.ADVICE, "unknown: AccessDeniedException: this is why")
    assert finding.to_do == "Grant dynamodb:DescribeContinuousBackups to the role that runs this check."


def test_point_in_time_recovery_that_a_server_does_not_support_is_unknown(shop: type[Task]) -> None:
    if is_moto(shop):
        pytest.skip("moto knows it")
    assert one(shop, "point-in-time recovery").found == "unknown: the server does not return it"


def test_deletion_protection_that_is_off_is_advice(shop: type[Task]) -> None:
    finding = one(shop, "deletion protection")
    assert (finding.severity, finding.found, finding.expected) == (Severity.ADVICE, "off", "on")


def test_deletion_protection_that_is_turned_on_is_seen(described: type[Task]) -> None:
    client(described).update_table(TableName=described.Meta.table_name, DeletionProtectionEnabled=True)
    assert "deletion protection" not in subjects(described)


def test_deletion_protection_that_a_server_does_not_return_is_unknown(described: type[Task]) -> None:
    with answering(described, table={"DeletionProtectionEnabled": None}):
        assert one(described, "deletion protection").found == "unknown: the server does not return it"
