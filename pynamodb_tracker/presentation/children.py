"""The children that tasks wait for, with their states; and which of them keep a task from going on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.model.child_list import Children, awaited_tasks, children_of
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.overflow import RowKey
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.presentation.task_facts import GAVE_UP, UNKNOWN, name_of
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.task.task import Task

_MOST = 100
"""Children whose rows are read for one look, those of children included; a success creates 97 at most."""
_LEVELS = 3
_MOST_WAITING = 20
"""Tasks of a use case that are looked at because they wait."""
_MOST_OF_THEM = 40
"""Children of these whose rows are read."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Child:
    """A task for which another one waits."""

    use_case: str
    task_id: str
    state: str
    """Its name, as in `ship.ignored`."""
    needs_person: bool
    """Whether it is ignored: it ends only if a person reopens or deletes it."""

    @classmethod
    def of(cls, row: TaskRow) -> Child:
        """Return what is shown of a row, also of one whose use case this program does not declare."""
        if not isinstance(row, Task) or not row.tracker.steps:
            return cls(row.use_case_id, row.task_id, f"{UNKNOWN}.{row.status or 0}", needs_person=False)
        return cls(row.use_case_id, row.task_id, name_of(row.state), row.state.status is Status.IGNORED)

    @property
    def words(self) -> str:
        """Its state for people."""
        return f"{self.state.removesuffix('.ignored')} {GAVE_UP}" if self.needs_person else self.state

    def __str__(self) -> str:
        return f"{self.use_case} {self.task_id}: {self.words}"


@dataclass(frozen=True, slots=True)
class Family:
    """The children of a task."""

    children: Sequence[Child]
    unlisted: int
    """For how many more it waits, about which nothing is known here."""
    blockers: Sequence[Child]
    """Those that need a person, among the children and what they wait for."""

    @property
    def blocked_by(self) -> str | None:
        """What keeps the task from going on, in words: "part r-1/31, which gave up"; None if nothing is known to."""
        names = [f"{each.use_case} {each.task_id}" for each in self.blockers]
        if not names:
            return None
        more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
        named = [*names[:_MOST_NAMED], *more]
        text = " and ".join([*([", ".join(named[:-1])] if named[:-1] else []), named[-1]])
        return f"{text}, which gave up"

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        unlisted = {"unlisted_children": self.unlisted} if self.unlisted else {}
        blockers = {"blocked_by": [asdict(each) for each in self.blockers]} if self.blockers else {}
        return {"children": [asdict(each) for each in self.children], **unlisted, **blockers}


@dataclass(frozen=True, slots=True)
class Blocked:
    """A task that cannot go on before a person has decided about another one."""

    step: BoundStep[Any]
    task_id: str
    family: Family

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"task_id": self.task_id, "state": name_of(self.step.pending), **self.family.as_json()}

    def __str__(self) -> str:
        return f"{self.task_id} is blocked by {self.family.blocked_by}"


def family_of(task: TaskRow) -> Family | None:
    """Return the children that a task waits for; None, and nothing is read, if it waits for none."""
    return _families([task], _MOST).get((task.task_id, task.use_case_id))


def find_blocked(steps: Sequence[BoundStep[Any]]) -> list[Blocked]:
    """Return what is blocked, among the first 20 tasks of a use case that wait: a request a step, and 5 at most."""
    found = side_by_side(_waiting_ids, steps)
    return blocked_among(dict(zip(steps, found, strict=True)))


def blocked_among(waiting: Mapping[BoundStep[Any], Sequence[str]]) -> list[Blocked]:
    """Return what is blocked of these tasks of one use case, which wait at these steps."""
    steps = {task_id: step for step, ids in waiting.items() for task_id in ids}
    if not steps:
        return []
    ids = list(steps)[:_MOST_WAITING]
    parents = rows_to_show(next(iter(waiting)).model, ids)
    families = _families([parents[task_id] for task_id in ids if task_id in parents], _MOST_OF_THEM)
    return [Blocked(steps[task_id], task_id, each) for (task_id, _), each in families.items() if each.blockers]


def _waiting_ids(step: BoundStep[Any]) -> list[str]:
    found = step.pending.index_page(limit=_MOST_WAITING, latest_due_first=True)
    return [each.task_id for each in found.tasks if each.due_time == clock.NEVER]


def _families(tasks: Sequence[TaskRow], most: int) -> dict[RowKey, Family]:
    known: dict[RowKey, Children] = {}
    level, left = [task for task in tasks if awaited_tasks(task)], most
    for _ in range(_LEVELS):
        if not level or left <= 0:
            break
        found = children_of(level, most=left)
        known |= found
        below = [child for each in found.values() for child in each.tasks]
        level, left = [child for child in below if awaited_tasks(child)], left - len(below)
    return {
        key: Family([Child.of(each) for each in known[key].tasks], known[key].unlisted, list(_blockers(key, known)))
        for task in tasks
        if (key := (task.task_id, task.use_case_id)) in known
    }


def _blockers(key: RowKey, known: Mapping[RowKey, Children]) -> Iterator[Child]:
    """Yield what needs a person below a task; the references of a damaged table may lead in a circle."""
    left, seen = [key], {key}
    while left:
        for row in known.get(left.pop(0), Children((), 0)).tasks:
            child = Child.of(row)
            if child.needs_person:
                yield child
            elif (below := (child.task_id, child.use_case)) not in seen:
                seen.add(below)
                left.append(below)
