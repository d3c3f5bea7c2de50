"""The children that tasks wait for, and which of them block a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.features.children.joins import Children, awaited_tasks, read_children
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.overflow import RowKey
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.status import Status, end_of
from pynamodb_tracker.presentation.task_facts import GAVE_UP, UNKNOWN, name_of
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task

_MOST = 100  # rows to read per task. A success creates 97 children at most
_LEVELS = 3
MOST_CHECKED, _MOST_OF_THEM = 20, 40
"""How many waiting tasks are checked per use case, and how many of their children are read."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Child:
    """A task that a parent waits for."""

    use_case: str
    task_id: str
    state: str
    needs_person: bool  # whether a person has to reopen or delete it, because it is ignored or cancelled

    @classmethod
    def of(cls, row: TaskRow) -> "Child":
        if not isinstance(row, Task) or not row.tracker.steps:
            return cls(row.use_case_id, row.task_id, f"{UNKNOWN}.{row.status or 0}", needs_person=False)
        needs_person = row.state.status is Status.IGNORED or end_of(row.status) == "cancelled"
        return cls(row.use_case_id, row.task_id, name_of(row.state), needs_person)

    @property
    def words(self) -> str:
        step, _, status = self.state.rpartition(".")
        return f"{step} {GAVE_UP}" if status == Status.IGNORED else self.state

    def __str__(self) -> str:
        return f"{self.use_case} {self.task_id}: {self.words}"


@dataclass(frozen=True, slots=True)
class Family:
    children: Sequence[Child]
    unlisted: int
    blockers: Sequence[Child]  # the ignored and cancelled tasks among its children, their children, and so on

    @property
    def blocked_by(self) -> str | None:
        """The tasks that block this one, as in "part r-1/31, which gave up", or None."""
        if not self.blockers:
            return None
        names = [f"{each.use_case} {each.task_id}" for each in self.blockers[:_MOST_NAMED]]
        if (more := len(self.blockers) - _MOST_NAMED) > 0:
            names.append(f"{more} more")
        ends = {"ended as cancelled" if each.state == "cancelled" else GAVE_UP for each in self.blockers}
        return f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}, which {' or '.join(sorted(ends))}"

    def as_json(self) -> dict[str, Any]:
        unlisted = {"unlisted_children": self.unlisted} if self.unlisted else {}
        blockers = {"blocked_by": [asdict(each) for each in self.blockers]} if self.blockers else {}
        return {"children": [asdict(each) for each in self.children], **unlisted, **blockers}


@dataclass(frozen=True, slots=True)
class Blocked:
    step: BoundStep[Any]
    task_id: str
    family: Family

    def as_json(self) -> dict[str, Any]:
        return {"task_id": self.task_id, "state": name_of(self.step.pending), **self.family.as_json()}

    def __str__(self) -> str:
        return f"{self.task_id} is blocked by {self.family.blocked_by}"


def family_of(task: TaskRow) -> Family | None:
    """Load the children that a task waits for. Return None, without a request, if there are none."""
    return families_of([task], _MOST).get((task.task_id, task.use_case_id))


def find_blocked(steps: Sequence[BoundStep[Any]]) -> tuple[list[Blocked], bool]:
    """Find blocked tasks among a use case's first 20 waiting tasks. Also return whether more tasks may wait."""

    def waiting_ids(step: BoundStep[Any]) -> list[str]:
        found = step.pending.index_page(limit=MOST_CHECKED, latest_due_first=True)
        return [each.task_id for each in found.tasks if each.due_time == clock.NEVER]

    found = zip(steps, side_by_side(waiting_ids, steps), strict=True)
    waiting = {task_id: step for step, ids in found for task_id in ids}
    if not waiting:
        return [], False
    ids = list(waiting)[:MOST_CHECKED]
    parents = rows_to_show(steps[0].model, ids)
    families = families_of([parents[task_id] for task_id in ids if task_id in parents], _MOST_OF_THEM)
    blocked = [Blocked(waiting[task_id], task_id, each) for (task_id, _), each in families.items() if each.blockers]
    return blocked, len(waiting) >= MOST_CHECKED


def families_of(tasks: Sequence[TaskRow], most: int) -> dict[RowKey, Family]:
    """Load the children of these tasks of one table, and their children, at most this many rows."""
    known: dict[RowKey, Children] = {}
    level, left = [task for task in tasks if awaited_tasks(task)], most
    for _ in range(_LEVELS):
        if not level or left <= 0:
            break
        found = read_children(level, most=left)
        known |= found
        below = [child for each in found.values() for child in each.tasks]
        level, left = [child for child in below if awaited_tasks(child)], left - len(below)
    return {
        key: Family(
            [Child.of(each) for each in known[key].tasks], known[key].unlisted, list(_find_blockers(key, known))
        )
        for task in tasks
        if (key := (task.task_id, task.use_case_id)) in known
    }


def _find_blockers(key: RowKey, known: Mapping[RowKey, Children]) -> Iterator[Child]:
    """Yield the ignored and cancelled tasks below a task. In a damaged table, references may form a circle."""
    left, seen = [key], {key}
    while left:
        for row in known.get(left.pop(0), Children((), 0)).tasks:
            child = Child.of(row)
            if child.needs_person:
                yield child
            elif (below := (child.task_id, child.use_case)) not in seen:
                seen.add(below)
                left.append(below)
