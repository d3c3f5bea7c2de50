"""Protection: whether the table can be used, and what is left when somebody makes a mistake with it."""

from __future__ import annotations

from collections.abc import Iterator

from pynamodb_tracker.doctor.description import Description, NotLookedAt
from pynamodb_tracker.doctor.finding import Finding, Severity

__all__ = ["in_backups", "in_deletion_protection", "in_status"]

_STATES = {
    "UPDATING": "Its settings are being changed; it can be used meanwhile. Look again when it is ACTIVE.",
    "CREATING": "Requests fail until it is ACTIVE: wait.",
    "DELETING": "It is about to be gone, with all its tasks.",
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": "Requests fail, because DynamoDB cannot use the KMS key of the table. After "
    "seven days it archives the table: give the key back.",
}
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""


def in_status(description: Description) -> Iterator[Finding]:
    """Yield a status in which the table serves nobody, or may soon be another one."""
    status = description.table["TableStatus"]
    if status != "ACTIVE":
        severity = Severity.ADVICE if status == "UPDATING" else Severity.WRONG
        meaning = _STATES.get(status, "Requests fail: DynamoDB serves tables that are ACTIVE or UPDATING.")
        yield Finding(severity, "table status", status, "ACTIVE", meaning)


def in_backups(description: Description) -> Iterator[Finding]:
    """Yield point-in-time recovery that is off.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Point-in-time-recovery.html
    """
    told = description.backups
    if isinstance(told, NotLookedAt):
        found = str(told)
    elif told.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED":
        return
    else:
        found = "off"
    meaning = "Without it, tasks that are deleted or overwritten by mistake cannot be brought back."
    yield Finding(Severity.ADVICE, "point-in-time recovery", found, "on", meaning)


def in_deletion_protection(description: Description) -> Iterator[Finding]:
    """Yield deletion protection that is off.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html#WorkingWithTables.Basics.DeletionProtection
    """
    is_on = description.table.get("DeletionProtectionEnabled")
    if not is_on:
        found = "off" if is_on is False else str(NotLookedAt("the server does not tell"))
        meaning = "Without it, one DeleteTable of a script or a template deletes all tasks."
        yield Finding(Severity.ADVICE, "deletion protection", found, "on", meaning)
