"""Finds damaged rows, and tasks that wait forever."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from pynamodb_tracker import clock
from pynamodb_tracker.doctor.description import Finding, danger
from pynamodb_tracker.dynamodb.connection import pages
from pynamodb_tracker.dynamodb.limits import MAX_KEY_BYTES
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.features.children.joins import awaited_tasks
from pynamodb_tracker.features.groups.repair import needs_repair
from pynamodb_tracker.model.data import unread_data
from pynamodb_tracker.model.references import join_of, parse
from pynamodb_tracker.model.row import TaskRow, damages_of, has_later_format, is_beyond_limit, load, readable
from pynamodb_tracker.model.status import end_of
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.task.find_by import find_bys
from pynamodb_tracker.task.task import Task

_KEPT = ("task_id", "use_case_id", "creation", "join_token", "blockers", "turn_due_time")

_NAMED = 5
_DAMAGED_NAMED = 20

_WAITING_FOR_NOBODY = danger(
    "tasks that wait for others",
    "waiting for more tasks than there are",
    "as many tasks refer to a task as it waits for",
    "They never become due, because tasks that they wait for were deleted without delete_task.",
    "Delete each of them, or ignore it and run it from that state, as in Report.collect.run(task_id, "
    "also_from=(Report.collect.ignored,)).",
)
_STANDING_STILL = danger(
    "groups",
    "stuck, because the task with the turn has ended, is gone, or is parked beyond its limit",
    "each task passes on its turn when it ends",
    "Their waiting tasks never become due. Somebody changed a row, or deleted it without delete_task.",
    "Repair each group: call Order.group(name).repair(), or pynamodb-tracker group NAME --repair.",
)
_AWAITING_WHAT_NOBODY_DECLARES = danger(
    "tasks that await signals",
    "awaiting signals that no class declares",
    "a Signal with that stored name",
    "Nobody can send such a signal, so they never become due without a time limit.",
    'Declare it again, as in paid = Signal("paid"), or run each of them with also_from, which ignores signals.',
)


def examine_rows(model: type[Task]) -> list[Finding]:
    """Check all tasks in this class's table.

    This scans the whole table with strong consistency, at one read unit per 4 KB. It reads tasks that seem stuck again.
    """
    begun = clock.now()
    children, parked = Counter[str](), list[TaskRow]()
    groups: dict[tuple[type[TaskRow], str], TaskRow] = {}
    damaged, unknown = defaultdict[str, list[str]](list), list[str]()
    for row in map(readable, model.scan(consistent_read=True)):
        for name, why in _find_damages(row):
            damaged[name].append(f"{row.use_case_id} {row.task_id!r} ({why})")
        if row.parent:
            children[row.parent] += 1
        if row.blockers and row.due_time == clock.NEVER and row.attribute_values.get("update_time", begun) < begun:
            stored = row._row_state.stored
            parked.append(readable(load(type(row), {name: stored[name] for name in _KEPT if name in stored})))
        if row._bound_steps and row.group and (row.turn_due_time or is_beyond_limit(row)):
            groups.setdefault((type(row), row.group), row)
        if names := _undeclared_signals(row):
            unknown.append(f"{row.use_case_id} {row.task_id!r} ({', '.join(sorted(names))})")
    parked = [row for row in parked if children[join_of(row)] < awaited_tasks(row) and _is_unchanged(row)]
    still = [f"{model.__name__}.group({name!r})" for model, name in groups if needs_repair(model, name)]
    in_need = (
        (_WAITING_FOR_NOBODY, [f"{row.use_case_id} {row.task_id!r}" for row in parked]),
        (_STANDING_STILL, still),
        (_AWAITING_WHAT_NOBODY_DECLARES, unknown),
    )
    findings = [_damage_finding(name, found) for name, found in sorted(damaged.items())]
    return findings + [replace(each, found=f"{each.found}: {_list_names(names)}") for each, names in in_need if names]


def examine_before_index(model: type[Task]) -> list[Finding]:
    """Find values that are invalid in the index of a new FindBy, so that their rows could no longer be written.

    This scans the whole table with strong consistency, at one read unit per 4 KB.
    """
    table = model.tracker.connection()
    names = [index.attribute.attr_name for index in find_bys(cast("type[Task]", model.tracker.table.owner)).values()]
    wrong = defaultdict[str, list[str]](list)
    wanted = ["task_id", "use_case_id", *names]
    for page in pages(table, table.scan, attributes_to_get=wanted, consistent_read=True) if names else ():
        for item in page["Items"]:
            for name in names:
                ((kind, value),) = item.get(name, {"S": "-"}).items()
                if kind != "S" or not 1 <= len(value.encode()) <= MAX_KEY_BYTES:
                    why = f"{len(value.encode()):,} bytes" if kind == "S" else f"of type {kind}"
                    wrong[name].append(f"{item['use_case_id']['S']} {item['task_id']['S']!r} ({why})")
    return [
        danger(
            f"values of {name}",
            _list_names(found, _DAMAGED_NAMED),
            f"text of 1 to {MAX_KEY_BYTES:,} bytes, or no {name}",
            "With the index, DynamoDB refuses every write that keeps such a value, including claims.",
            f"Before you add the index, deploy the class with FindBy({name}), which prevents more such values, and "
            f"correct these, for example with task.update([Order.{name}.remove()]).",
        )
        for name, found in wrong.items()
    ]


def _find_damages(row: TaskRow) -> Iterator[tuple[str, object]]:
    """Yield each unreadable, missing or wrong attribute's stored name, with the reason."""
    if not row._bound_steps or has_later_format(row):
        return
    damaged: dict[str, object] = {**damages_of(row)}
    if "data" not in damaged and unread_data(row) is None:
        try:
            row.data  # noqa: B018 - parses the data
        except TaskError as error:
            damaged["data"] = error.__cause__
    try:
        parse(row.attribute_values.get("parent", join_of(row)))
    except ValueError as error:
        damaged["parent"] = error
    for name, why in damaged.items():
        yield row.get_attributes()[name].attr_name, why
    if "status" in damaged:
        return
    if end_of(row.status) is None and row.tracker.status_of(row.status) is None:
        yield "status", f"no step of {type(row).__name__} declares {row.status}"
    elif "status_key" in row.attribute_values and row.status_key not in row.tracker.status_keys(row.status):
        advice = ", so declare urgent=True" if row.urgent and not row.tracker.use_case.urgent else ""
        yield "status_key", f"{row.status_key!r} does not belong to {row.tracker.name_of(row.status)}{advice}"


