"""PynamoDB's own methods of a row: reads leave overflow chunks out, and writes are guarded or refused."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pynamodb.attributes import MapAttribute
from pynamodb.exceptions import TableError
from pynamodb.expressions.condition import And, Condition
from pynamodb.expressions.operand import Path, _Operand
from pynamodb.expressions.update import Action
from pynamodb.pagination import ResultIterator

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.model.arguments import did_you_mean, named_as, shown
from pynamodb_tracker.model.changes import changes_of
from pynamodb_tracker.model.overflow import CHUNK, GROUP_OF
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import key_differences
from pynamodb_tracker.model.serialization import check_map

_PAUSE = 2.0  # seconds until the next look at a table that is being created
_INDEX_NAME = 6  # its position after the first argument of PynamoDB's `scan`

_NOT_FOR_TASKS = frozenset(
    {
        "batch_write",
        "from_dynamodb_dict",
        "from_simple_dict",
        "get_delete_kwargs_from_instance",
        "get_operation_kwargs_from_class",
        "get_save_kwargs_from_instance",
        "save",
        "update_local_version_attribute",
        "update_ttl",
    }
)
"""PynamoDB's public names that raise for a task, or serve only PynamoDB."""


def offered(names: Iterable[str]) -> list[str]:
    """Return the names for `dir`, which shells and notebooks offer."""
    return [name for name in names if name not in _NOT_FOR_TASKS and (name[0] != "_" or name.endswith("__"))]


