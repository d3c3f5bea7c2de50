"""A task: the model that users derive their table and their use cases from.

PynamoDB's own methods that write a row are guarded or closed: only transitions write a status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from pynamodb.attributes import MapAttribute
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import And, Condition
from pynamodb.expressions.operand import Path, _Operand
from pynamodb.expressions.update import Action
from pynamodb.pagination import ResultIterator

from pynamodb_tracker import query, transitions
from pynamodb_tracker.arguments import (
    check_due_time,
    check_flags,
    check_parameters,
    check_task_id,
    check_threads,
    did_you_mean,
    shown,
)
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.exceptions import TaskNotFoundError, TrackerError
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.overflow import CHUNK
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.row_state import readable_value, unreadable_in
from pynamodb_tracker.model.serialization import check_map
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import BoundStep, State
from pynamodb_tracker.step.state import counted
from pynamodb_tracker.task.metaclass import TaskMeta

if TYPE_CHECKING:
    from pynamodb_tracker.batch.batch import Report
    from pynamodb_tracker.transitions.merges import Merged

_INDEX_NAME = 6
"""Its position among the further arguments of PynamoDB's `scan`."""


class Task(TaskRow, metaclass=TaskMeta):
    """The model of all tasks: derive a class with a Meta from it, which is the table, and the use cases from that.

    An instance holds what was read; only a run that holds the lock, and the methods of this class, change the row.
    """

    if TYPE_CHECKING:
        Meta: Any  # a user's own Meta is no subclass of PynamoDB's protocol

        _bound_steps: ClassVar[Mapping[str, BoundStep[Any]]]
        _states: ClassVar[Mapping[int, State[Any]]]

    def __repr__(self) -> str:
        task_id, status, attempt = (readable_value(self, name) for name in ("task_id", "status", "attempt"))
        damaged = ", ".join(unreadable_in(self))
        note = f", unreadable: {damaged}" if damaged else ""
        if status is None:  # damaged, or not read from a table, or only a part of it
            return f"<{type(self).__name__} {task_id!r}{note}>"
        state = self._states.get(status, f"unknown {status}")
        return f"<{type(self).__name__} {task_id!r} {state}, attempt {attempt}{note}>"

    @property
    def state(self) -> State[Self]:
        """The state of the task; its `status` is None if no step declares the code."""
        known = self._states.get(self.status)
        return State(type(self), "", None, self.status, self.use_case_id) if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return the task as JSON has it, for the answer of a web service: id, state, times, and your own attributes.

        Times are text in ISO 8601, a Decimal is text with all its digits, bytes are base64, and a set is a sorted list.
        Who works on the task, its lock and its errors are left out.
        """
        from pynamodb_tracker.model.plain_values import plain_task  # noqa: PLC0415 - for cold starts

        return plain_task(self)

    def to_json(self) -> str:
        """Return the text of `to_dict` as JSON."""
        import json  # noqa: PLC0415 - only here

        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def connect(cls) -> None:
        """Create the client of the table now, and not at the first request: it takes most of a cold start.

        It sends nothing. In AWS Lambda, `handles` and `retry_handler` call it at import, where the function's init
        phase has a whole CPU: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
        """
        cls.tracker.table.connect()

    @classmethod
    def create(
        cls,
        task_id: str,
        *,
        due_time: datetime | timedelta | None = None,
        state: State[Any] | None = None,
        trace: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> Self:
        """Create a task, pending at its first step, and return it; one request.

        `due_time` is the earliest time it may start, or how long from now that is. `state` is another state to begin
        in, for tasks from elsewhere. `trace`, such as the headers of your tracing, is kept with the task: `task.trace`;
        it takes at most 512 bytes of JSON. Raises TaskAlreadyExistsError, which leaves the existing task as it is, or
        ValueNotStorableError, which names the attribute.
        """
        task_id = check_task_id(task_id)
        due_time = check_due_time(due_time)
        code = None if state is None else cls._code_to_begin_in(state, due_time)
        return transitions.create(cls, task_id, code, due_time, attributes, trace=trace)

    @classmethod
    def create_or_merge(
        cls,
        task_id: str,
        *,
        merge: Callable[[Self, Mapping[str, Any]], object] | None = None,
        due_time: datetime | timedelta | None = None,
        later: bool = False,
        trace: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> Merged[Self]:
        """Create a task, or have the existing one run with what is asked for; every call is followed by such a run.

        A task that waits at its first step keeps its attributes, unless `merge(task, new)` changes them: it gets the
        task and the given attributes, may be called more than once, and its exceptions leave everything as it is. The
        earlier due time wins; with `later`, it is the given one. A task that failed keeps the time of its retry, and an
        ignored one waits for a reopen. While the task runs, or is past its first step, the same is done to what waits
        for its success. One that has succeeded begins anew, with the given attributes in place of the old ones. `data`
        is only for a new task: an existing one keeps its own, and with `merge` it is a TypeError.

        One request creates the task, or finds that nothing has to be changed; two change it. Raises
        ValueNotStorableError, also if the row has no room for both, and TaskNotReadyError if others kept changing the
        row. If a request gets no answer, and the row cannot tell what became of it, PynamoDB's error leaves.
        """
        from pynamodb_tracker.transitions.merges import Merge  # noqa: PLC0415 - few cold starts need it

        task_id = check_task_id(task_id)
        check_flags(later=later)
        due_time = check_due_time(due_time)
        if later and due_time is None:
            raise ValueError("later=True moves the due time: give a due_time")
        if merge is not None:
            check_parameters(merge, "task", "new")
            if "data" in attributes:
                raise TypeError("data cannot be merged: leave it out, or keep what is asked for in other attributes")
        if "state" in attributes:
            raise TypeError("create_or_merge takes no state: a new task is pending at its first step")
        cls.tracker.use_case  # noqa: B018 - a TypeError on the table class, which has no steps
        first = next(iter(cls._bound_steps.values()))._definition.statements
        return Merge(first, task_id, attributes, merge=merge, due_time=due_time, later=later, trace=trace).carry_out()

    @classmethod
    def _code_to_begin_in(cls, state: State[Any], due_time: datetime | timedelta | None) -> int:
        known: object = cls._states.get(getattr(state, "code", -1))
        if known is None or known != state:
            raise ValueError(f"{state!r} is no state of {cls.__name__}")
        if state.status is Status.IN_PROGRESS:
            raise ValueError(f"a task cannot be created as {state}: only a worker that holds its lock is in progress")
        if due_time is not None and cls.tracker.ends_at(state.code):
            raise ValueError(f"a task that is {state} is never due: leave due_time out")
        return state.code

    @classmethod
    def create_many(cls, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, each an id or a mapping of `task_id` and what `create` takes; one request each.

        The report lists new tasks as succeeded; tasks that exist, cannot be stored, or whose request failed are
        refused. Existing tasks are not changed. `tasks` is read lazily, so it can be a generator of any length.
        """
        check_threads(threads)
        if isinstance(tasks, str | Mapping):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not one: write [{shown(tasks)}]")
        given: object = tasks
        if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not {shown(given)}")

        def create(report: Report, task: str | Mapping[str, Any]) -> None:
            arguments = _arguments(task)
            try:
                cls.create(**arguments)
            except (PynamoDBException, TrackerError) as error:
                report.refused[arguments["task_id"]] = error
            else:
                report.succeeded.append(arguments["task_id"])

        return _report_of_each(create, tasks, threads)

    @classmethod
    def get_task(cls, task_id: str, *, with_data: bool = True) -> Self:
        """Return the task, strongly consistent; TaskNotFoundError if there is none.

        One request, and one more if its data or its failures are off-row; `with_data=False` leaves `data` out.
        """
        task_id = check_task_id(task_id)
        check_flags(with_data=with_data)
        row = transitions.get(cls, task_id)
        if row is not None and with_data:
            row = hydration.fill(cls, {task_id: row}).get(task_id)
        if row is None:
            raise TaskNotFoundError(f"there is no {cls.__name__} {task_id!r}", task_id=task_id)
        if not with_data:
            hydration.leave_out_data([row])
        return row

    @classmethod
    def get_many(cls, task_ids: Iterable[str]) -> list[Self]:
        """Return these tasks in the order of their ids, each strongly consistent; an id without a task is left out.

        Each task is returned once. One request for 100 tasks, and more if they are large, or stored off-row in part:
        https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
        """
        given: object = task_ids
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise TypeError(f"get_many takes an iterable of ids, not {shown(given)}")
        ids = dict.fromkeys(map(check_task_id, task_ids))
        found = hydration.fill(cls, hydration.rows(cls, ids))
        return [found[task_id] for task_id in ids if task_id in found]

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
        return {state: count.tasks for state, count in counted(cls).items()}

    @classmethod
    def delete_task(cls, task_id: str) -> None:
        """Delete a task that is not in progress; TaskLockedError if it is, TaskNotFoundError if there is none."""
        transitions.delete(cls, check_task_id(task_id))

    @classmethod
    def delete_use_case(cls, *, threads: int = 1) -> Report:
        """Delete every task of this use case that is not in progress; other use cases are not touched.

        The report lists deleted tasks as succeeded and those in progress as refused. Reads the whole table.
        """
        check_threads(threads)

        def delete(report: Report, task_id: str) -> None:
            try:
                transitions.delete(cls, task_id)
            except TaskNotFoundError:
                return
            except (PynamoDBException, TrackerError) as error:
                report.refused[task_id] = error
            else:
                report.succeeded.append(task_id)

        return _report_of_each(delete, query.task_ids(cls), threads)

    @classmethod
    def query(
        cls,
        hash_key: Any,
        range_key_condition: Condition | None = None,
        filter_condition: Condition | None = None,
        consistent_read: bool = False,  # noqa: FBT001, FBT002 - PynamoDB's signature
        index_name: str | None = None,
        *args: Any,
        **options: Any,
    ) -> ResultIterator[Self]:
        """Query rows as PynamoDB does, without overflow chunks."""
        rows = filter_condition if index_name else _without_chunks(filter_condition)
        return super().query(hash_key, range_key_condition, rows, consistent_read, index_name, *args, **options)

    @classmethod
    def scan(cls, filter_condition: Condition | None = None, *args: Any, **options: Any) -> ResultIterator[Self]:
        """Scan the rows of all use cases of the table as PynamoDB does, without overflow chunks."""
        of_index = options.get("index_name") or args[_INDEX_NAME : _INDEX_NAME + 1] not in {(), (None,)}
        rows = filter_condition if of_index else _without_chunks(filter_condition)
        return super().scan(rows, *args, **options)

    @classmethod
    def count(
        cls,
        hash_key: Any = None,
        range_key_condition: Condition | None = None,
        filter_condition: Condition | None = None,
        consistent_read: bool = False,  # noqa: FBT001, FBT002 - PynamoDB's signature
        index_name: str | None = None,
        *args: Any,
        **options: Any,
    ) -> int:
        """Count rows as PynamoDB does; without a `hash_key`, that is the table's own approximate count of all items."""
        rows = filter_condition if index_name or hash_key is None else _without_chunks(filter_condition)
        return super().count(hash_key, range_key_condition, rows, consistent_read, index_name, *args, **options)

    def update(self, actions: list[Action], condition: Condition | None = None, **options: Any) -> Any:
        """Update the user's own attributes of an existing row, as PynamoDB's `update` does; TypeError for others.

        It reads the row again: TypeError if that would discard assignments that were not saved.
        """
        self._check_unchanged("update")
        return super().update(actions, self._updatable(actions, condition), **options)

    def get_update_kwargs_from_instance(
        self, actions: list[Action], condition: Condition | None = None, *args: Any, **options: Any
    ) -> dict[str, Any]:
        """Return the update for a transaction; the user's own attributes of an existing row only."""
        return super().get_update_kwargs_from_instance(actions, self._updatable(actions, condition), *args, **options)

    def refresh(self, consistent_read: bool = False) -> None:  # noqa: FBT001, FBT002 - PynamoDB's signature
        """Read the row again, as PynamoDB's `refresh` does; TypeError if that would discard unsaved assignments."""
        self._check_unchanged("refresh")
        super().refresh(consistent_read)

    def _check_unchanged(self, method: str) -> None:
        if "_row_state" in vars(self) and (changes := changes_of(self)):
            raise TypeError(
                f"{type(self).__name__}.{method} would discard what was assigned to {', '.join(changes)}: in a run, "
                "call ctx.save() first"
            )

    def _updatable(self, actions: Sequence[Action], condition: Condition | None) -> Condition:
        own = {attribute.attr_name: (name, attribute) for name, attribute in self.tracker.own_attributes.items()}
        if not (isinstance(actions, list | tuple) and all(isinstance(action, Action) for action in actions)):
            raise TypeError(
                f"{type(self).__name__}.update takes a list of actions, not {shown(actions)}: write "
                f"[{type(self).__name__}.{next(iter(own))}.set(...)]"
            )
        for action in actions:
            path: Any = action.values[0]  # the first value of every action is the path that it writes
            name = path.path[0].partition("[")[0]
            if name not in own:
                raise TypeError(
                    f"{type(self).__name__}.update cannot write {name!r}: it takes your own attributes; a status "
                    f"changes by start, reopen and ignore of a step{did_you_mean(name, own)}"
                )
            for value in _values_in(action):
                check(type(self).__name__, *own[name], value)
        exists: Condition = TaskRow.task_id.exists()
        return exists if condition is None else And(exists, condition)

    def delete(self, condition: Condition | None = None, **options: Any) -> None:
        """Delete this task, as `delete_task` does; TypeError for a condition."""
        if condition is not None or options:
            raise TypeError(
                f"{type(self).__name__}.delete takes no condition: it deletes a task that is not in progress"
            )
        if self.use_case_id != self.tracker.use_case.name:
            raise TypeError(f"{self.task_id!r} is a task of {self.use_case_id!r}, not of {type(self).__name__}")
        transitions.delete(type(self), self.task_id)

    def save(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError: saving a stale row as a whole would break the lock."""
        raise TypeError(
            f"{type(self).__name__}.save() would overwrite what workers have written since: use create() for a new "
            "task, ctx.save() or the end of the block in a run, and update([...]) for your own attributes"
        )

    def get_save_kwargs_from_instance(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, as `save` does."""
        self.save()

    def get_delete_kwargs_from_instance(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError: a delete in a transaction could not say why it was refused."""
        raise TypeError(f"a transaction does not delete tasks: use {type(self).__name__}.delete_task(...)")

    def from_dynamodb_dict(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError: a row filled by hand was never read, so its changes cannot be known."""
        raise TypeError(f"{type(self).__name__} is read by get_task and the queries; do not fill rows by hand")

    def from_simple_dict(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, as `from_dynamodb_dict` does."""
        self.from_dynamodb_dict()

    @classmethod
    def batch_write(cls, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError: BatchWriteItem has no conditions, so it would overwrite or delete tasks in progress."""
        raise TypeError(
            f"{cls.__name__}.batch_write has no conditions: use create_many, delete_task or delete_use_case"
        )

    if not TYPE_CHECKING:  # type checkers would take it as permission to assign any name

        def __setattr__(self, name: str, value: object) -> None:
            """Assign one of the user's attributes; AttributeError for other names, or after the recorded success."""
            if self._row_state.closed and not name.startswith("_"):
                raise AttributeError(
                    f"{type(self).__name__}.{name} of {self.task_id!r} is assigned too late: a transaction has "
                    "recorded the success; assign before it is committed",
                    name=name,
                    obj=self,
                )
            if "_row_state" in vars(self) and not (name.startswith("_") or self._is_assignable(name)):
                raise AttributeError(f"{type(self).__name__}.{name} {self._why_not(name)}", name=name, obj=self)
            if isinstance(value, Mapping) and isinstance(attribute := self.get_attributes().get(name), MapAttribute):
                check_map(type(self).__name__, name, attribute, value)
            super().__setattr__(name, value)

    def _why_not(self, name: str) -> str:
        """Return why an attribute cannot be assigned, and what to use."""
        if name in ("state", "status"):
            step = f"{type(self).__name__}.{next(iter(self._bound_steps), 'ship')}"
            return f"changes when a step runs: use {step}.run(...) or {step}.start(...), {step}.reopen or {step}.ignore"
        why = "is written only by the tracker" if name in self.tracker_attributes else "is not declared"
        return f"{why}{did_you_mean(name, self.tracker.own_attributes)}"

    def _is_assignable(self, name: str) -> bool:
        if name == "state":
            return False
        if name in self.get_attributes():
            return name not in self.tracker_attributes
        return hasattr(getattr(type(self), name, None), "__set__")  # a property of the user's own


def _report_of_each(function: Callable[[Report, Any], None], items: Iterable[Any], threads: int) -> Report:
    """Call the function with a report and each item, on threads, and return the report."""
    from pynamodb_tracker.batch.batch import Report  # noqa: PLC0415 - as above
    from pynamodb_tracker.batch.thread_pool import in_threads  # noqa: PLC0415 - for cold starts, which run one task

    report = Report()
    in_threads(partial(function, report), items, threads)
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


def _without_chunks(condition: Condition | None) -> Condition:
    """Add to a filter that an item is no overflow chunk; items that users store themselves pass.

    No chunk is in any index.
    """
    no_chunk: Condition = TaskRow.status.exists() | Path(CHUNK).does_not_exist()
    return no_chunk if condition is None else And(no_chunk, condition)


def _values_in(operand: Any) -> Iterator[dict[str, Any]]:
    """Yield the stored values in an action, at any depth of its sums and lists."""
    for value in operand.values:
        if isinstance(value, dict):
            yield value
        elif isinstance(value, _Operand):
            yield from _values_in(value)
