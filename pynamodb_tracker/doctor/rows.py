"""Checks of rows: tasks that wait for others that are gone, and requests that no run has taken in."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pynamodb_tracker import clock
from pynamodb_tracker.doctor.description import Finding, Severity
from pynamodb_tracker.model.references import reference_to, round_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import readable_value, readable_values
from pynamodb_tracker.status import END
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.transitions.group_repair import needs_repair

_READ = [
    *("task_id", "use_case_id", "status", "due_time", "update_time", "creation"),
    *("round", "waits", "parent", "again", "group", "starts"),
]

_NAMED = 5
"""Tasks that a finding names."""


def check_rows(model: type[Task]) -> Iterator[Finding]:
    """Scan the table of this class, strongly consistent, and yield a finding for each kind of tasks that need help."""
    begun = clock.now()
    children, parked, asked = Counter[str](), list[TaskRow](), list[TaskRow]()
    groups: dict[tuple[type[TaskRow], str], TaskRow] = {}
    has_others = TaskRow.waits.exists() | TaskRow.parent.exists() | TaskRow.again.exists()
    for row in model.scan(has_others, attributes_to_get=_READ, consistent_read=True):
        values = readable_values(row)
        if parent := values.get("parent"):
            children[parent] += 1
        if values.get("waits") and values.get("due_time") == clock.NEVER and values["update_time"] < begun:
            parked.append(row)
            if values.get("starts") and row._bound_steps:
                groups.setdefault((type(row), row.group), row)
        if "again" in row._row_state.stored and values.get("status") == END:
            asked.append(row)
    yield from _waiting_for_nobody([row for row in parked if children[reference_to(row)] < _others(row)])
    yield from _standing_still(
        [f"{model.__name__}.group({name!r})" for model, name in groups if needs_repair(model, name)]
    )
    yield from _asked_after_the_end(asked)


def _waiting_for_nobody(suspected: Sequence[TaskRow]) -> Iterator[Finding]:
    """Yield tasks for which too few others were found, and that have not changed since they were read."""
    found = [row for row in suspected if _is_unchanged(row)]
    if found:
        yield Finding(
            Severity.DANGER,
            "tasks that wait for others",
            f"waiting for more tasks than there are: {_named(found)}",
            "as many tasks refer to a task as it waits for",
            "They never become due: what they wait for was deleted by other means than delete_task.",
            "Ignore each of them, and start it from that state, as in Report.collect.run(task_id, "
            "also_from=(Report.collect.ignored,)); or delete it.",
        )


def _others(row: TaskRow) -> int:
    """Return for how many tasks a task waits that it has created; its turn in a group is none of them."""
    waits: int = row.waits
    return waits if readable_value(row, "starts") is None else waits - 1


def _standing_still(groups: Sequence[str]) -> Iterator[Finding]:
    """Yield groups in which tasks wait for a turn that nobody hands on."""
    if groups:
        yield Finding(
            Severity.DANGER,
            "groups",
            f"standing still, because the task that has the turn has ended or is gone: {_listed(groups)}",
            "the end of each task hands on its turn",
            "The tasks that wait in them never become due: a row was deleted by other means than delete_task.",
            "Hand on the turn: call Order.group(name).repair(), or pynamodb-tracker group NAME --repair.",
        )


def _asked_after_the_end(asked: Sequence[TaskRow]) -> Iterator[Finding]:
    """Yield tasks that have ended without what was asked for while they ran."""
    if asked:
        yield Finding(
            Severity.DANGER,
            "tasks that were asked for again",
            f"ended, without a run for what was requested since: {_named(asked)}",
            "the last success makes such a task pending again",
            "A worker of an earlier version, which does not know create_or_merge, has ended them.",
            "Deploy this version for all workers, and call create_or_merge for each of them once more.",
        )


def _is_unchanged(row: TaskRow) -> bool:
    """Return whether a task still waits for as many as before; a child that was created since has changed that."""
    try:
        now = type(row).get(row.task_id, row.use_case_id, consistent_read=True)
    except type(row).DoesNotExist:
        return False
    return (now.waits, round_of(now)) == (row.waits, round_of(row))


def _named(rows: Sequence[TaskRow]) -> str:
    return _listed([f"{row.use_case_id} {row.task_id!r}" for row in rows])


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(names[:_NAMED])
    return f"{first} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else first
