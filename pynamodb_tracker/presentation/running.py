"""Who runs tasks now, over all steps and use cases: by worker, with the tasks whose lock has expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.presentation.task_facts import is_abandoned
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

MOST = 1000
"""Tasks in progress that are looked at; each takes a read unit, because the index does not know the worker."""

_EXAMPLES = 50
"""Tasks of a worker that are kept."""


@dataclass(slots=True)
class WorkerView:
    """What a worker runs, as `host:pid` or the name that it was given; None if no row says."""

    worker: str | None
    tasks: int = 0
    steps: Counter[State[Any]] = field(default_factory=Counter)
    """By state, so that steps of several use cases stay apart."""
    oldest: datetime | None = None
    """When the first of them was claimed."""
    expires: datetime | None = None
    """When the first valid lock expires."""
    expired: int = 0
    """Tasks whose lock has expired: the next run of their step takes them over."""
    examples: list[tuple[State[Any], str, bool]] = field(default_factory=list)
    """Some of them, the longest-running ones, each with whether its lock has expired."""

    def add(self, task: Task) -> None:
        """Count a task in progress."""
        claimed, expires = task.update_time, task.lock_expire_time
        is_expired = is_abandoned(task)
        self.tasks += 1
        self.steps[task.state] += 1
        self.expired += is_expired
        self.oldest = min(filter(None, (self.oldest, claimed)), default=None)
        if not is_expired:
            self.expires = min(filter(None, (self.expires, expires)), default=None)
        if len(self.examples) < _EXAMPLES:
            self.examples.append((task.state, task.task_id, is_expired))


@dataclass(frozen=True, slots=True)
class Running:
    """All workers, those with expired locks first, then by their number of tasks."""

    workers: Sequence[WorkerView]
    tasks: int
    expired: int
    is_all: bool
    """False if more tasks are in progress than were looked at."""


def find_running(models: Sequence[type[Task]], worker: str | None = None) -> Running:
    """Look at the tasks in progress, those first whose lock expires first; with a `worker`, keep only its tasks.

    `worker` is the beginning of its name, such as a host.
    """
    states = [step.in_progress for model in models for step in model._bound_steps.values()]
    parts = side_by_side(methodcaller("index_page", limit=MOST), states)
    entries = [(state, entry) for state, part in zip(states, parts, strict=True) for entry in part.tasks]
    entries.sort(key=lambda each: each[1].due_time or clock.NEVER)
    is_all = len(entries) <= MOST and all(part.cursor is None for part in parts)
    ids: dict[type[Task], list[str]] = {}
    for state, entry in entries[:MOST]:
        ids.setdefault(state.model, []).append(entry.task_id)
    found: dict[str | None, WorkerView] = {}
    for each in side_by_side(lambda each: _in_progress(*each), ids.items()):
        for task in each:
            name = task.worker
            if worker is None or (name or "").startswith(worker):
                found.setdefault(name, WorkerView(name)).add(task)
    workers = sorted(found.values(), key=lambda each: (-each.expired, -each.tasks, each.worker or ""))
    return Running(workers, sum(each.tasks for each in workers), sum(each.expired for each in workers), is_all)


def _in_progress(model: type[Task], ids: list[str]) -> list[Task]:
    tasks = [task for task in rows_to_show(model, ids).values() if task.state.status is Status.IN_PROGRESS]
    return sorted(tasks, key=lambda task: task.attribute_values.get("update_time", clock.NEVER))
