"""A task: the model that users derive their table and their use cases from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import query, transitions
from pynamodb_tracker.arguments import check_flags, check_task_id, check_threads, check_time, did_you_mean, shown
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model import hydration as whole
from pynamodb_tracker.model.damaged import checked
from pynamodb_tracker.report import Report
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import BoundStep, State
from pynamodb_tracker.task.metaclass import TaskMeta
from pynamodb_tracker.task.write_guards import GuardedRow


class Task(GuardedRow, metaclass=TaskMeta):
    """The model of all tasks: derive a class with a Meta from it, which is the table, and the use cases from that.

    An instance holds what was read; only a run that holds the lock, and the methods of this class, change the row.
    """

    if TYPE_CHECKING:
        Meta: Any  # a user's own Meta is no subclass of PynamoDB's protocol

        _bound_steps: ClassVar[Mapping[str, BoundStep[Any]]]
        _states: ClassVar[Mapping[int, State[Any]]]

    @property
    def state(self) -> State[Self]:
        """The state of the task; its `status` is None if no step declares the code."""
        known = self._states.get(self.status)
        return State(type(self), "", None, self.status, self.use_case_id) if known is None else known

    @classmethod
    def create(
        cls, task_id: str, *, due_time: datetime | None = None, state: State[Any] | None = None, **attributes: object
    ) -> Self:
        """Create a task, pending at its first step, and return it; one request.

        `due_time` is the earliest time it may start. `state` is another state to begin in, for tasks from elsewhere.
        Raises TaskAlreadyExistsError, which leaves the existing task as it is, or ValueNotStorableError, which names
        the attribute.
        """
        task_id = check_task_id(task_id)
        due_time = check_time("due_time", due_time)
        cls._check_own(attributes)
        code = None if state is None else cls._code_to_begin_in(state, due_time)
        return transitions.create(cls, task_id, code, due_time, attributes)

    @classmethod
    def _code_to_begin_in(cls, state: State[Any], due_time: datetime | None) -> int:
        known: object = cls._states.get(getattr(state, "code", -1))
        if known is None or known != state:
            raise ValueError(f"{state!r} is no state of {cls.__name__}")
        if state.status is Status.IN_PROGRESS:
            raise ValueError(f"a task cannot be created as {state}: only a worker that holds its lock is in progress")
        if due_time is not None and cls.tracker.ends_at(state.code):
            raise ValueError(f"a task that is {state} is never due: leave due_time out")
        return state.code

    @classmethod
    def _check_own(cls, attributes: Iterable[str]) -> None:
        own = dict(cls.tracker.own_attributes())
        for name in attributes:
            if name not in own:
                reserved = " is the tracker's own" if name in cls.tracker_attributes else " is not declared"
                raise TypeError(f"{cls.__name__}.{name}{reserved}{did_you_mean(name, own)}")

    @classmethod
    def create_many(cls, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, each an id or a mapping of `task_id` and what `create` takes; one request each.

        The report lists new tasks as succeeded; tasks that exist, cannot be stored, or whose request failed are
        refused. Existing tasks are not changed. `tasks` is read lazily, so it can be a generator of any length.
        """
        report = Report()
        check_threads(threads)
        if isinstance(tasks, str | Mapping):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not one: write [{shown(tasks)}]")
        given: object = tasks
        if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not {shown(given)}")

        def create(task: str | Mapping[str, Any]) -> None:
            arguments = _arguments(task)
            try:
                cls.create(**arguments)
            except (PynamoDBException, TrackerError) as error:
                report.refused[arguments["task_id"]] = error
            else:
                report.succeeded.append(arguments["task_id"])

        in_threads(create, tasks, threads)
        return report

    @classmethod
    def get_task(cls, task_id: str, *, with_data: bool = True) -> Self:
        """Return the task, strongly consistent; TaskNotFoundError if there is none.

        One request, and one more if its data is in overflow chunks; `with_data=False` leaves `data` out.
        """
        task_id = check_task_id(task_id)
        check_flags(with_data=with_data)
        row = transitions.get(cls, task_id)
        if row is not None and with_data:
            row = whole.fill(cls, {task_id: row}).get(task_id)
        if row is None:
            raise TaskNotFoundError(f"there is no {cls.__name__} {task_id!r}", task_id=task_id)
        if not with_data:
            whole.leave_out([row])
        return checked(row)

    @classmethod
    def get(
        cls,
        hash_key: Any,
        range_key: Any = None,
        consistent_read: bool = False,  # noqa: FBT001, FBT002 - PynamoDB's signature
        attributes_to_get: Sequence[str] | None = None,
    ) -> Self:
        """Return the task as PynamoDB's `get` does, with the range key filled in; eventually consistent by default.

        With `attributes_to_get` it is a part of a row: other attributes read as if they were not stored.
        """
        name = cls.tracker.use_case.name if range_key is None else range_key
        return super().get(check_task_id(hash_key), name, consistent_read, attributes_to_get)

    @classmethod
    def counts(cls) -> dict[State[Self], int]:
        """Return how many tasks there are in every state of the use case, and in codes that no step declares.

        Reads the whole index once, all use cases of the table included; eventually consistent.
        """
        found = query.counts(cls)
        unknown = {code: State(cls, "", None, code) for code in found.keys() - cls._states.keys()}
        return {state: found.get(code, 0) for code, state in sorted({**cls._states, **unknown}.items())}

    @classmethod
    def delete_task(cls, task_id: str) -> None:
        """Delete a task that is not in progress; TaskLockedError if it is, TaskNotFoundError if there is none."""
        transitions.delete(cls, check_task_id(task_id))

    @classmethod
    def delete_use_case(cls, *, threads: int = 1) -> Report:
        """Delete every task of this use case that is not in progress; other use cases are not touched.

        The report lists deleted tasks as succeeded and those in progress as refused. Reads the whole table.
        """
        report = Report()
        check_threads(threads)

        def delete(task_id: str) -> None:
            try:
                transitions.delete(cls, task_id)
            except TaskNotFoundError:
                return
            except (PynamoDBException, TrackerError) as error:
                report.refused[task_id] = error
            else:
                report.succeeded.append(task_id)

        in_threads(delete, query.task_ids(cls), threads)
        return report


def _arguments(task: object) -> dict[str, Any]:
    """Return the arguments of `create` for an entry of `create_many`."""
    if isinstance(task, str):
        return {"task_id": task}
    if not isinstance(task, Mapping):
        raise TypeError(f"create_many takes ids or mappings, not {shown(task)}: write {{'task_id': ...}}")
    for name in task:
        if not isinstance(name, str):
            raise TypeError(f"create_many takes ids or mappings by name, not one with the key {shown(name)}")
    return dict(task)
