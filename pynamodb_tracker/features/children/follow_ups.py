"""Follow-ups: tasks that are created together with the end of another task, or not at all.

Their reference to the creator and its round shows whether an earlier attempt has created them.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

from pynamodb.constants import STRING
from pynamodb.exceptions import TransactWriteError

from pynamodb_tracker.dynamodb.limits import item_size
from pynamodb_tracker.dynamodb.transact_write import REFUSED
from pynamodb_tracker.exceptions import TaskAlreadyExistsError, ValueNotStorableError
from pynamodb_tracker.features.children.joins import ChildList, build_adoption
from pynamodb_tracker.features.groups.queue import Entry, NewMember
from pynamodb_tracker.features.signals import attributes_awaiting
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model.arguments import check_new_task, shown
from pynamodb_tracker.model.failure import type_of
from pynamodb_tracker.model.references import parse, reference_to
from pynamodb_tracker.model.row import TaskRow, load, readable
from pynamodb_tracker.model.schema import SEPARATOR
from pynamodb_tracker.model.status import END, end_of
from pynamodb_tracker.writes.creations import NewTask, build_new_task, tracker_attributes
from pynamodb_tracker.writes.lock import Journal
from pynamodb_tracker.writes.participants import Action, NewlyDue, OptionalParticipant, Participant, Reason
from pynamodb_tracker.writes.transition import get

T = TypeVar("T", bound=TaskRow)

_MOST_WITH_SUCCESS = 98
"""Actions for follow-ups in a success, beside the task's own, and its parent's or child list's."""
_FOR_GROUP = 2
"""More actions for a follow-up that enters a group: its place and the group's row."""
_FOR_OWN_GROUP = 3
"""Actions for handing on a turn: the group's row, the next task and its place."""
_MOST_BEFORE = 99
"""Actions for follow-ups in a transaction before the success, beside the lock's check."""
_MOST_BYTES = 3_700_000
"""Per transaction: 4 MB minus 400 KB for the task's own row.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

WhenIgnored = Callable[[Any, Callable[..., None]], object]
"""The user's function, which gets the ignored task and `create`."""