@named_as("Task")
class GuardedRow(TaskRow):
    """A row that refuses direct writes of its status, and assignments that nothing would save."""

    @classmethod
    def create_table(cls, wait: bool = False, *args: Any, **options: Any) -> None:  # noqa: FBT001, FBT002 - PynamoDB's
        """Create the table as its class declares it. An existing table is not changed.

        Raises TableError if an existing table has other keys or lacks an index. With `wait`, it returns once the table
        is active. It is on demand, unless Meta or the call sets `read_capacity_units` and `write_capacity_units`.

        Examples:
            >>> AppTask.create_table(wait=True)
        """
        if not cls.exists():
            if {"read_capacity_units", "write_capacity_units"} & options.keys():
                options = {"billing_mode": "PROVISIONED"} | options
            super().create_table(wait, *args, **options)
        table = cls.tracker.connection()
        described = table.describe_table()
        differences = ", ".join(key_differences(cls._get_schema(), described))
        if differences:
            raise TableError(
                f"the table {table.table_name!r} exists, but not as {cls.tracker.table.owner.__name__} declares it: "
                f"{differences}. Nothing was changed: use another table_name, or run pynamodb-tracker doctor"
            )
        while wait and described["TableStatus"] != "ACTIVE":
            clock.sleep(_PAUSE)
            described = table.describe_table()

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
        """Query rows as PynamoDB does, without overflow chunks.

        Args:
            hash_key: The task id.
            range_key_condition: A condition on the use case's name.
            filter_condition: A condition on other attributes. Rows that it leaves out cost, too.
            consistent_read: Whether the read is strongly consistent.
            index_name: An index to use instead of the table.

        Examples:
            >>> [order] = AppTask.query("o-1")
        """
        rows = filter_condition if index_name else _without_chunks(filter_condition)
        return super().query(hash_key, range_key_condition, rows, consistent_read, index_name, *args, **options)

    @classmethod
    def scan(cls, filter_condition: Condition | None = None, *args: Any, **options: Any) -> ResultIterator[Self]:
        """Scan the rows of all use cases as PynamoDB does, without overflow chunks.

        Examples:
            >>> ids = {task.task_id for task in AppTask.scan()}
        """
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
        """Count rows as PynamoDB does.

        Args:
            hash_key: The task id. Without it, the table's approximate count of all items is returned.
            range_key_condition: A condition on the use case's name.
            filter_condition: A condition on other attributes. Rows that it leaves out cost, too.
            consistent_read: Whether the read is strongly consistent.
            index_name: An index to use instead of the table.

        Examples:
            >>> assert AppTask.count("o-1") == 1
        """
        rows = filter_condition if index_name or hash_key is None else _without_chunks(filter_condition)
        return super().count(hash_key, range_key_condition, rows, consistent_read, index_name, *args, **options)

    def update(self, actions: list[Action], condition: Condition | None = None, **options: Any) -> Any:
        """Update your own attributes as PynamoDB's `update` does, and read the row again.

        Raises TypeError for other attributes, or if that would discard unsaved assignments.

        Examples:
            >>> Order.get_task("o-1").update([Order.tracking_no.set("T-1")])
        """
        self._check_unchanged("update")
        return super().update(actions, self._updatable(actions, condition), **options)

    def get_update_kwargs_from_instance(
        self, actions: list[Action], condition: Condition | None = None, *args: Any, **options: Any
    ) -> dict[str, Any]:
        """Return the update of your own attributes for a transaction. The row must exist."""
        return super().get_update_kwargs_from_instance(actions, self._updatable(actions, condition), *args, **options)

    def refresh(self, consistent_read: bool = False) -> None:  # noqa: FBT001, FBT002 - PynamoDB's signature
        """Read the row again, as PynamoDB's `refresh` does. Raises TypeError if that would discard assignments.

        Examples:
            >>> order = Order.create("o-5")
            >>> order.refresh()
        """
        self._check_unchanged("refresh")
        super().refresh(consistent_read)

    def _check_unchanged(self, method: str) -> None:
        if "_row_state" in vars(self) and (changes := changes_of(self)):
            raise TypeError(
                f"{type(self).__name__}.{method} would discard the new {', '.join(changes)}: in a run, call ctx.save() "
                "first"
            )

    def _updatable(self, actions: Sequence[Action], condition: Condition | None) -> Condition:
        own = {attribute.attr_name: (name, attribute) for name, attribute in self.tracker.own_attributes.items()}
        if not (isinstance(actions, list | tuple) and all(isinstance(action, Action) for action in actions)):
            raise TypeError(
                f"{type(self).__name__}.update takes a list of actions, not {shown(actions)}: write "
                f"[{type(self).__name__}.{next(iter(own))}.set(...)]"
            )
        for action in actions:
            path: Any = action.values[0]  # the written path
            name = path.path[0].partition("[")[0]
            if name not in own:
                raise TypeError(
                    f"{type(self).__name__}.update cannot write {name!r}, only your own attributes. A step's start, "
                    f"reopen and ignore change a status{did_you_mean(name, own)}"
                )
            for value in _values_in(action):
                check(type(self).__name__, *own[name], value)
        exists: Condition = TaskRow.task_id.exists()
        return exists if condition is None else And(exists, condition)

    def delete(self, condition: Condition | None = None, **options: Any) -> None:
        """Delete this task, as `delete_task` does. Raises TypeError for a condition.

        Examples:
            >>> Order.get_task("o-1").delete()
        """
        if condition is not None or options:
            raise TypeError(
                f"{type(self).__name__}.delete does not take a condition: it never deletes a task in progress"
            )
        if self.use_case_id != self.tracker.use_case.name:
            raise TypeError(f"{self.task_id!r} is a task of {self.use_case_id!r}, not of {type(self).__name__}")
        task: Any = self
        task.delete_task(self.task_id)

    def save(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, because saving a stale row would break the lock."""
        raise TypeError(
            f"{type(self).__name__}.save() would overwrite later writes of workers: use create() for a new task, "
            "ctx.save() in a run, and update([...]) for your own attributes"
        )

    def get_save_kwargs_from_instance(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, because a transaction cannot create or overwrite a task."""
        name = type(self).__name__
        raise TypeError(
            f"a transaction cannot save tasks: use {name}.create(...) before it, or ctx.create({name}, ...) and "
            "ctx.transaction(succeed=True) in a run"
        )

    def get_delete_kwargs_from_instance(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, because a transaction could not say why it refuses a delete."""
        raise TypeError(f"a transaction cannot delete tasks: use {type(self).__name__}.delete_task(...)")

    def from_dynamodb_dict(self, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, because the changes of a row that was never read are unknown."""
        raise TypeError(f"a {type(self).__name__} cannot be filled by hand: read it by get_task or a query")

    from_simple_dict = from_dynamodb_dict

    @classmethod
    def batch_write(cls, *_args: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError, because BatchWriteItem does not check conditions, and could delete tasks in progress."""
        raise TypeError(
            f"{cls.__name__}.batch_write does not check conditions: use create_many, delete_task or delete_use_case"
        )

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), attribute_values=copy(self.attribute_values))
        if "_row_state" in vars(self):
            vars(other)["_row_state"] = copy(self._row_state)
        return other

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    if not TYPE_CHECKING:  # type checkers would take it as permission to assign any name

        def __setattr__(self, name: str, value: object) -> None:
            # The errors have no `name` and `obj`, because Python would then suggest the library's names.
            if self._row_state.closed and not name.startswith("_"):
                raise AttributeError(
                    f"{type(self).__name__}.{name} of {self.task_id!r} is assigned too late, because a transaction has "
                    "recorded the success: assign it before the commit"
                )
            if "_row_state" in vars(self) and not (name.startswith("_") or self._is_assignable(name)):
                raise AttributeError(f"{type(self).__name__}.{name} {self._why_not(name)}")
            if isinstance(value, Mapping) and isinstance(attribute := self.get_attributes().get(name), MapAttribute):
                check_map(type(self).__name__, name, attribute, value)
            super().__setattr__(name, value)

    def _why_not(self, name: str) -> str:
        if name in ("state", "status"):
            step = f"{type(self).__name__}.{next(iter(self._bound_steps), 'ship')}"
            return f"changes when a step runs: use {step}.run(...) or {step}.start(...), {step}.reopen or {step}.ignore"
        why = "is written only by the tracker" if name in self.tracker_attributes else "is not declared"
        return f"{why}{did_you_mean(name, self.tracker.own_attributes)}"

    def _is_assignable(self, name: str) -> bool:
        if name in self.get_attributes():
            return name not in self.tracker_attributes
        return name != "state" and hasattr(getattr(type(self), name, None), "__set__")  # or a property of the user's


def _without_chunks(condition: Condition | None) -> Condition:
    """Let a filter skip overflow chunks and records of groups, which are in no index."""
    no_chunk: Condition = TaskRow.status.exists() | (Path(CHUNK).does_not_exist() & Path(GROUP_OF).does_not_exist())
    return no_chunk if condition is None else And(no_chunk, condition)


def _values_in(operand: Any) -> Iterator[dict[str, Any]]:
    for value in operand.values:
        if isinstance(value, dict):
            yield value
        elif isinstance(value, _Operand):
            yield from _values_in(value)
