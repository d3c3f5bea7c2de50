"""Replicas in other regions: whether a lock that is held in one region is held in the others."""

from __future__ import annotations

from collections.abc import Iterator

from pynamodb_tracker.doctor.description import Description
from pynamodb_tracker.doctor.finding import Finding, Severity

__all__ = ["in_replicas"]


def in_replicas(description: Description) -> Iterator[Finding]:
    """Yield what replicas mean for locks.

    Eventually consistent ones check a condition against what their own region has, and the last write wins; strongly
    consistent ones check it against the latest version:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html, and have no time to
    live and no transactions: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/globaltables-CoreConcepts.html
    """
    if not description.elsewhere:
        return
    regions = f"also in {', '.join(description.elsewhere)}"
    if description.is_strong_elsewhere:
        yield Finding(
            Severity.ADVICE,
            "replicas",
            f"{regions}, strongly consistent",
            "none, where transactions or keep_for are used",
            "A lock holds in all regions. But DynamoDB refuses transactions there, and has no time to live: creating a "
            "task with data too large for its row fails, ctx.transaction fails, and keep_for deletes nothing.",
            "Create tasks without large data, and let a run save it, or raise data_in_row. Leave keep_for out.",
        )
    else:
        yield Finding(
            Severity.DANGER,
            "replicas",
            f"{regions}, eventually consistent",
            "none, or strongly consistent ones",
            "Each region decides by what it has itself: two of them can hold the lock of one task at the same time, "
            "and the later write replaces the other one.",
            "Let everything that writes, workers and people, write in one region only. The consistency cannot be "
            "changed: a strongly consistent table is a new one.",
        )
