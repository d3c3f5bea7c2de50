"""The doctor: compares a table with its class, and reports what differs and what that means."""

from pynamodb_tracker.doctor import schema, settings
from pynamodb_tracker.doctor.description import Finding, NotExaminedError, Severity, describe
from pynamodb_tracker.doctor.rows import examine_before_index, examine_rows
from pynamodb_tracker.task.task import Task

__all__ = ["Finding", "NotExaminedError", "Severity", "examine", "examine_before_index", "examine_rows", "use_cases"]

_OF_ITEMS = (settings.check_pauses, settings.check_limits)
"""These read items, which a table with other keys, or one that is not active, does not respond."""

_WHETHER_IT_ANSWERS = (settings.check_status, schema.check_keys)

_CHECKS = (
    schema.check_attribute_types,
    schema.check_indexes,
    settings.check_time_to_live,
    settings.check_replicas,
    settings.check_backups,
    settings.check_deletion_protection,
    settings.check_capacity,
)


def examine(model: type[Task]) -> list[Finding]:
    """Check the table of this class with three requests, and return the findings, the worst first.

    It reads settings, not tasks; and one item more for each use case with `pausable=True`, and the slots of limits. A
    setting that DynamoDB does not return, or that the caller may not read, is a finding, too. NotExaminedError if the
    table does not exist or DynamoDB does not respond.
    """
    description = describe(model.tracker.table)
    findings = [finding for check in _WHETHER_IT_ANSWERS for finding in check(description)]
    is_readable = all(finding.severity is not Severity.WRONG for finding in findings)
    checks = (*_CHECKS, *_OF_ITEMS) if is_readable else _CHECKS
    findings += [finding for check in checks for finding in check(description)]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def use_cases(model: type[Task]) -> list[str]:
    """Return the names of this table's imported use cases: the table is compared with no others."""
    return sorted(each.__name__ for each in model.tracker.table.use_cases.values())