def _damage_finding(name: str, found: Sequence[str]) -> Finding:
    return danger(
        f"damaged tasks: {name}",
        _list_names(found, _DAMAGED_NAMED),
        f"{name} as the class declares it, and as the tracker writes it",
        "No worker can run such a task, queries do not find it in its state, or its block cannot use the attribute. "
        "Other tasks are not affected.",
        "Declare the attribute as it is stored, deploy the version that declares the status, or correct the row in the "
        "console. The tracker does not change or delete rows with damaged attributes of its own.",
    )


def _undeclared_signals(row: TaskRow) -> set[str]:
    if not row._bound_steps or has_later_format(row):
        return set()
    return {*(row.awaited_signals or ())} - {each.stored_name for each in signals_in(type(row))}


def _is_unchanged(row: TaskRow) -> bool:
    """Return whether a task still waits for as many tasks as at the scan."""
    try:
        now = readable(type(row).get(row.task_id, row.use_case_id, consistent_read=True))
    except type(row).DoesNotExist:
        return False
    return (now.blockers, join_of(now)) == (row.blockers, join_of(row))


def _list_names(names: Sequence[str], most: int = _NAMED) -> str:
    first = ", ".join(names[:most])
    return f"{first} and {len(names) - most:,} more" if len(names) > most else first
