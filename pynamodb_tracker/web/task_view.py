"""Collects the contents of a task's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation import task_facts as facts
from pynamodb_tracker.presentation.children import Family, family_of
from pynamodb_tracker.presentation.waiting import pause_at
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.signal import signals_in
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.web.words import status_words

HIDDEN = "hidden"
_DEEPEST = 100  # Python's recursion ends at about 500 levels


@dataclass(frozen=True, slots=True)
class TaskView:
    task: Task
    step: BoundStep[Any] | None
    """The task's step, even if it is cancelled. None for a finished task, and in a state that no step declares."""
    next: str
    is_abandoned: bool
    events: Sequence[Mapping[str, Any]]  # failures and people's actions, the newest first
    path: Sequence[Mapping[str, str]]  # the steps, with where each is: it `was`, is `here` or `ahead`
    relations: Sequence[tuple[str, str]]  # labels and texts, such as the group, the parent and the repeat rule
    links: Mapping[str, tuple[type[Task], str]]  # related tasks on this page, by label
    group: str | None
    attributes: Mapping[str, Any]
    unread: Mapping[str, str]  # why attributes are unreadable, by name
    signals: Mapping[str, Any]
    awaits: Sequence[str]  # the ones that people can send
    round: str  # the task's current round, which signals must name
    family: Family | None
    family_links: Mapping[str, type[Task]]  # the children's use cases on this page, by stored name

    @property
    def may_unlock(self) -> bool:
        """Whether a worker holds the task, alive or dead."""
        return self.step is not None and self.task.state.status is Status.IN_PROGRESS

    @property
    def may_end_run(self) -> bool:
        """Whether a worker may still be running the task."""
        return self.may_unlock and not self.is_abandoned

    @property
    def may_cancel(self) -> bool:
        """Whether the whole task can be cancelled, at any step."""
        return self.step is not None and self.task.cancelled is None

    @property
    def may_reopen(self) -> bool:
        """Whether the task failed, gave up, or was cancelled."""
        return self.step is not None and self.task.state.status in (Status.FAILED, Status.IGNORED, None)

    @property
    def may_run_now(self) -> bool:
        return facts.is_only_due_later(self.task)

    @property
    def may_ignore(self) -> bool:
        """Whether no worker is running the task."""
        waits = self.task.state.status in (Status.PENDING, Status.FAILED)
        return self.step is not None and (waits or self.is_abandoned)


def view(model: type[Task], task_id: str, *, hide: frozenset[str], known: Mapping[str, type[Task]]) -> TaskView:
    """Load a task as far as it is readable. `known` are the page's use cases by stored name."""
    task = facts.read_task(model, task_id)
    found = facts.task_as_json(task, with_data=True)
    state, others = task.state, {"created by": found.get("creator"), "child of": found.get("parent")}
    ended = task.tracker.ends_at(state.code) and state.status is Status.SUCCEEDED
    family = family_of(task)
    at = task.tracker.step_named_by(task.cancelled.step) if state == model.cancelled and task.cancelled else state.step
    step: BoundStep[Any] | None = None if ended or not at else model._bound_steps.get(at)
    blocked_by = family.blocked_by if family else None
    return TaskView(
        task,
        step,
        "nothing: it is done" if ended else facts.what_comes_next(task, step, blocked_by, pause_at(task)),
        facts.is_abandoned(task),
        _events(task),
        _path(task, step),
        [(label, HIDDEN if label in hide else text) for label, text in facts.relations_in_words(task)],
        {
            label: (known[of["use_case"]], of["task_id"])
            for label, of in others.items()
            if of and of["use_case"] in known
        },
        found.get("group"),
        without(found["attributes"], hide),
        without(found.get("unread", {}), hide),  # an error may quote the damaged value
        without(found.get("signals", {}), hide),
        [name for name in found.get("awaited_signals", ()) if name in sent_by_people(model)],
        round_of(task),
        family,
        {each.use_case: known[each.use_case] for each in family.children if each.use_case in known} if family else {},
    )


def sent_by_people(model: type[Task]) -> Mapping[str, Mapping[str, str]]:
    """Return the signals that people can send, by stored name, each with JSON values by button text."""
    choices = facts.choices_of(model)
    return {each.stored_name: choices[each.stored_name] for each in signals_in(model) if each.by_people}


def without(value: Any, hide: frozenset[str], depth: int = 0) -> Any:
    """Return a JSON value with these parts hidden, cut off before it gets too deep for Python."""
    if depth == _DEEPEST and isinstance(value, dict | list):
        return "…"
    if isinstance(value, dict):
        return {name: HIDDEN if name in hide else without(part, hide, depth + 1) for name, part in value.items()}
    return [without(part, hide, depth + 1) for part in value] if isinstance(value, list) else value


def _events(task: Task) -> list[dict[str, Any]]:
    return [
        {
            "kind": each.type if each.type in facts.BY_PEOPLE else "failed",
            **{name: getattr(each, name) for name in ("step", "attempt", "time", "traceback")},
            "text": f"{each.type}: {each.message}".removesuffix(": ")
            + (f" ({each.count} times)" if each.count > 1 else ""),
            "by": each.worker,
        }
        for each in reversed(task.errors)
    ]


def _path(task: Task, step: BoundStep[Any] | None) -> list[dict[str, str]]:
    names, left_out = list(task._bound_steps), facts.skipped_steps(task)
    is_done = task.state.status is Status.SUCCEEDED
    at = len(names) if is_done else names.index(step.name) if step is not None else -1
    ahead = "" if at < 0 or task.state.status is None else "to come"
    status = status_words(task.state.status or task.state)
    here = (
        "" if step is None else f"{status}, attempt {task.attempt} of {step.max_attempts}" if task.attempt else status
    )
    path = []
    for number, name in enumerate(names):
        is_branch = facts.is_branch(type(task), name)
        where, note = "ahead", ahead and ("branch" if is_branch else ahead)
        if number == at:
            where, note = "here", here
        elif number < at and not (is_branch and task.fence == 0):  # it never ran
            where, note = "was", "passed over" if name in left_out else "done"
        path.append({"name": name, "where": where, "note": note})
    return path
