"""Output that several commands share."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from rich.text import Text

from pynamodb_tracker import clock
from pynamodb_tracker.cli.terminal import Cell, print_table, say, say_json_array, styled, warn
from pynamodb_tracker.control.item import Pause
from pynamodb_tracker.control.slots import Use
from pynamodb_tracker.model.row import damages_of, readable
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.errors import one_line
from pynamodb_tracker.presentation.task_facts import is_abandoned, name_of, task_as_json
from pynamodb_tracker.presentation.text import age, between, count, escaped
from pynamodb_tracker.task.task import Task

# Rows of a table.

WAITING, ALL_WAITING, FOUND_BY = "waiting", "all waiting", "found by"

Kind = Status | str | None  # of a table: a status, None for a state that no step declares, or a name below
COLUMNS: dict[Kind, tuple[str, ...]] = {
    Status.PENDING: ("task", "age", "due", "error"),
    Status.IN_PROGRESS: ("task", "attempt", "age", "lock", "worker"),
    Status.FAILED: ("task", "attempt", "age", "due", "error"),
    Status.IGNORED: ("task", "attempt", "age", "error"),
    Status.SUCCEEDED: ("task", "age"),
    "cancelled": ("task", "attempt", "age", "error"),
    WAITING: ("task", "state", "age", "waits for"),
    ALL_WAITING: ("task", "use case", "state", "age", "waits for"),
    FOUND_BY: ("task", "use case", "state", "created", "age", "error"),
    None: ("task", "attempt", "age", "due", "error"),
}


def row_of(kind: Kind, task: Task) -> list[Cell]:
    now = clock.now()
    cells: dict[str, Cell] = {
        "task": styled(task.task_id, "bold"),
        "attempt": str(task.attempt),
        "age": age(now - task.update_time),
        "due": "now",
        "lock": lock_of(task),
        "worker": task.worker or "",
        "error": task.last_error or "",
        "state": name_of(task.state),
        "use case": task.use_case_id,
        "created": f"{age(now - task.create_time)} ago",
        "waits for": task.waits_for or "",
    }
    if task.due_time == clock.NEVER:
        cells["due"] = f"after {task.waits_for or 'others'}"
    elif task.due_time >= now + timedelta(seconds=1):
        cells["due"] = between(task.due_time)
    return [cells[title] for title in COLUMNS[kind]]


def lock_of(task: Task) -> Cell:
    expires: datetime | None = task.lock_expire_time
    if expires is None:
        return ""
    return styled(f"expired {between(expires)}", "red") if is_abandoned(task) else f"expires {between(expires)}"


def held_back(pauses: Iterable[Pause], required: Iterable[str], limits: Iterable[Use]) -> Iterator[Text]:
    for line in required:
        yield Text(escaped(line), "red")
    for pause in pauses:
        yield Text(escaped(str(pause)), "red" if pause.until is None else "yellow")
    for use in limits:
        yield Text(escaped(str(use)), "yellow" if use.taken >= use.slots else "")


# Damaged tasks have stored attributes that do not match the declared types.

_IN_TABLES = frozenset(
    {"status", "attempt", "due_time", "create_time", "update_time", "lock_expire_time", "worker", "last_error"}
)
"""Tables leave out a task if one of these attributes is damaged."""


class Damaged:
    """Reports damaged tasks. With `own_too`, it also checks the user's attributes."""

    def __init__(self, *, own_too: bool) -> None:
        self._own_too = own_too
        self.read = 0
        self.is_any = False

    def reported(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield all tasks, as far as they can be read, and report damage."""
        for task in map(readable, tasks):
            self.read += 1
            unread = damages_of(task)
            if unread and (self._own_too or not _IN_TABLES.isdisjoint(unread)):
                self.report(task.task_id, unread)
            yield task

    def readable(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield the tasks that a table can show, and report the others."""
        return (task for task in self.reported(tasks) if _IN_TABLES.isdisjoint(damages_of(task)))

    def report(self, task_id: str, unread: Mapping[str, Exception]) -> None:
        self.is_any = True
        reasons = ", ".join(f"{name} ({one_line(error)})" for name, error in unread.items())
        warn(f"{task_id}  cannot be read: {reasons}")


def print_tasks(found: Iterator[Task], kind: Kind, most: int | None, none: str, *, as_json: bool) -> bool:
    damaged, shown = Damaged(own_too=True), islice(found, most)
    if as_json:
        say_json_array(map(task_as_json, damaged.reported(shown)))
    else:
        print_table(COLUMNS[kind], (row_of(kind, task) for task in damaged.readable(shown)))
    if not (damaged.read or as_json):
        say(none)
    if most is not None and next(found, None) is not None:
        warn(f"these are the first {count(most)}: use --limit N or --all to see more")
    return damaged.is_any
