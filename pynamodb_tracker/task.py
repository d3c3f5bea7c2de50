"""A task: the model that users derive their table and their use cases from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from pynamodb_tracker import query, transitions
from pynamodb_tracker.arguments import check_task_id, check_threads, check_time, did_you_mean
from pynamodb_tracker.batch import in_threads
from pynamodb_tracker.declaration import TaskMeta
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model import TaskRow
from pynamodb_tracker.report import Report
from pynamodb_tracker.state import State
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import BoundStep

__all__ = ["Task"]

T = TypeVar("T", bound="Task")


class Task(TaskRow, metaclass=TaskMeta):
    """The model of all tasks: derive a class with a Meta from it, the table, and from that the use cases.

    A row in hand is what was read; only a run that holds the lock, and the orders of this class, change it.
    """

    if TYPE_CHECKING:
        Meta: Any

    _bound_steps: ClassVar[Mapping[str, BoundStep[Any]]]
    _states: ClassVar[Mapping[int, State[Any]]]

    @property
    def state(self) -> State[Self]:
        """The state of the task; its `status` is None where no step declares the code."""
        return self._state_of(self.status)

    @classmethod
    def _state_of(cls, code: int) -> State[Self]:
        return cls._states.get(code) or State(cls, "", None, code)

    @classmethod
    def create(
        cls, task_id: str, *, due_time: datetime | None = None, state: State[Any] | None = None, **attributes: object
    ) -> Self:
        """Create a task, pending at its first step, and return it; one request.

        `due_time` is from when it may start; `state` another state to begin in, for tasks that come from elsewhere.
        TaskAlreadyExistsError leaves the task that is there as it is; ValueNotStorableError names the attribute.
        """
        check_task_id(task_id)
        check_time("due_time", due_time)
        return transitions.create(cls, task_id, cls._first_code(state, due_time), due_time, cls._own(attributes))

    @classmethod
    def _first_code(cls, state: State[Any] | None, due_time: datetime | None) -> int:
        if state is None:
            return cls.tracker.first_code
        if not isinstance(state, State) or cls._states.get(state.code) != state:
            raise ValueError(f"{state!r} is no state of {cls.__name__}")
        if state.status is Status.IN_PROGRESS:
            raise ValueError(f"a task cannot be created as {state}: only a worker that holds its lock is in progress")
        if due_time is not None and cls.tracker.ends_at(state.code):
            raise ValueError(f"a task that is {state} is never due: leave due_time out")
        return state.code

    @classmethod
    def _own(cls, attributes: Mapping[str, object]) -> dict[str, Any]:
        own = dict(cls.tracker.own_attributes())
        for name in attributes:
            if name not in own:
                reserved = " is the tracker's own" if name in cls.tracker_attributes else " is not declared"
                raise TypeError(f"{cls.__name__}.{name}{reserved}{did_you_mean(name, own)}")
        return dict(attributes)

    @classmethod
    def create_many(cls, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, each an id or a mapping of `task_id` and what `create` takes; one request each.

        The report has the new ones as succeeded and those that exist or cannot be stored as refused; nothing that
        exists is touched. Read lazily, so a generator of any length will do.
        """
        report = Report()
        check_threads(threads)

        def create(task: str | Mapping[str, Any]) -> None:
            arguments = {"task_id": task} if isinstance(task, str) else dict(task)
            try:
                cls.create(**arguments)
            except TrackerError as error:
                report.refused[arguments["task_id"]] = error
            else:
                report.succeeded.append(arguments["task_id"])

        in_threads(create, tasks, threads)
        return report

    @classmethod
    def get_task(cls, task_id: str) -> Self:
        """Return the task, strongly consistent; TaskNotFoundError where there is none."""
        row = transitions.get(cls, check_task_id(task_id))
        if row is None:
            raise TaskNotFoundError(f"there is no {cls.__name__} {task_id!r}", task_id=task_id)
        return row

    @classmethod
    def get(
        cls,
        hash_key: Any,
        range_key: Any = None,
        consistent_read: bool = False,  # noqa: FBT001, FBT002 - PynamoDB's signature
        attributes_to_get: Sequence[str] | None = None,
    ) -> Self:
        """Return the task as PynamoDB's `get` does, the range key filled in; eventually consistent unless asked."""
        name = cls.tracker.use_case.name if range_key is None else range_key
        return super().get(hash_key, name, consistent_read, attributes_to_get)

    @classmethod
    def counts(cls) -> dict[State[Self], int]:
        """Return how many tasks there are in every state of the use case, and in codes that no step declares.

        Reads the whole index once, all use cases of the table included; eventually consistent.
        """
        found = query.counts(cls)
        return {cls._state_of(code): found.get(code, 0) for code in sorted({*cls._states, *found})}

    @classmethod
    def delete_task(cls, task_id: str) -> None:
        """Delete a task that nobody holds; TaskLockedError for one in progress, TaskNotFoundError for none."""
        transitions.delete(cls, check_task_id(task_id))

    @classmethod
    def delete_use_case(cls, *, threads: int = 1) -> Report:
        """Delete every task of this use case that nobody holds, and nothing of another one.

        The report has the deleted ones as succeeded and those in progress as refused. Reads the whole table.
        """
        report = Report()
        check_threads(threads)

        def delete(task_id: str) -> None:
            try:
                transitions.delete(cls, task_id)
            except TaskNotFoundError:
                return
            except TrackerError as error:
                report.refused[task_id] = error
            else:
                report.succeeded.append(task_id)

        in_threads(delete, query.task_ids(cls), threads)
        return report

    def update(self, actions: list[Action], condition: Condition | None = None, **options: Any) -> Any:
        """Update the user's own attributes of an existing row, as PynamoDB's `update` does; TypeError for others."""
        return super().update(actions, self._updatable(actions, condition), **options)

    def get_update_kwargs_from_instance(
        self, actions: list[Action], condition: Condition | None = None, *args: Any, **options: Any
    ) -> dict[str, Any]:
        """Return the update for a transaction; the user's own attributes of an existing row only."""
        condition = self._updatable(actions, condition)
        return super().get_update_kwargs_from_instance(actions, condition, *args, **options)

    def _updatable(self, actions: Sequence[Action], condition: Condition | None) -> Condition:
        own = {attribute.attr_name for _, attribute in self.tracker.own_attributes()}
        for action in actions:
            name = action.values[0].path[0].partition("[")[0]
            if name not in own:
                raise TypeError(
                    f"{type(self).__name__}.update cannot write {name!r}: it takes your own attributes; a status changes "
                    f"by start, reopen and ignore of a step{did_you_mean(name, own)}"
                )
        exists = TaskRow.task_id.exists()
        return exists if condition is None else exists & condition

    def delete(self, condition: Condition | None = None, **options: Any) -> None:
        """Delete this task, as `delete_task` does."""
        if condition is not None or options:
            raise TypeError("delete takes no condition: it deletes a task that nobody holds")
        type(self).delete_task(self.task_id)

    def save(self, *args: Any, **options: Any) -> NoReturn:
        """Raise a TypeError: a stale row that is saved whole would break the lock."""
        raise TypeError(
            f"{type(self).__name__}.save() would overwrite what workers have written since: use create() for a new task, "
            "ctx.save() or the end of the block in a run, and update([...]) for your own attributes"
        )

    def get_save_kwargs_from_instance(self, *args: Any, **options: Any) -> NoReturn:
        """Raise a TypeError, as `save` does."""
        self.save()

    def get_delete_kwargs_from_instance(self, *args: Any, **options: Any) -> NoReturn:
        """Raise a TypeError: a delete inside of a transaction could not tell why it was refused."""
        raise TypeError(f"a transaction does not delete tasks: use {type(self).__name__}.delete_task(...)")

    @classmethod
    def batch_write(cls, *args: Any, **options: Any) -> NoReturn:
        """Raise a TypeError: BatchWriteItem has no conditions, so it would overwrite or delete tasks in progress."""
        raise TypeError(
            f"{cls.__name__}.batch_write has no conditions: use create_many, delete_task or delete_use_case"
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Assign one of the user's attributes; an AttributeError at this line for any other name."""
        if "_stored" in vars(self) and not (name.startswith("_") or self._assignable(name)):
            own = [own for own, _ in self.tracker.own_attributes()]
            reserved = name in self.tracker_attributes
            why = "is written by the tracker alone" if reserved else "is not declared"
            raise AttributeError(f"{type(self).__name__}.{name} {why}{did_you_mean(name, own)}", name=name, obj=self)
        super().__setattr__(name, value)

    def _assignable(self, name: str) -> bool:
        if name in self.get_attributes():
            return name not in self.tracker_attributes
        return hasattr(getattr(type(self), name, None), "__set__")  # a property of the user's own, with a setter
