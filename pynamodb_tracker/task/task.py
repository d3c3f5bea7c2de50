"""The model from which users derive their table and their use cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pynamodb.exceptions import DoesNotExist

from pynamodb_tracker import transitions
from pynamodb_tracker.aio.lazy import async_version_of
from pynamodb_tracker.exceptions import TaskNotFoundError
from pynamodb_tracker.model import arguments, hydration, strict_json
from pynamodb_tracker.model.row import readable
from pynamodb_tracker.model.row_state import unreadable_in
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.query.full_scan import to_delete
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.definition import note_created
from pynamodb_tracker.step.state import State, counted
from pynamodb_tracker.task.guarded import GuardedRow
from pynamodb_tracker.task.metaclass import TaskMeta

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.features.merges import Merged
    from pynamodb_tracker.model.repeat import Repeat
    from pynamodb_tracker.model.signals import SignalName
    from pynamodb_tracker.step.state import CancelledOf
    from pynamodb_tracker.task.group import Group, GroupOf
    from pynamodb_tracker.transitions.cancelling import Cancellation
    from pynamodb_tracker.work.outcomes import Report


class Task(GuardedRow, metaclass=TaskMeta):
    """The model of all tasks. Derive a class with a Meta from it, which is the table, and the use cases from that.

    An instance has the values as they were read. Only a run with the lock and the methods of this class change the row.
    Methods that begin with `a` are awaited.

    Examples:
        >>> class AppTask(Task):
        ...     class Meta:
        ...         table_name = "tasks"
    """

    if TYPE_CHECKING:
        Meta: Any  # a user's own Meta does not derive from PynamoDB's protocol

        _bound_steps: ClassVar[Mapping[str, BoundStep[Any]]]
        _states: ClassVar[Mapping[int, State[Any]]]

    def __repr__(self) -> str:
        row, damaged = readable(self), ", ".join(unreadable_in(self))
        note = f", unreadable: {damaged}" if damaged else ""
        if "status" not in row.attribute_values:  # damaged, incomplete, or not read from a table
            return f"<{type(self).__name__} {row.task_id!r}{note}>"
        state = self._states.get(row.status, f"unknown {row.status}")
        return f"<{type(self).__name__} {row.task_id!r} {state}, attempt {row.attempt}{note}>"

    if TYPE_CHECKING:
        # These mean something else on the class than on a row.
        cancelled: CancelledOf
        group: GroupOf

    @property
    def state(self) -> State[Self]:
        """The task's state. Its `status` is None if no step declares the code. A missing code is 0."""
        known = self._states.get(self.status)
        return State(type(self), "", None, self.status or 0, self.use_case_id) if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return the id, state, times and your own attributes for JSON, such as a web service's response.

        A time is ISO 8601 text, a Decimal is text with all its digits, bytes are base64, and a set is a sorted list.

        Examples:
            >>> assert Order.get_task("o-2").to_dict()["state"] == "ship pending"
        """
        from pynamodb_tracker.model.plain_values import plain_task  # noqa: PLC0415 - for cold starts

        return plain_task(self)

    def to_json(self) -> str:
        """Return `to_dict` as JSON text.

        Examples:
            >>> print(Order.get_task("o-2").to_json())
        """
        return strict_json.dumps(self.to_dict())

    @classmethod
    def connect(cls) -> None:
        """Create the table's client now, because that takes most of a cold start. It sends nothing.

        `handles` and `retry_handler` do so at import, because AWS Lambda's init phase has a whole CPU:
        https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html

        Examples:
            >>> AppTask.connect()
        """
        cls.tracker.table.connect()

    @classmethod
    @arguments.written_as('{0.__name__}.create("o-1")')
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
            due_time: When it may start, or how long from now.
            state: Another state to begin in, for tasks from elsewhere.
            group: A name of 1 to 1024 bytes. Tasks of a group run one at a time, in the order of their creation.
            repeat: A rule. The task is due at its first occurrence, and again after each success. A second request
                lists it for the page.
            trace: At most 512 bytes of JSON, such as tracing headers, which stay with the task as `task.trace`.
            wait_for: A signal to wait for, such as `Order.paid`.
            until: When the task stops waiting for it, or how long from now.
            urgent: Whether it runs before other tasks, if the use case has `urgent=True`.
            **attributes: Your own attributes.

        Raises:
            TaskAlreadyExistsError: A task with this id exists and has not expired. It is not changed.
            ValueNotStorableError: An attribute, which the error names, cannot be stored.
            ValueError: The rule has ended.

        Examples:
            >>> Order.create("o-5", amount=Decimal("42.50"), due_time=timedelta(hours=1))
        """
        task_id, due_time, group = arguments.check_new_task(task_id, due_time, group, repeat)
        cls.tracker.check_urgent(urgent)
        if repeat is not None and state is not None:
            raise ValueError("a repeating task begins at its first step: leave state out")
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
        """Create a task, or merge a request into the existing one, so that a run starts after each request.

        An existing task changes according to its state:

        - Pending at its first step: it keeps its attributes, unless `merge` changes them.
        - Running, or past its first step: it keeps the request, and is pending again with it after its success.
        - Succeeded: it starts over, and the given attributes replace the old ones.
        - Ignored: it keeps the request (`effect` is "ignored"), but runs only after a reopen.
        - Cancelled: nothing changes (`effect` is "cancelled").

        This takes one request if it creates the task or changes nothing, otherwise two. After a lost response,
        PynamoDB's error means that the row cannot show whether the request was applied.

        Args:
            task_id: The task id.
            merge: A function of the task and the given attributes, which changes the task. It may be called more than
                once. If it raises, nothing changes.
            due_time: When the run may start, or how long from now. The earlier due time wins. A failed task keeps the
                time of its retry.
            debounce: The given due time wins, even if it is later.
            repeat: A rule for the task. Without a `due_time`, this only sets the rule. A program may set the same rule
                at each start.
            trace: As in `create`, for a new task.
            urgent: Make the next run urgent, as in `create`.
            **attributes: Your own attributes. An existing task keeps its `data`.

        Raises:
            ValueNotStorableError: An attribute cannot be stored, or the row is too small for both requests.
            TaskNotReadyError: Others kept changing the row.
            TypeError: `data` was given together with `merge`.

        Examples:
            >>> assert Order.create_or_merge("o-5").effect == "created"
        """
        from pynamodb_tracker.features.merges import Merge  # noqa: PLC0415 - few cold starts need it

        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(debounce=debounce)
        due_time = arguments.check_due_time(due_time)
        arguments.check_repeat(repeat)
        if debounce and due_time is None:
            raise ValueError("debounce=True moves the due time: give a due_time")
        if merge is not None:
            arguments.check_parameters(merge, "task", "new")
            if "data" in attributes:
                raise TypeError("data cannot be merged: leave it out, or keep the request in other attributes")
        if "state" in attributes:
            raise TypeError("create_or_merge does not take a state: a new task is pending at its first step")
        if "group" in attributes:
            raise TypeError("create_or_merge does not take a group: create a task of the group for each request")
        cls.tracker.use_case  # noqa: B018 - raises a TypeError for the table's class
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

        if (checked := arguments.check_group(name)) is None:
            raise TypeError(f"{cls.__name__}.group takes the name of a group, not None")
        _ = cls.tracker.use_case  # raises a TypeError for the table's class
        return Group(cls, checked)

    @classmethod
    def _code_to_begin_in(cls, state: State[Any], due_time: datetime | timedelta | None, group: str | None) -> int:
        known: object = cls._states.get(getattr(state, "code", -1))
        if known is None or known != state:
            names = [str(each).replace(" ", ".") for each in cls._states.values()]
            meant = next((name for name in names if name == str(state).replace(" ", ".")), names[0])
            raise ValueError(
                f"{arguments.shown(state)} is not a state of {cls.__name__}: write state={cls.__name__}.{meant}"
            )
        if state.status is Status.IN_PROGRESS:
            raise ValueError(f"a task cannot be created as {state}: only a claim puts it in progress")
        if due_time is not None and cls.tracker.ends_at(state.code):
            raise ValueError(f"a task that is {state} is never due: leave due_time out")
        if group is not None and state.status is not Status.PENDING:
            raise ValueError(f"a task of a group begins pending, not as {state}, because it waits for its turn")
        return state.code

    @classmethod
    def create_many(cls, /, tasks: Iterable[str | Mapping[str, Any]], *, threads: int = 1) -> Report:
        """Create many tasks, each from an id or from a mapping of `task_id` and other arguments of `create`.

        New tasks count as succeeded. Tasks that exist or cannot be stored are refused, and existing ones do not change.
        `tasks` is read lazily. Several threads, such as 25, share requests. Tasks of a group keep their order.

        Examples:
            >>> Order.create_many(({"task_id": f"o-{number}"} for number in range(5, 30)), threads=25)
        """
        arguments.check_threads(threads)
        if isinstance(tasks, str | Mapping):
            raise TypeError(
                f"create_many takes an iterable of ids or mappings, not one: write [{arguments.shown(tasks)}]"
            )
        given: object = tasks
        if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
            raise TypeError(f"create_many takes an iterable of ids or mappings, not {arguments.shown(given)}")
        from pynamodb_tracker.work.bulk import report_of_each  # noqa: PLC0415 - for cold starts, which run one task

        def create(_task_id: str, options: dict[str, Any]) -> Literal["succeeded"]:
            cls.create(**options)
            return "succeeded"

        tasks_by_id = ((options["task_id"], options) for options in map(_options_of, tasks))
        return report_of_each(tasks_by_id, create, threads, lambda options: options.get("group"))

    @classmethod
    def get_task(cls, /, task_id: str, *, with_data: bool = True) -> Self:
        """Return the task, strongly consistent, or raise TaskNotFoundError.

        This takes one request, or two if its data or failures are off-row. `with_data=False` leaves `data` out.

        Examples:
            >>> assert Order.get_task("o-2").state == Order.ship.pending
        """
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(with_data=with_data)
        row = transitions.get(cls, task_id)
        if row is not None and with_data:
            row = hydration.fill(cls, {task_id: row}).get(task_id)
        if row is None:
            raise TaskNotFoundError(f"{cls.__name__} {task_id!r} does not exist", task_id=task_id)
        if not with_data:
            hydration.leave_out_data([row])
        return row

    @classmethod
    def get_many(cls, /, task_ids: Iterable[str]) -> list[Self]:
        """Return these tasks in this order, each once and strongly consistent. Missing tasks are left out.

        One request reads 100 tasks, or fewer if they are large:
        https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html

        Examples:
            >>> first, second = Order.get_many(["o-1", "o-2"])
        """
        ids = dict.fromkeys(arguments.check_task_ids("get_many", task_ids))
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

        Args:
            hash_key: The task id.
            range_key: The use case's stored name, by default this class's.
            consistent_read: Whether the read is strongly consistent.
            attributes_to_get: Other attributes read as if they were not stored.

        Examples:
            >>> order = AppTask.get("o-1", "order")
        """
        name = cls.tracker.use_case.name if range_key is None else range_key
        try:
            return super().get(arguments.check_task_id(hash_key), name, consistent_read, attributes_to_get)
        except DoesNotExist as missing:
            missing.msg = f"{cls.__name__} {hash_key!r} does not exist"
            missing.args = (missing.msg,)
            raise

    @classmethod
    def counts(cls, /) -> dict[State[Self], int]:
        """Return how many tasks are in every state, and in codes that no step declares. Eventually consistent.

        This reads the whole index of the table: 1 MB, about 5,000 tasks, per request, on a few threads.

        Examples:
            >>> assert Order.counts()[Order.ship.pending] == 1
        """
        return {state: count.tasks for state, count in counted(cls).items()}

    @classmethod
    def pauses(cls, /) -> list[Pause]:
        """Return the current pauses, in the order of the steps. One strongly consistent read.

        Raises TrackerError with `UseCase(..., pausable=False)`.

        Examples:
            >>> assert [pause.reason for pause in Order.pauses()] == []
        """
        from pynamodb_tracker.control.item import in_force  # noqa: PLC0415 - few use cases are controlled

        return in_force(cls)

    @classmethod
    @arguments.written_as('{0.__name__}.cancel("o-1", reason="the customer moved away")')
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
        """Cancel a task at any step. With a branch step, such as a refund, it ends after that.

        Only `reopen` lets it start again, and cancelling it again is safe. The task stops waiting, and hands on its
        group's turn. This takes two requests or more.

        Args:
            task_id: The task id.
            reason: Why, for `task.cancelled` and `errors`.
            by: Who cancels it, as in `ignore`.
            children: Also cancel the tasks that it waits for, and so on, even if it is already cancelled. One
                transaction cancels up to 100 tasks, where a task of a group counts as four. Beyond that, or with two
                tasks of a group, they are cancelled one by one, the deepest first.
            go_to: A branch step where the task is pending, by default the step with `on_cancel`. After its success, the
                task ends as cancelled.
            even_running: Also cancel running tasks. Nothing more of their runs is recorded, but their blocks are not
                stopped, and in a group the next task starts in the meantime.

        Raises:
            TaskLockedError: A worker is running one of the tasks.
            TaskAlreadySucceededError: The task has ended.
            TaskNotFoundError: The task does not exist.
            TrackerError: Not all children can be cancelled, because they are not listed, or this program does not
                declare their use case. Nothing was changed, or a note says which tasks are cancelled.

        Examples:
            >>> Order.cancel("o-2", reason="the customer moved away", by="ada")
        """
        from pynamodb_tracker.transitions import cancelling  # noqa: PLC0415 - few cold starts need it

        reason, by = arguments.check_reason(reason), arguments.check_name("by", by)
        task_id = arguments.check_task_id(task_id)
        arguments.check_flags(children=children, even_running=even_running)
        given: object = go_to
        codes = given._definition.codes if isinstance(given, BoundStep) else None
        if go_to is not None and (codes is None or codes not in cls.tracker.steps or not codes.branch):
            raise ValueError(f"go_to takes a branch step of {cls.__name__}, not {arguments.shown(go_to)}")
        return cancelling.cancel(cls, task_id, cancelling.Cancel(reason, by, children, codes, even_running))

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
        """Reopen a task at the step at which it was cancelled, failed, or became ignored, and return it.

        A task that is at a branch step because of `cancel` stays cancelled.

        Args:
            task_id: The id of the task.
            by: Who does it, for the task's `errors`.
            due_time: When it is due, by default now, unless it repeats, or waits for others or its turn.
            clear_checkpoints: Repeat the parts that `ctx.checkpoint` has stored.
            urgent: Make it urgent, as in `create`.

        Raises:
            TaskNotStartableError: The task does not exist, or it is in another state.

        Examples:
            >>> Order.cancel("o-2", reason="the customer moved away")
            >>> Order.reopen("o-2", by="ada")
        """
        from pynamodb_tracker.transitions.reopening import reopen_anywhere  # noqa: PLC0415 - as above

        task_id, by = arguments.check_task_id(task_id), arguments.check_name("by", by)
        arguments.check_flags(clear_checkpoints=clear_checkpoints)
        cls.tracker.check_urgent(urgent)
        options = {"clear_checkpoints": clear_checkpoints, "urgent": urgent}
        reopened: Self = reopen_anywhere(cls, task_id, by, arguments.check_time("due_time", due_time), **options)
        return reopened

    @classmethod
    def delete_task(cls, /, task_id: str) -> None:
        """Delete a task that is not in progress. Raises TaskLockedError or TaskNotFoundError.

        Examples:
            >>> Order.delete_task("o-2")
        """
        if transitions.delete(cls, arguments.check_task_id(task_id)):
            from pynamodb_tracker.control.records import remove_schedule  # noqa: PLC0415 - few tasks repeat

            remove_schedule(cls, task_id)

    @classmethod
    def delete_use_case(cls, /, *, threads: int = 1) -> Report:
        """Delete every task of this use case that is not in progress, and its idle groups.

        Deleted tasks count as succeeded, and tasks in progress as refused. If there are none, this also deletes the
        control item. It reads the whole table, and sends one request per task. Several threads, such as 25, share
        requests.

        Examples:
            >>> report = Order.delete_use_case(threads=25)
        """
        arguments.check_threads(threads)
        from pynamodb_tracker.work.bulk import report_of_each  # noqa: PLC0415 - for cold starts, which run one task

        delete_seen = transitions.SeenDeletes(cls).delete

        def delete(task_id: str, seen: dict[str, Any] | None) -> Literal["succeeded"] | None:
            try:
                delete_seen(task_id, seen)
            except TaskNotFoundError:  # another program has deleted it
                return None
            return "succeeded"

        groups: list[str] = []
        report = report_of_each(to_delete(cls, groups), delete, threads)
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
        """Create a task, as `create` does."""
        return cls.create(*args, **options)

    @classmethod
    @async_version_of(create_or_merge)
    def acreate_or_merge(cls, /, *args: Any, **options: Any) -> Merged[Self]:
        """Create or merge a task, as `create_or_merge` does. A thread calls `merge`."""
        return cls.create_or_merge(*args, **options)

    @classmethod
    @async_version_of(create_many)
    def acreate_many(cls, /, *args: Any, **options: Any) -> Report:
        """Create many tasks, as `create_many` does. Once cancelled, it waits for its last requests."""
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
        """Return how many tasks are in every state, as `counts` does."""
        return cls.counts(*args, **options)

    @classmethod
    @async_version_of(pauses)
    def apauses(cls, /, *args: Any, **options: Any) -> list[Pause]:
        """Return the current pauses, as `pauses` does."""
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
        """Delete a task, as `delete_task` does."""
        cls.delete_task(*args, **options)

    @classmethod
    @async_version_of(delete_use_case)
    def adelete_use_case(cls, /, *args: Any, **options: Any) -> Report:
        """Delete tasks, as `delete_use_case` does. Once cancelled, it waits for its last requests."""
        return cls.delete_use_case(*args, **options)


def _options_of(task: object) -> dict[str, Any]:
    if isinstance(task, str):
        return {"task_id": task}
    if not isinstance(task, Mapping):
        raise TypeError(f"create_many takes ids or mappings, not {arguments.shown(task)}: write {{'task_id': ...}}")
    for name in task:
        if not isinstance(name, str):
            raise TypeError(f"create_many takes ids or mappings by name, not one with the key {arguments.shown(name)}")
    if "task_id" not in task:
        raise TypeError(f"create_many takes mappings with a task_id, not {arguments.shown(task)}")
    return dict(task)


def _list_schedule(model: type[Task], task_id: str) -> None:
    from pynamodb_tracker.control.records import add_schedule  # noqa: PLC0415 - few tasks repeat

    add_schedule(model, task_id)
