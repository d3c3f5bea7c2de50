"""A group of tasks that run one at a time."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

from pynamodb_tracker.aio.lazy import awaited, in_thread
from pynamodb_tracker.features.groups.queue import read_queue
from pynamodb_tracker.features.groups.records import data_in
from pynamodb_tracker.features.groups.repair import repair
from pynamodb_tracker.model.arguments import check_limit
from pynamodb_tracker.model.row import TaskRow

T = TypeVar("T", bound=TaskRow)


class Group(Generic[T]):
    """A group of a use case. Each property sends one strongly consistent request when you access it.

    Examples:
        >>> Order.create("o-5", group="customer-7")
        >>> assert Order.group("customer-7").turn == "o-5"
    """

    def __init__(self, model: type[T], name: str) -> None:
        self._model = model
        self.name = name
        """The group's name."""

    @property
    def turn(self) -> str | None:
        """The id of its due, running or failed task, or None while the group is idle."""
        row, _ = read_queue(self._model, self.name, places=0)
        return None if row is None else row.turn

    @property
    def data(self) -> dict[str, Any]:
        """The data that its tasks share. A run changes it by `ctx.group.data`."""
        row, _ = read_queue(self._model, self.name, places=0)
        return {} if row is None else data_in(row.data, self.name)

    def waiting(self, limit: int | None = None) -> list[str]:
        """Return the ids of waiting tasks, in order: all, or the first `limit`.

        Examples:
            >>> assert Order.group("customer-7").waiting(limit=10) == []
        """
        _, places = read_queue(self._model, self.name, places=check_limit("limit", limit))
        return [place.task_id for place in places]

    def repair(self) -> str | None:
        """Hand on a turn if its task has ended or is gone, and return the id of the task with the turn, or None.

        A task with the turn that waits beyond its limit becomes due at that limit. Only another program, or a person in
        the console, can leave a group like that.

        Examples:
            >>> assert Order.group("customer-7").repair() is None
        """
        return repair(self._model, self.name)

    async def aturn(self) -> str | None:
        """Return `turn`."""
        return await in_thread(lambda: self.turn)

    async def adata(self) -> dict[str, Any]:
        """Return `data`."""
        return await in_thread(lambda: self.data)

    awaiting = awaited(waiting)
    arepair = awaited(repair)

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of {self._model.__name__}>"


class GroupOf(Protocol):
    """The type of `group`, which differs between a class and a task."""

    @overload
    def __get__(self, instance: None, owner: type[T]) -> Callable[[str], Group[T]]: ...

    @overload
    def __get__(self, instance: TaskRow, owner: Any) -> str: ...
