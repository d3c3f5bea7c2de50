"""`export`: tasks as JSON lines, which `load` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from pynamodb_tracker import clock
from pynamodb_tracker.cli.damaged import Unread, unread_of
from pynamodb_tracker.cli.exits import INTERRUPTED
from pynamodb_tracker.cli.files.json_values import attributes_of
from pynamodb_tracker.cli.lookup import check_window, name_of, state_named, use_case
from pynamodb_tracker.cli.options import AppOption, SinceOption, UntilOption, UseCaseOption
from pynamodb_tracker.cli.terminal.echo import count, warn, write
from pynamodb_tracker.cli.times import stamp
from pynamodb_tracker.exceptions import LockLostError, TaskNotFoundError
from pynamodb_tracker.model.data import LeftOut
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.step.tolerant import everything, leniently
from pynamodb_tracker.task.task import Task

__all__ = ["export"]


def export(
    state: Annotated[
        str | None, typer.Argument(metavar="STEP.STATE", help="One state, as ship.failed; without it, all tasks.")
    ] = None,
    *,
    name: AppOption,
    use_case_name: UseCaseOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """Write tasks as JSON lines on stdout: the id, the state and the attributes of each, for load or for programs.

    Attempts, errors and times are left out: a task that is loaded begins anew in its state. Without a state it reads
    the whole table, each task once.
    """
    number, unread = 0, Unread(own_too=True)
    with use_case(name, use_case_name) as model:
        if (since or until) and state is None:
            raise typer.BadParameter("only with a state, as in ship.failed", param_hint="--since and --until")
        check_window(since, until)
        of = None if state is None else state_named(model, state)
        found = _everything(model) if of is None else leniently(of, since=since, until=until, with_data=True)
        try:
            for task in found:
                if (line := _line(model, task, unread)) is not None:
                    write(json.dumps(line) + "\n")
                    number += 1
        except KeyboardInterrupt:
            warn(f"stopped after {count(number)}")
            raise typer.Exit(INTERRUPTED) from None
    warn(f"{count(number)} of {model.__name__}")
    unread.exit()


def _everything(model: type[Task]) -> Iterator[Task]:
    """Yield every task of the use case once, whatever moves meanwhile; what is past its time to live is gone."""
    now = clock.now()
    return (row for row in everything(model) if not _is_over(row.expire_time, now))


def _is_over(expires: datetime | None, now: datetime) -> bool:
    return expires is not None and expires <= now


def _line(model: type[Task], task: Task, noted: Unread) -> dict[str, Any] | None:
    """Return what `load` reads, None for a task that was deleted meanwhile, or that would be another one without it."""
    if isinstance(task.attribute_values.get("data"), LeftOut):
        task = rows(model, [task.task_id]).get(task.task_id, task)
    unread = unread_of(task)
    try:
        attributes = {} if unread else attributes_of(task, unread)
    except LockLostError:  # its data was written again since the row was read
        try:
            task = model.get_task(task.task_id)
        except TaskNotFoundError:
            return None
        attributes = attributes_of(task, unread)
    if unread:
        noted.add(task.task_id, unread)
        return None
    waits = not task.tracker.ends_at(task.state.code) and task.due_time > max(clock.now(), task.update_time)
    due = {"due_time": stamp(task.due_time)} if waits and task.lock_expire_time != task.due_time else {}
    return {"task_id": task.task_id, "state": name_of(task.state), **due, **attributes}
