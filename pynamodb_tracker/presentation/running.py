"""The tasks in progress of all use cases, by worker."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import methodcaller
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.task_facts import is_abandoned
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

MOST = 1000  # tasks in progress to read, at one read unit each, because the index lacks the worker

_EXAMPLES = 50


@dataclass(slots=True)
class WorkerView:
    """A worker's tasks. Its name is `host:pid:` and four letters or its own name, or None if unreadable."""

    worker: str | None
    tasks: int = 0
    steps: Counter[State[Any]] = field(default_factory=Counter)
    oldest: datetime | None = None  # when its first task was claimed
    expires: datetime | None = None  # when the first valid lock expires
    expired: int = 0
    examples: list[tuple[State[Any], str, bool]] = field(default_factory=list)
    """The longest-running tasks, each with whether its lock has expired."""

    def add(self, task: Task) -> None:
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
    workers: Sequence[WorkerView]
    tasks: int
    expired: int
    is_all: bool


def find_running(models: Sequence[type[Task]], worker: str | None = None) -> Running:
    """Load the tasks in progress. `worker` selects workers by the beginning of their names, such as a host."""
    states = [step.in_progress for model in models for step in model._bound_steps.values()]
    parts = side_by_side(methodcaller("index_page", limit=MOST), states)
    entries = [(state, entry) for state, part in zip(states, parts, strict=True) for entry in part.tasks]
    entries.sort(key=lambda each: each[1].due_time or clock.NEVER)
    is_all = len(entries) <= MOST and all(part.cursor is None for part in parts)
    ids: dict[type[Task], list[str]] = {}
    for state, entry in entries[:MOST]:
        ids.setdefault(state.model, []).append(entry.task_id)
    found: dict[str | None, WorkerView] = {}
    for rows in side_by_side(lambda each: rows_to_show(*each).values(), ids.items()):
        for task in sorted(rows, key=lambda row: row.attribute_values.get("update_time", clock.NEVER)):
            name = task.worker
            is_asked = worker is None or (name or "").startswith(worker)
            if is_asked and task.state.status is Status.IN_PROGRESS:
                found.setdefault(name, WorkerView(name)).add(task)
    workers = sorted(found.values(), key=lambda each: (-each.expired, -each.tasks, each.worker or ""))
    return Running(workers, sum(each.tasks for each in workers), sum(each.expired for each in workers), is_all)
