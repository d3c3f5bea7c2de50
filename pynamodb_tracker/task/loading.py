"""Creating a task as it was exported: it awaits what it awaited, and has the answers that it had."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pynamodb_tracker import transitions
from pynamodb_tracker.arguments import check_task_id
from pynamodb_tracker.step.awaited import answer_named
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task


def load_task(
    model: type[Task],
    *,
    task_id: str,
    awaits: Collection[str] = (),
    signals: Mapping[str, Mapping[str, Any]] | None = None,
    due_time: datetime | None = None,
    **arguments: Any,
) -> Task:
    """Create a task from what `export` writes; with `awaits`, `due_time` is until when it waits."""
    if not (awaits or signals):
        return model.create(task_id, due_time=due_time, **arguments)
    if {"group", "repeat"} & arguments.keys():
        raise ValueError("a task that is loaded with a group or a rule has no awaits and no signals: leave them out")
    for name in (*awaits, *(signals or {})):
        answer_named(model, name)
    from pynamodb_tracker.transitions.signals import restored  # noqa: PLC0415 - few tasks have answers

    state: State[Any] | None = arguments.pop("state", None)
    code = None if state is None else model._code_to_begin_in(state, due_time)  # noqa: SLF001 - as `create` checks it
    also, due = restored(task_id, awaits, signals or {}, due_time)
    trace = arguments.pop("trace", None)
    return transitions.create(model, check_task_id(task_id), code, due, arguments, trace=trace, also=also)
