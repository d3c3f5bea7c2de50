"""The doctor: looks at a table, and says what differs from the model and what that means."""

from __future__ import annotations

from pynamodb_tracker.doctor.capacity import in_capacity
from pynamodb_tracker.doctor.description import NotExaminedError, describe
from pynamodb_tracker.doctor.finding import Finding, Severity
from pynamodb_tracker.doctor.indexes import in_indexes
from pynamodb_tracker.doctor.keys import in_keys, in_types
from pynamodb_tracker.doctor.protection import in_backups, in_deletion_protection, in_status
from pynamodb_tracker.doctor.replicas import in_replicas
from pynamodb_tracker.doctor.time_to_live import in_time_to_live
from pynamodb_tracker.task.task import Task

__all__ = ["Finding", "NotExaminedError", "Severity", "examine", "use_cases"]

_LOOKS = (
    in_status,
    in_keys,
    in_types,
    in_indexes,
    in_time_to_live,
    in_replicas,
    in_backups,
    in_deletion_protection,
    in_capacity,
)


def examine(model: type[Task]) -> list[Finding]:
    """Look at the table of this class, by three requests, and return what there is to say, the worst first.

    It reads settings and no tasks. What DynamoDB does not tell, or does not permit this caller to ask, is a finding,
    too. A NotExaminedError says why the table cannot be looked at: it is not there, or does not answer.
    """
    description = describe(model.tracker.table)
    findings = [finding for look in _LOOKS for finding in look(description)]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def use_cases(model: type[Task]) -> list[str]:
    """Return the classes of the use cases on this table that are imported: no other one can be compared with it."""
    return sorted(each.__name__ for each in model.tracker.table.use_cases.values())
