"""Cancelling a task at whichever step it is, and the tasks that it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pynamodb_tracker import transitions
from pynamodb_tracker.batch.batch import Report
from pynamodb_tracker.batch.bulk import report_of_each
from pynamodb_tracker.dynamodb.connection import pages
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.model.references import parse, reference_to
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import readable_value

T_co = TypeVar("T_co", bound=TaskRow, covariant=True)


@dataclass(frozen=True, slots=True)
class Cancelled(Generic[T_co]):
    """What a `cancel` did."""

    task: T_co
    """The task after it."""
    how: Literal["cancelled", "was ignored"]
    """Whether this call ignored the task, or it was ignored before, and keeps its first reason."""
    running: bool
    """Whether a worker held the task, so that its block may still run."""
    waits_in_vain: tuple[str, str] | None
    """The use case and the id of the task that waits for the success of this one; None if none does."""
    children: Report = field(default_factory=Report)
    """With `children`: the ids of those that are ignored now; those that were refused, with the errors."""


def cancel(
    model: type[Any], task_id: str, reason: str, by: str | None, *, children: bool, even_in_group: bool
) -> Cancelled[Any]:
    """Cancel a task, and its children if asked."""
    task, done, running = _cancel_one(model, task_id, reason, by, even_in_group=even_in_group)
    parent, report = readable_value(task, "parent"), Report()
    found = None
    if parent:
        with suppress(ValueError):  # a damaged reference names nobody; `doctor --rows` finds it
            found = parse(parent)
    waiting = [task] if children else []
    while references := {reference_to(row) for row in waiting if readable_value(row, "waits")}:
        waiting = []

        def cancel_child(child_id: str, use_case: str, waiting: list[Any] = waiting) -> Literal["ignored"]:
            child = model.tracker.table.use_cases.get(use_case)
            if child is None:
                raise TrackerError(f"cannot cancel {use_case} {child_id!r}: this program does not declare its use case")
            row, _, _ = _cancel_one(child, child_id, reason, by, even_in_group=even_in_group)
            waiting.append(row)
            return "ignored"

        of_level = report_of_each(_children(model, references), cancel_child, 1)
        report.ignored += of_level.ignored
        report.refused |= of_level.refused
    how: Literal["cancelled", "was ignored"] = "cancelled" if done else "was ignored"
    return Cancelled(task, how, running, found and (found.use_case, found.task_id), report)


def _cancel_one(
    model: type[Any], task_id: str, reason: str, by: str | None, *, even_in_group: bool
) -> tuple[Any, bool, bool]:
    model.tracker.use_case  # noqa: B018 - a TypeError on the table class, which has no steps
    steps = [step._definition.statements for step in model._bound_steps.values()]
    return transitions.cancel(steps, task_id, reason, by, even_in_group=even_in_group)


def _children(model: type[Any], parents: set[str]) -> Iterator[tuple[str, str]]:
    """Yield id and use case of each task that one of these waits for, strongly consistent; reads the whole table.

    Their rounds tell them from the children of earlier ones. A cancelled run creates no further ones.
    """
    table = model.tracker.connection()
    found = pages(
        table,
        table.scan,
        filter_condition=TaskRow.parent.exists(),
        attributes_to_get=["task_id", "use_case_id", "parent"],
        consistent_read=True,
    )
    for page in found:
        for item in page["Items"]:
            if item["parent"].get("S") in parents:
                yield item["task_id"]["S"], item["use_case_id"]["S"]