class FollowUp:
    """A task to create, with the actions that create it."""

    def __init__(self, task: NewTask[Any], *, waits: bool = False) -> None:
        self.task = task
        self.waits = waits
        """Whether the next step waits for it."""
        self._entrant = NewMember(task.row, task.item) if "group" in task.item else None
        self.build()
        self.count = len(self.puts) + (_FOR_GROUP if self.member else 0)
        self.size = item_size(task.item) + sum(map(item_size, task.chunks))

    def build(self) -> None:
        """Build the actions, again if the task replaces an expired row."""
        self.member = self._entrant
        """The task as it enters its group, if it does."""
        self.puts = self.task.puts(self.task.row.tracker.connection())

    def adopt(self, parent: str, found: TaskRow) -> None:
        """Let the next step wait for a task that an earlier run has created."""
        self.member, tracker = None, self.task.row.tracker
        values = {"parent": parent, "seen_parent": found.parent}
        adopt = build_adoption(tracker.connection()).as_action("Update", tracker.key(self.task.row.task_id), values)
        adopt["Update"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        self.puts = [adopt]

    @property
    def is_last(self) -> bool:
        """Whether it has to be created with the success."""
        return self.waits or self.member is not None

    def __str__(self) -> str:
        return f"{type(self.task.row).__name__} {self.task.row.task_id!r}"


class FollowUps(Participant, Generic[T]):
    """The tasks to create with a run's success, or when a task is ignored."""

    def __init__(self, task: T, step: str, next_code: Callable[[], int] = lambda: END) -> None:
        task = readable(task)  # ignoring a damaged task also creates its follow-ups
        self._task = task
        self._next_code = next_code
        self._step = step
        self._named = f"{step} of {type(task).__name__} {task.task_id!r}"
        self._creator = reference_to(task)
        self._by = f"{task.use_case_id}/{task.task_id}/{step}/{task.fence}"
        self._join = SEPARATOR.join((task.use_case_id, task.lock or "", task.task_id))
        self.child_list: ChildList | None = None
        """The tasks that the next step waits for."""
        self._left: list[FollowUp] = []
        """The follow-ups that may not exist yet, in order."""
        self._created: dict[tuple[str, str], NewlyDue] = {}
        """All follow-ups, by use case and task id."""
        self._closed = False
        """Whether it is too late to add a follow-up."""

    def create(self, model: type[TaskRow], /, task_id: str, *, wait: bool = False, **given: Any) -> None:
        """Check and add a follow-up. It takes the arguments of `ExecutionContext.create`."""
        self._check(model, task_id)
        names = ("due_time", "group", "repeat", "trace", "wait_for", "until")
        due_time, group, repeat, trace, wait_for, until = (given.pop(name, None) for name in names)
        task_id, due, group = check_new_task(task_id, due_time, group, repeat)
        model.tracker.check_urgent(urgent := given.pop("urgent", False))
        also = {
            "creator": {STRING: self._creator},
            **tracker_attributes(
                model, task_id, group=group, urgent=urgent, trace=trace, creator=self._task, by=self._by
            ),
        }
        if wait_for is not None or until is not None:
            awaits, due = attributes_awaiting(model, wait_for, until, due_time=due, group=group, repeat=repeat)
            also |= awaits
        if wait:
            also["parent"] = {STRING: self._join}
        if wait and repeat is not None:
            raise ValueError(
                f"{self._named} cannot wait for {model.__name__} {task_id!r}, which repeats and so never ends"
            )
        task = build_new_task(model, task_id, None, due, given, also=also, repeat=repeat)
        follow_up = FollowUp(task, waits=wait)
        if follow_up.size > _MOST_BYTES:
            raise ValueNotStorableError(
                f"{follow_up} has {follow_up.size:,} bytes, and a follow-up at most {_MOST_BYTES:,}. Create it without "
                "data, and let its own run save that",
                task_id=task_id,
                attribute="data",
                size=follow_up.size,
            )
        if wait:
            self._check_waiting(follow_up)
        if follow_up.is_last:
            self._check_last(follow_up)
        self._check_room(follow_up)
        if wait:
            self.child_list = self.child_list or ChildList(self._task)
            self.child_list.add(follow_up.task.row)
        row = follow_up.task.row
        self._left.append(follow_up)
        made = NewlyDue(model, task_id, row.status, row.creation or "", row.due_time)
        self._created[row.use_case_id, task_id] = made

    def _check(self, model: object, task_id: str) -> None:
        if self._closed:
            raise RuntimeError(f"create was called after when_ignored of {self._named} returned, so nothing is created")
        if not (isinstance(model, type) and issubclass(model, TaskRow) and model._bound_steps):
            raise TypeError(f"create takes a use case and a task id, not {shown(model)}: write create(Invoice, ...)")
        name = model.__name__
        if model.tracker.table is not self._task.tracker.table:
            raise ValueError(
                f"{self._named} cannot create {name} {task_id!r}, because {name} is in another table. Use "
                f"{name}.create(...), which a failure does not undo"
            )
        key = model.tracker.use_case.name, task_id
        if key == (self._task.use_case_id, self._task.task_id):
            raise ValueError(f"{self._named} cannot create itself: give the follow-up a different id")
        if key in self._created:
            raise ValueError(f"{self._named} creates {name} {task_id!r} twice: give each follow-up a different id")

    def _check_room(self, follow_up: FollowUp) -> None:
        """Accept any number, because some can be created before the success."""

    def _check_waiting(self, follow_up: FollowUp) -> None:
        if end_of(self._next_code()):
            raise ValueError(f"{self._named} leads to the end, so no later step can wait for {follow_up}")
        own, new = self._task, follow_up.task.row
        if follow_up.member and (own.use_case_id, own.group) == (new.use_case_id, new.group):
            raise ValueError(
                f"{self._named} cannot wait for {follow_up} in its own group, where this task would have to end first"
            )

    def _check_last(self, follow_up: FollowUp) -> None:
        most = self._most_with_success - 1
        if not _fits([follow_up, *(each for each in self._left if each.is_last)], most):
            raise ValueError(
                f"{self._named} cannot create {follow_up} as well. One transaction creates the tasks that it waits for "
                f"and the tasks in groups: at most {most}, or {most // (1 + _FOR_GROUP)} in groups, and "
                f"{_MOST_BYTES:,} bytes. Let each of them create some"
            )

    def made_due(self) -> list[NewlyDue]:
        return list(self._created.values())

    @property
    def created(self) -> int:
        return len(self._created)

    @property
    def _most_with_success(self) -> int:
        return _MOST_WITH_SUCCESS - (0 if self._task.group is None else _FOR_OWN_GROUP)

    @classmethod
    def for_success(cls, run: Journal[Any], row: TaskRow) -> Self | None:  # noqa: ARG003 - as for all features
        follow_ups: Self | None = run.additions.get("follow_ups")
        return follow_ups

    @property
    def waited(self) -> int:
        """How many tasks the next step waits for."""
        return sum(each.waits for each in self._left)

    def entrants(self) -> Iterator[Entry]:
        for each in self._left:
            if each.member is not None:
                yield type(each.task.row), each.task.row.group, each.member

    def actions(self) -> list[Action]:
        return _actions(self._left)

    def handle_refusal(self, reasons: Sequence[Reason]) -> None:
        """Leave out existing follow-ups. Raise TaskAlreadyExistsError for another creator's task."""
        self._leave_out(self._left, reasons)

    def write_before_success(self, commit: Callable[[Sequence[Action]], None]) -> None:
        """Create follow-ups that do not fit into the success before it."""
        first, last = _split(sorted(self._left, key=attrgetter("is_last")), self._most_with_success)
        for batch in first:
            while batch:
                try:
                    commit(_actions(batch))
                except TransactWriteError as error:
                    if not self._leave_out(batch, error.cancellation_reasons[1:]):
                        raise
                else:
                    break
        self._left = last

    def _leave_out(self, sent: list[FollowUp], reasons: Sequence[Reason]) -> bool:
        """Remove existing follow-ups from the sent ones. Return whether one was refused."""
        exist, is_refused, at = set[FollowUp](), False, 0
        for follow_up in sent:
            reason = reasons[at] if at < len(reasons) else None
            at += len(follow_up.puts)
            if reason is not None and reason.code == REFUSED:
                is_refused = True
                new = follow_up.task.row
                found = get(type(new), new.task_id) if reason.raw_item is None else load(type(new), reason.raw_item)
                is_own = found is not None and readable(found).creator == self._creator
                if (not is_own and follow_up.task.replace(found)) or found is None:
                    follow_up.build()
                elif is_own and follow_up.waits and (known := readable(found)).parent is not None:
                    follow_up.adopt(self._join, known)
                else:
                    exist.add(follow_up)
                    self._check_creator(follow_up, found)
        sent[:] = [follow_up for follow_up in sent if follow_up not in exist]
        return is_refused

    def _check_creator(self, follow_up: FollowUp, found: TaskRow) -> None:
        """Raise a TaskAlreadyExistsError if another task has created this one."""
        new, creator = follow_up.task.row, readable(found).creator
        if creator == self._creator:
            return
        raise TaskAlreadyExistsError(
            f"{self._named} cannot create {follow_up}: it already exists, {self._describe(creator)}",
            task_id=new.task_id,
            task=found,
        )

    def _describe(self, creator: str | None) -> str:
        if creator is None:
            return "not as a follow-up"
        try:
            use_case, _, task_id = parse(creator)
        except ValueError as damaged:
            return f"and its creator is damaged: {damaged}"
        if (use_case, task_id) == (self._task.use_case_id, self._task.task_id):
            return "created by an earlier round of the same task, or by an earlier task with this id"
        return f"created by {use_case} {task_id!r}"


class FollowUpsOfIgnored(FollowUps[T], OptionalParticipant):
    """The tasks to create when a task is ignored. If the user's function raises, no task is created."""

    def __init__(self, when_ignored: WhenIgnored, step: str, task: T) -> None:
        super().__init__(task, step)
        self._given = task
        self.problems: list[str] = []
        self.interrupt: BaseException | None = None
        # A signal handler's exception looks like the function's, but only the first time.
        raised = self._collect(when_ignored)
        if raised is not None and (again := self._collect(when_ignored)) is not None:
            self._report(f"when_ignored of {self._named} raised {type_of(again)}, so it creates nothing", again)
        elif raised is not None and not isinstance(raised, Exception):
            self.interrupt = raised
        self._closed = True

    def _collect(self, when_ignored: WhenIgnored) -> BaseException | None:
        """Call the user's function. If it raises, drop its tasks and return the exception."""
        try:
            when_ignored(self._given, self.create)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001 - after any error, the task is recorded as ignored
            self._left.clear()
            self._created.clear()
            return raised
        return None

    def _check_waiting(self, follow_up: FollowUp) -> None:
        raise ValueError(f"{self._named} is ignored, so no step can wait for {follow_up}")

    def _check_room(self, follow_up: FollowUp) -> None:
        if not _fits([follow_up, *self._left], self._most_with_success):
            raise ValueError(
                f"{self._named} is ignored and cannot create {follow_up} as well. One transaction has room for at most "
                f"{self._most_with_success} follow-ups and {_MOST_BYTES:,} bytes"
            )

    def _check_last(self, follow_up: FollowUp) -> None:
        raise ValueError(f"{self._named} is ignored, so {follow_up} cannot enter a group: leave out group")

    def _check_creator(self, follow_up: FollowUp, found: TaskRow) -> None:
        try:
            super()._check_creator(follow_up, found)
        except TaskAlreadyExistsError as error:
            self.note(str(error))

    def note(self, problem: str) -> None:
        """Log and keep the reason why a follow-up is not created."""
        self._report(f"when_ignored of {self._named}: {problem}")

    def _report(self, problem: str, error: BaseException | None = None) -> None:
        self.problems.append(problem)
        fields = log_fields(self._task.use_case_id, self._step, self._task.task_id)
        log.error("%s", problem, exc_info=error, extra=fields)


def _actions(follow_ups: Sequence[FollowUp]) -> list[Action]:
    return [put for follow_up in follow_ups for put in follow_up.puts]


def _split(follow_ups: Sequence[FollowUp], most: int) -> tuple[list[list[FollowUp]], list[FollowUp]]:
    """Split follow-ups into transactions before the success, and the last ones, which it creates."""
    last: list[FollowUp] = []
    left = list(follow_ups)
    while left and _fits([left[-1], *last], most):
        last.insert(0, left.pop())
    first: list[list[FollowUp]] = []
    for follow_up in left:
        if first and _fits([*first[-1], follow_up], _MOST_BEFORE):
            first[-1].append(follow_up)
        else:
            first.append([follow_up])
    return first, last


def _fits(follow_ups: Sequence[FollowUp], most: int) -> bool:
    actions, size = sum(each.count for each in follow_ups), sum(each.size for each in follow_ups)
    return actions <= most and size <= _MOST_BYTES


def follow_ups_of(journal: Journal[T]) -> FollowUps[T]:
    additions, claim = journal.additions, journal.claim
    if "follow_ups" not in additions:
        additions["follow_ups"] = FollowUps(claim.task, claim.step, lambda: journal.next_code)
        additions.setdefault("group", None)  # they may enter groups
    follow_ups: FollowUps[T] = additions["follow_ups"]
    return follow_ups
