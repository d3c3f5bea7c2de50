"""The doctor compares a table with its class, and explains the differences."""

from pynamodb_tracker.doctor import schema, settings
from pynamodb_tracker.doctor.description import Finding, NotExaminedError, Severity, describe
from pynamodb_tracker.doctor.rows import examine_before_index, examine_rows
from pynamodb_tracker.task.task import Task

__all__ = ["Finding", "NotExaminedError", "Severity", "examine", "examine_before_index", "examine_rows"]

_CHECKS = (
    schema.check_attribute_types,
    schema.check_indexes,
    settings.check_time_to_live,
    settings.check_replicas,
    settings.check_protection,
    settings.check_capacity,
    settings.check_retry_delays,
)


def examine(model: type[Task]) -> list[Finding]:
    """Return the findings about this class's table, the worst first.

    This reads settings, one item per use case, and the limits' slots, but no tasks. A setting that cannot be read is a
    finding, too.

    Raises:
        NotExaminedError: The table does not exist, or DynamoDB does not respond.
    """
    description = describe(model.tracker.table)
    findings = [*settings.check_status(description), *schema.check_keys(description)]
    is_readable = all(finding.severity is not Severity.WRONG for finding in findings)
    reading = (settings.check_control, settings.check_limits) if is_readable else ()
    findings += [finding for check in (*_CHECKS, *reading) for finding in check(description)]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))
