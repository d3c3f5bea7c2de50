"""What a batch did, by task id."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """The outcome of a batch; a task is in one of the lists."""

    succeeded: list[str] = field(default_factory=list)
    """These succeeded, or were created or deleted."""
    failed: list[str] = field(default_factory=list)
    """These failed, and will be tried again."""
    ignored: list[str] = field(default_factory=list)
    """These were set aside: their last attempt failed or was used up, or the function gave up."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """These were skipped, or their lock was lost; with the error that says why."""
    due: list[str] = field(default_factory=list)
    """These would have run without `dry_run`."""

    def __str__(self) -> str:
        if self.due:
            return f"{len(self.due)} due"
        return (
            f"{len(self.succeeded)} succeeded, {len(self.failed)} failed, {len(self.ignored)} ignored, "
            f"{len(self.refused)} refused"
        )
