"""Cancelling a task at any step, and the tasks that it waits for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import transitions
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.features.children.child_list import children_of
from pynamodb_tracker.model.references import join_of, parse
from pynamodb_tracker.model.row import TaskRow

T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

Child = tuple[str, str]  # the use case and the id of a task


@dataclass(slots=True)
class CancelledChildren:
    """What `cancel` with `children` did to the tasks that the task waited for, and to their own children."""

    cancelled: list[Child] = field(default_factory=list)
    """The use case and the id of each cancelled task."""
    refused: dict[Child, Exception] = field(default_factory=dict)
    """The refused children and their errors: a running task of a group, for example."""
    unlisted: int = 0
    """At most how many more children there are, which no list names. They were not changed."""


@dataclass(frozen=True, slots=True)
class Cancellation(Generic[T_co]):
    """What a `cancel` did."""

    task: T_co
    """The task afterwards."""
    effect: Literal["cancelled", "already_cancelled"]
    """Whether this call ignored the task. A task that was ignored before keeps its first reason."""
    running: bool
    """Whether a worker held the task, so that its block may still run."""
    blocked_parent: Child | None
    """The use case and the id of the task that waits for this one to succeed, or None."""
    children: CancelledChildren = field(default_factory=CancelledChildren)
    """The cancelled and refused children. Empty without `children`."""


def cancel(
    model: type[Any], task_id: str, reason: str, by: str | None, *, children: bool, even_in_group: bool
) -> Cancellation[Any]:
    """Cancel a task, and its children if asked."""
    done = _cancel_one(model, task_id, reason, by, even_in_group=even_in_group)
    task, is_first, running = cast("tuple[Any, bool, bool]", done)
    found, report = None, CancelledChildren()
    if parent := task.parent:
        with suppress(ValueError):  # a damaged reference names nobody; `doctor --rows` finds it
            found = parse(parent)
    level = [task] if children else []
    while level:
        level = _cancel_children(level, reason, by, report, even_in_group=even_in_group)
    effect: Literal["cancelled", "already_cancelled"] = "cancelled" if is_first else "already_cancelled"
    return Cancellation(task, effect, running, found and (found.use_case, found.task_id), report)


def _cancel_children(
    parents: list[Any], reason: str, by: str | None, report: CancelledChildren, *, even_in_group: bool
) -> list[Any]:
    """Cancel the children of ignored tasks, which get no others, and return them."""
    cancelled, listed = [], children_of(parents)
    for parent in parents:
        children, unlisted = listed.get((parent.task_id, parent.use_case_id), ((), 0))
        report.unlisted += unlisted
        for child in children:
            use_case, task_id = key = child.use_case_id, child.task_id
            try:
                if use_case not in child.tracker.table.use_cases:
                    raise TrackerError(  # noqa: TRY301 - refused like any other
                        f"cannot cancel {use_case} {task_id!r}: this program does not declare its use case"
                    )
                of = join_of(parent)
                done = _cancel_one(type(child), task_id, reason, by, even_in_group=even_in_group, parent=of)
            except (PynamoDBException, TrackerError) as error:
                report.refused[key] = error
            else:
                if done is not None:
                    cancelled.append(done[0])
                    report.cancelled.append(key)
    return cancelled


def _cancel_one(
    model: type[Any], task_id: str, reason: str, by: str | None, *, even_in_group: bool, parent: str | None = None
) -> tuple[Any, bool, bool] | None:
    model.tracker.use_case  # noqa: B018 - a TypeError on the table class, which has no steps
    steps = [step._definition.statements for step in model._bound_steps.values()]
    return transitions.cancel(steps, task_id, reason, by, even_in_group=even_in_group, parent=parent)
