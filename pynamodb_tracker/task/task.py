"""A task: the model that users derive their table and their use cases from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pynamodb.exceptions import DoesNotExist

from pynamodb_tracker import query, strict_json, transitions
from pynamodb_tracker.aio.lazy import async_version_of
from pynamodb_tracker.arguments import (
    check_due_time,
    check_flags,
    check_group,
    check_name,
    check_new_task,
    check_parameters,
    check_reason,
    check_repeat,
    check_task_id,
    check_task_ids,
    check_threads,
    check_time,
    shown,
    written_as,
)
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model import hydration
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.model.row_state import unreadable_in
from pynamodb_tracker.status import Status
from pynamodb_tracker.step import BoundStep, State
from pynamodb_tracker.step.definition import note_created
from pynamodb_tracker.step.state import counted
from pynamodb_tracker.task.guarded import GuardedRow
from pynamodb_tracker.task.metaclass import TaskMeta

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.features.merges import Merged
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.model.signals import SignalName
    from pynamodb_tracker.status import Codes
    from pynamodb_tracker.step.state import CancelledOf
    from pynamodb_tracker.task.group import Group, GroupOf
    from pynamodb_tracker.transitions.cancelling import Cancellation
    from pynamodb_tracker.work.outcomes import Report


class Task(GuardedRow, metaclass=TaskMeta):
    """The model of all tasks: derive a class with a Meta from it, which is the table, and the use cases from that.

    An instance holds the values that were read. Only a run with the lock and the methods of this class change the row.
    Methods that begin with `a` are awaited: they do the same as those without it, and send their requests in threads.

    Examples:
        >>> class AppTask(Task):
        ...     class Meta:
        ...         table_name = "tasks"
    """

    if TYPE_CHECKING:
        Meta: Any  # a user's own Meta is no subclass of PynamoDB's protocol

        _bound_steps: ClassVar[Mapping[str, BoundStep[Any]]]
        _states: ClassVar[Mapping[int, State[Any]]]

    def __repr__(self) -> str:
        row, damaged = readable(self), ", ".join(unreadable_in(self))
        note = f", unreadable: {damaged}" if damaged else ""
        if "status" not in row.attribute_values:  # damaged, or not read from a table, or only a part of it
            return f"<{type(self).__name__} {row.task_id!r}{note}>"
        state = self._states.get(row.status, f"unknown {row.status}")
        return f"<{type(self).__name__} {row.task_id!r} {state}, attempt {row.attempt}{note}>"

    if TYPE_CHECKING:
        # Attributes of the row that mean something else on the class.
        cancelled: CancelledOf
        group: GroupOf

    @property
    def state(self) -> State[Self]:
        """The state of the task. Its `status` is None if no step declares the code. A missing code is 0."""
        known = self._states.get(self.status)
        return State(type(self), "", None, self.status or 0, self.use_case_id) if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return the task for JSON, such as the response of a web service: id, state, times, and your own attributes.

        A time is ISO 8601 text, a Decimal is text with all its digits, bytes are base64, and a set is a sorted list.
        The worker, the lock and the errors are left out.

        Examples:
            >>> assert Order.get_task("o-2").to_dict()["state"] == "ship pending"
        """
        from pynamodb_tracker.model.plain_values import plain_task  # noqa: PLC0415 - for cold starts

        return plain_task(self)

    def to_json(self) -> str:
        """Return the text of `to_dict` as JSON.

        Examples:
            >>> print(Order.get_task("o-2").to_json())
        """
        return strict_json.dumps(self.to_dict())

    @classmethod
    def connect(cls) -> None:
        """Create the client of the table now, because that takes most of a cold start. It sends nothing.

        In AWS Lambda, `handles` and `retry_handler` call it at import, because the init phase has a whole CPU:
        https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html

        Examples:
            >>> AppTask.connect()
        """
        cls.tracker.table.connect()

    @classmethod
    @written_as('{0.__name__}.create("o-1")')
    def create(
        cls,
        /,
        task_id: str,
        *,
        due_time: datetime | timedelta | None = None,
        state: State[Any] | None = None,
        group: str | None = None,
        repeat: Repeat | None = None,
        trace: Mapping[str, str] | None = None,
        wait_for: SignalName[Any] | None = None,
        until: datetime | timedelta | None = None,
        urgent: bool = False,
        **attributes: object,
    ) -> Self:
        """Create a task, pending at its first step, and return it. This takes one request, or two in a group.

        Args:
            task_id: The id, which is unique within the use case.
            due_time: The earliest time at which it may start, or how long from now that is.
            state: Another state to begin in, for tasks from elsewhere. In `Order.cancelled`, it has no reason, and was
                cancelled at the first step.
            group: A name of 1 to 1024 bytes. Tasks of one group run one at a time, in the order of their creation.
            repeat: A rule. The task is due at its first occurrence, and again after each success. One more request
                lists it for the page.
            trace: Tracing headers, for example, at most 512 bytes of JSON. They stay with the task, as `task.trace`.
            wait_for: A signal that the task waits for, such as `Order.paid`.
            until: When the task stops waiting for the signal, or how long from now that is.
            urgent: Whether its steps come before those of other tasks, if the use case has `urgent=True`.
            **attributes: Your own attributes.

        Raises:
            TaskAlreadyExistsError: A task with this id exists. It is not changed, unless it has expired.
            ValueNotStorableError: An attribute, which the error names, cannot be stored.
            ValueError: The rule has no more occurrences.

        Examples:
            >>> Order.create("o-5", amount=Decimal("42.50"), due_time=timedelta(hours=1))
        """
        task_id, due_time, group = check_new_task(task_id, due_time, group, repeat)
        cls.tracker.check_urgent(urgent)
        if repeat is not None and state is not None:
            raise ValueError("a task that repeats begins at its first step: leave state out")
        code = None if state is None else cls._code_to_begin_in(state, due_time, group)
        also = None
        if state is not None and state == cls.cancelled:
            from pynamodb_tracker.transitions.cancelling import record_of_new  # noqa: PLC0415 - few programs need it

            also = record_of_new(cls)
        if wait_for is not None or until is not None:
            from pynamodb_tracker.features.signals import attributes_awaiting  # noqa: PLC0415 - few cold starts need it

            also, due_time = attributes_awaiting(
                cls, wait_for, until, due_time=due_time, state=state, group=group, repeat=repeat
            )
        if repeat is not None:
            _list_schedule(cls, task_id)
        task = transitions.create(
            cls, task_id, code, due_time, attributes, group=group, trace=trace, repeat=repeat, urgent=urgent, also=also
        )
        note_created(task)
        return task

    @classmethod
    def create_or_merge(
        cls,
        /,
        task_id: str,
        *,
        merge: Callable[[Self, Mapping[str, Any]], object] | None = None,
        due_time: datetime | timedelta | None = None,
        debounce: bool = False,
        repeat: Repeat | None = None,
        trace: Mapping[str, str] | None = None,
        urgent: bool = False,
        **attributes: object,
    ) -> Merged[Self]:
        """Create a task, or merge a request into the existing one. A run that starts later follows each request.

        What happens to an existing task depends on its state:

        - Pending at its first step: the task keeps its attributes, unless `merge` changes them.
        - Running, or past its first step: the task keeps the request, and becomes pending again with it after its
          success. Later requests are merged with that one.
        - Succeeded: the task starts over, and the given attributes replace the old ones.
        - Ignored: the task keeps the request (`effect` is "ignored"), but runs only after a reopen.
        - Cancelled: nothing changes (`effect` is "cancelled").

        This takes one request if it creates the task or changes nothing, otherwise two. If a request gets no response,
        and the row cannot show whether it was applied, PynamoDB's error is raised.

        Args:
            task_id: The id of the task.
            merge: A function of the task and the given attributes, which changes the task. It may be called more than
                once. If it raises, nothing changes.
            due_time: When the run may start, or how long from now. The earlier due time wins. A failed task keeps the
                time of its retry.
            debounce: The given due time wins, even if it is later.
            repeat: A rule for the task. Without a `due_time`, the call sets the rule and requests no run. Setting the
                same rule again changes nothing, so a program may do so at each start.
            trace: Kept with a new task, as in `create`.
            urgent: Whether the task gets urgent with its next run, as in `create`. Otherwise, it stays as it is.
            **attributes: Your own attributes. `data` is only for a new task: an existing one keeps its own.

        Raises:
            ValueNotStorableError: An attribute cannot be stored, or the row has no room for both requests.
            TaskNotReadyError: Others kept changing the row.
            TypeError: `data` was given together with `merge`.

        Examples:
            >>> assert Order.create_or_merge("o-5").effect == "created"
        """
        from pynamodb_tracker.features.merges import Merge  # noqa: PLC0415 - few cold starts need it

        task_id = check_task_id(task_id)
        check_flags(debounce=debounce)
        due_time = check_due_time(due_time)
        check_repeat(repeat)
        if debounce and due_time is None:
            raise ValueError("debounce=True moves the due time: give a due_time")
        if merge is not None:
            check_parameters(merge, "task", "new")
            if "data" in attributes:
                raise TypeError("data cannot be merged: leave it out, or keep the request in other attributes")
        if "state" in attributes:
            raise TypeError("create_or_merge takes no state: a new task is pending at its first step")
        if "group" in attributes:
            raise TypeError("create_or_merge takes no group: a task of a group runs once; create one for each request")
        cls.tracker.use_case  # noqa: B018 - a TypeError on the table class, which has no steps
        if repeat is not None:
            _list_schedule(cls, task_id)
        cls.tracker.check_urgent(urgent)
        first = next(iter(cls._bound_steps.values()))._definition.statements
        of_run: dict[str, Any] = {"due_time": due_time, "debounce": debounce, "repeat": repeat, "urgent": urgent}
        merged = Merge(first, task_id, attributes, merge=merge, trace=trace, **of_run).carry_out()
        if merged.effect == "created":
            note_created(merged.task)
        return merged

    @classmethod
    def _open_group(cls, name: object) -> Group[Self]:
        from pynamodb_tracker.task.group import Group  # noqa: PLC0415 - few cold starts need it

        if (checked := check_group(name)) is None:
            raise TypeError(f"{cls.__name__}.group takes the name of a group, and not None")
        _ = cls.tracker.use_case  # a TypeError on a class that is not a use case
        return Group(cls, checked)

    @classmethod
    def _code_to_begin_in(cls, state: State[Any], due_time: datetime | timedelta | None, group: str | None) -> int:
        known: object = cls._states.get(getattr(state, "code", -1))
        if known is None or known != state:
            names = [str(each).replace(" ", ".") for each in cls._states.values()]
            meant = next((name for name in names if name == str(state).replace(" ", ".")), names[0])
            raise ValueError(f"{shown(state)} is no state of {cls.__name__}: write state={cls.__name__}.{meant}")
        if state.status is Status.IN_PROGRESS:
            raise ValueError(f"a task cannot be created as {state}: only a worker that holds its lock is in progress")
        if due_time is not None and cls.tracker.ends_at(state.code):
            raise ValueError(f"a task that is {state} is never due: leave due_time out")
        if group is not None and state.status is not Status.PENDING:
            raise ValueError(f"a task of a group begins pending, and not as {state}: it waits for its turn")
        return state.code

    @classmethod
    def create_many(cls, /, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, each from an id or from a mapping of `task_id` and other arguments of `create`.

        The report lists new tasks as succeeded. Tasks that exist, cannot be stored, or whose request failed are
        refused. Existing tasks are not changed. `tasks` is read lazily, so it can be a generator of any length. One
        thread sends one request per task, before it takes the next one. Several threads, such as 25, share requests.
        Tasks of one group enter it one after another, in the given order.

        Examples:
            >>> Order.create_many(({"task_id": f"o-{number}"} for number in range(5, 30)), threads=25)
        """
        check_threads(threads)
        if isinstance(tasks, str | Mapping):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not one: write [{shown(tasks)}]")
        given: object = tasks
        if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not {shown(given)}")
        from pynamodb_tracker.work.bulk import report_of_each  # noqa: PLC0415 - for cold starts, which run one task

        def create(_task_id: str, arguments: dict[str, Any]) -> Literal["succeeded"]:
            cls.create(**arguments)
            return "succeeded"

        tasks_by_id = ((arguments["task_id"], arguments) for arguments in map(_arguments, tasks))
        return report_of_each(tasks_by_id, create, threads, lambda arguments: arguments.get("group"))

    @classmethod
    def get_task(cls, /, task_id: str, *, with_data: bool = True) -> Self:
        """Return the task, strongly consistent. TaskNotFoundError if there is none.

        This takes one request, and one more if its data or its failures are off-row. `with_data=False` leaves `data`
        out.

        Examples:
            >>> assert Order.get_task("o-2").state == Order.ship.pending
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
    def get_many(cls, /, task_ids: Iterable[str]) -> list[Self]:
        """Return these tasks in the order of their ids, each once and strongly consistent. Missing tasks are left out.

        One request reads 100 tasks. Large tasks and off-row data need more requests:
        https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html

        Examples:
            >>> first, second = Order.get_many(["o-1", "o-2"])
        """
        ids = dict.fromkeys(check_task_ids("get_many", task_ids))
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
        """Return the task as PynamoDB's `get` does, and fill in the range key. Eventually consistent by default.

        With `attributes_to_get`, other attributes read as if they were not stored.

        Examples:
            >>> order = AppTask.get("o-1", "order")
        """
        name = cls.tracker.use_case.name if range_key is None else range_key
        try:
            return super().get(check_task_id(hash_key), name, consistent_read, attributes_to_get)
        except DoesNotExist as missing:
            missing.msg = f"there is no {cls.__name__} {hash_key!r}"
            missing.args = (missing.msg,)
            raise

    @classmethod
    def counts(cls, /) -> dict[State[Self], int]:
        """Return how many tasks there are in every state, and in codes that no step declares. Eventually consistent.

        It reads the whole index, all use cases of the table included. An index of up to 1 MB, about 5,000 tasks, takes
        one request. A larger one is read in segments on a few threads.

        Examples:
            >>> assert Order.counts()[Order.ship.pending] == 1
        """
        return {state: count.tasks for state, count in counted(cls).items()}

    @classmethod
    def pauses(cls, /) -> list[Pause]:
        """Return the current pauses of steps, in the order of the steps. One strongly consistent read.

        TrackerError with `UseCase(..., pausable=False)`.

        Examples:
            >>> assert [pause.reason for pause in Order.pauses()] == []
        """
        from pynamodb_tracker.control.item import in_force  # noqa: PLC0415 - few use cases are controlled

        return in_force(cls)

    @classmethod
    @written_as('{0.__name__}.cancel("o-1", reason="the customer moved away")')
    def cancel(
        cls,
        /,
        task_id: str,
        *,
        reason: str,
        by: str | None = None,
        children: bool = False,
        go_to: BoundStep[Self] | None = None,
        even_running: bool = False,
    ) -> Cancellation[Self]:
        """End a task at whichever step it is, or let a branch step lead it to that end, such as a refund.

        Only `reopen` lets it start again, and cancelling it again is safe. The task no longer waits for anything, and
        hands on the turn of its group. A task that moves to its next step in the meantime is cancelled there. This
        takes two requests if nothing intervenes.

        Args:
            task_id: The id of the task.
            reason: Why. It is kept in `task.cancelled` and in `errors`.
            by: Who cancels it, as in `ignore`.
            children: Also cancel the tasks that it waits for, and those that they wait for, each to its own
                `on_cancel` step. One transaction cancels up to 100 tasks, or else nothing. In a group, a task takes
                the place of four. Beyond that, or with two tasks of one group, the deepest are cancelled first and the
                task itself last, one by one.
            go_to: A branch step, such as `Order.refund`, by default the step with `on_cancel`. The task is pending
                there. After its success, the task ends as cancelled.
            even_running: Also if a worker is running one of the tasks. Nothing more of its run is recorded, but its
                block is not stopped. In a group, the next task starts in the meantime.

        Raises:
            TaskLockedError: A worker is running one of the tasks.
            TaskAlreadySucceededError: The task has ended.
            TaskNotFoundError: There is no such task.
            TrackerError: The children cannot all be cancelled: some are not listed, or this program does not declare
                their use case. Nothing was changed, or a note says which tasks are cancelled.

        Examples:
            >>> Order.cancel("o-2", reason="the customer moved away", by="ada")
        """
        from pynamodb_tracker.transitions import cancelling  # noqa: PLC0415 - few cold starts need it

        reason, by = check_reason(reason), check_name("by", by)
        task_id = check_task_id(task_id)
        check_flags(children=children, even_running=even_running)
        codes = None if go_to is None else cls._branch_to_go_to(go_to)
        return cancelling.cancel(cls, task_id, cancelling.Cancel(reason, by, children, codes, even_running))

    @classmethod
    def _branch_to_go_to(cls, step: BoundStep[Any]) -> Codes:
        given: object = step
        codes = given._definition.codes if isinstance(given, BoundStep) else None
        if codes is None or codes not in cls.tracker.steps or not codes.branch:
            raise ValueError(f"go_to takes a branch step of {cls.__name__}, not {shown(step)}")
        return codes

    @classmethod
    def reopen(
        cls,
        /,
        task_id: str,
        *,
        by: str | None = None,
        due_time: datetime | None = None,
        clear_checkpoints: bool = False,
        urgent: bool = False,
    ) -> Self:
        """Reopen a task at the step at which it was cancelled, has failed or is ignored, and return it.

        The arguments are those of a step's `reopen`. A task that has gone to a branch step after `cancel`, and is still
        there, remains cancelled.

        Raises:
            TaskNotStartableError: The task is in another state.
            TaskNotFoundError: There is no such task.

        Examples:
            >>> Order.cancel("o-2", reason="the customer moved away")
            >>> Order.reopen("o-2", by="ada")
        """
        from pynamodb_tracker.transitions.reopening import reopen_anywhere  # noqa: PLC0415 - as above

        task_id, by = check_task_id(task_id), check_name("by", by)
        check_flags(clear_checkpoints=clear_checkpoints)
        cls.tracker.check_urgent(urgent)
        options = {"clear_checkpoints": clear_checkpoints, "urgent": urgent}
        reopened: Self = reopen_anywhere(cls, task_id, by, check_time("due_time", due_time), **options)
        return reopened

    @classmethod
    def delete_task(cls, /, task_id: str) -> None:
        """Delete a task that is not in progress. Otherwise TaskLockedError, or TaskNotFoundError if there is none.

        Examples:
            >>> Order.delete_task("o-2")
        """
        if transitions.delete(cls, check_task_id(task_id)):
            from pynamodb_tracker.control.records import remove_schedule  # noqa: PLC0415 - few tasks repeat

            remove_schedule(cls, task_id)

    @classmethod
    def delete_use_case(cls, /, *, threads: int = 1) -> Report:
        """Delete every task of this use case that is not in progress, and then its idle groups.

        If no task is left, it deletes the control item, too. Other use cases do not change. The report lists deleted
        tasks as succeeded, and those in progress as refused. It reads the whole table, and sends one request per task.
        Several threads, such as 25, share requests.

        Examples:
            >>> report = Order.delete_use_case(threads=25)
        """
        check_threads(threads)
        from pynamodb_tracker.work.bulk import report_of_each  # noqa: PLC0415 - for cold starts, which run one task

        delete_seen = transitions.SeenDeletes(cls).delete

        def delete(task_id: str, seen: dict[str, Any] | None) -> Literal["succeeded"] | None:
            try:
                delete_seen(task_id, seen)
            except TaskNotFoundError:  # another program deleted it since it was read
                return None
            return "succeeded"

        groups: list[str] = []
        report = report_of_each(query.to_delete(cls, groups), delete, threads)
        if groups:
            from pynamodb_tracker.features.groups.repair import forget  # noqa: PLC0415 - few cold starts need it

            for name in groups:
                forget(cls, name)
        if not report.refused:
            from pynamodb_tracker.control import item  # noqa: PLC0415 - as above

            item.forget(cls)
        return report

    @classmethod
    @async_version_of(create)
    def acreate(cls, /, *args: Any, **options: Any) -> Self:
        """Create a task, as `create` does, and return it."""
        return cls.create(*args, **options)

    @classmethod
    @async_version_of(create_or_merge)
    def acreate_or_merge(cls, /, *args: Any, **options: Any) -> Merged[Self]:
        """Create a task, or merge a request into it, as `create_or_merge` does; `merge` is called in a thread."""
        return cls.create_or_merge(*args, **options)

    @classmethod
    @async_version_of(create_many)
    def acreate_many(cls, /, *args: Any, **options: Any) -> Report:
        """Create many tasks, as `create_many` does. Once cancelled, it creates no more, and waits for its requests."""
        return cls.create_many(*args, **options)

    @classmethod
    @async_version_of(get_task)
    def aget_task(cls, /, *args: Any, **options: Any) -> Self:
        """Return the task, as `get_task` does."""
        return cls.get_task(*args, **options)

    @classmethod
    @async_version_of(get_many)
    def aget_many(cls, /, *args: Any, **options: Any) -> list[Self]:
        """Return these tasks, as `get_many` does."""
        return cls.get_many(*args, **options)

    @classmethod
    @async_version_of(counts)
    def acounts(cls, /, *args: Any, **options: Any) -> dict[State[Self], int]:
        """Return how many tasks there are in every state, as `counts` does."""
        return cls.counts(*args, **options)

    @classmethod
    @async_version_of(pauses)
    def apauses(cls, /, *args: Any, **options: Any) -> list[Pause]:
        """Return the current pauses of steps, as `pauses` does."""
        return cls.pauses(*args, **options)

    @classmethod
    @async_version_of(cancel)
    def acancel(cls, /, *args: Any, **options: Any) -> Cancellation[Self]:
        """Cancel a task, as `cancel` does. Once cancelled itself, it cancels no more children."""
        return cls.cancel(*args, **options)

    @classmethod
    @async_version_of(reopen)
    def areopen(cls, /, *args: Any, **options: Any) -> Self:
        """Reopen a task, as `reopen` does."""
        return cls.reopen(*args, **options)

    @classmethod
    @async_version_of(delete_task)
    def adelete_task(cls, /, *args: Any, **options: Any) -> None:
        """Delete a task that is not in progress, as `delete_task` does."""
        cls.delete_task(*args, **options)

    @classmethod
    @async_version_of(delete_use_case)
    def adelete_use_case(cls, /, *args: Any, **options: Any) -> Report:
        """Delete tasks, as `delete_use_case` does. Once cancelled, it deletes no more, and waits for its requests."""
        return cls.delete_use_case(*args, **options)


def _arguments(task: object) -> dict[str, Any]:
    if isinstance(task, str):
        return {"task_id": task}
    if not isinstance(task, Mapping):
        raise TypeError(f"create_many takes ids or mappings, not {shown(task)}: write {{'task_id': ...}}")
    for name in task:
        if not isinstance(name, str):
            raise TypeError(f"create_many takes ids or mappings by name, not one with the key {shown(name)}")
    if "task_id" not in task:
        raise TypeError(f"create_many takes mappings with a task_id, not {shown(task)}")
    return dict(task)


def _list_schedule(model: type[Task], task_id: str) -> None:
    """List a task that is about to get a rule."""
    from pynamodb_tracker.control.records import add_schedule  # noqa: PLC0415 - few tasks repeat

    add_schedule(model, task_id)
