"""Protection: whether the table can be used, and what is left when somebody makes a mistake with it."""

from __future__ import annotations

from collections.abc import Iterator

from pynamodb_tracker.doctor.description import Description, NotLookedAt
from pynamodb_tracker.doctor.finding import Finding, Severity

__all__ = ["in_backups", "in_deletion_protection", "in_status"]

_LOOK_AGAIN = "Wait, and look again when it is ACTIVE."

_STATES = {
    "UPDATING": ("Its settings are being changed; it can be used meanwhile.", _LOOK_AGAIN),
    "CREATING": ("Requests fail until it is ACTIVE.", _LOOK_AGAIN),
    "DELETING": ("It is about to be gone, with all its tasks.", "Restore it from a backup, if that was a mistake."),
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": (
        "Requests fail, because DynamoDB cannot use the KMS key of the table. After seven days it archives the table.",
        "Give the key back.",
    ),
    "ARCHIVED": (
        "Requests fail: DynamoDB has archived the table, because it could not use its KMS key for seven days.",
        "Restore the backup that DynamoDB made of it.",
    ),
}
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html"""

_TURN_ON = "Turn it on: in the template of the table,"


def in_status(description: Description) -> Iterator[Finding]:
    """Yield a status in which the table serves nobody, or may soon be another one."""
    status = description.table["TableStatus"]
    if status != "ACTIVE":
        severity = Severity.ADVICE if status == "UPDATING" else Severity.WRONG
        meaning, to_do = _STATES.get(status, ("DynamoDB may refuse requests.", "Look at the table on AWS."))
        yield Finding(severity, "table status", status, "ACTIVE", meaning, to_do)


def in_backups(description: Description) -> Iterator[Finding]:
    """Yield point-in-time recovery that is off.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Point-in-time-recovery.html
    """
    told = description.backups
    if isinstance(told, NotLookedAt):
        found, to_do = str(told), told.to_do
    elif told.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED":
        return
    else:
        found, to_do = "off", f"{_TURN_ON} or by UpdateContinuousBackups."
    meaning = "Without it, tasks that are deleted or overwritten by mistake cannot be brought back."
    yield Finding(Severity.ADVICE, "point-in-time recovery", found, "on", meaning, to_do)


def in_deletion_protection(description: Description) -> Iterator[Finding]:
    """Yield deletion protection that is off.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html#WorkingWithTables.Basics.DeletionProtection
    """
    is_on = description.table.get("DeletionProtectionEnabled")
    if is_on:
        return
    if is_on is None:
        untold = NotLookedAt.untold()
        found, to_do = str(untold), untold.to_do
    else:
        found, to_do = "off", f"{_TURN_ON} or by UpdateTable."
    meaning = "Without it, one DeleteTable of a script or a template deletes all tasks."
    yield Finding(Severity.ADVICE, "deletion protection", found, "on", meaning, to_do)
