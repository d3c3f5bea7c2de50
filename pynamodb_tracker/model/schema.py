"""What a class of tasks declares, for the rest of the library: its table, its use case, its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pynamodb.attributes import Attribute
from pynamodb.connection.table import TableConnection

from pynamodb_tracker.exceptions import LockLostError, TrackerError
from pynamodb_tracker.model.overflow import Kind, Pointer, items, read
from pynamodb_tracker.model.use_case import UseCase
from pynamodb_tracker.status import END, Codes, name_of

if TYPE_CHECKING:
    from pynamodb_tracker.model.row import TaskRow
    from pynamodb_tracker.model.table import Table

__all__ = ["Schema"]

_MARGIN = timedelta(seconds=2)


class Schema:
    """One object per class, so that a class of tasks reserves one name, `tracker`, for all of this."""

    def __init__(
        self, model: type[TaskRow], table: Table | None, use_case: UseCase | None = None, steps: Iterable[Codes] = ()
    ) -> None:
        self._model = model
        self._use_case = use_case
        self._table = table
        self.steps = tuple(steps)
        """The steps in the order in which they run."""
        self._ends = {END, *(codes.ignored for codes in self.steps)}

    @property
    def has_table(self) -> bool:
        """Whether a Meta was declared, here or above."""
        return self._table is not None

    @property
    def table(self) -> Table:
        """The table; a TypeError on Task itself, which has none."""
        if self._table is None:
            raise TypeError(f"{self._model.__name__} has no table: derive a class with class Meta: table_name = ...")
        return self._table

    @property
    def use_case(self) -> UseCase:
        """The use case; a TypeError on the table class, which has none."""
        if self._use_case is None:
            name = self._model.__name__
            raise TypeError(f"{name} is not a use case: call this on a class with use_case_id = UseCase(...)")
        return self._use_case

    @property
    def margin(self) -> timedelta:
        """How far the clocks of workers may differ: `Meta.clock_margin`, 2 seconds unless set."""
        margin: timedelta = getattr(self.table.owner.Meta, "clock_margin", _MARGIN)
        return margin

    def connection(self) -> TableConnection:
        """Return the connection of the table."""
        return self.table.connection()

    def key(self, task_id: str) -> dict[str, dict[str, str]]:
        """Return the stored key of a task of this use case."""
        return {"task_id": {"S": task_id}, "use_case_id": {"S": self.use_case.name}}

    def read_beside(self, row: TaskRow, kind: Kind, pointer: Pointer) -> str:
        """Return a text that lies beside a row; a LockLostError where it was written again since the row was read."""
        place = ((row.task_id, row.use_case_id), kind)
        texts = read(self.connection(), {place: pointer})
        if texts:
            return texts[place]
        told = f"the {kind} of {self._model.__name__} {row.task_id!r}"
        now = next(items(self.connection(), [self.key(row.task_id)]), {})
        if pointer.stored() in (now.get("data"), now.get("errors_beside")):
            raise TrackerError(f"{told} are not whole: of their pieces beside the row, at least one is missing")
        raise LockLostError(
            f"{told} were written again since this row was read: a run that sees this has lost its lock; everybody "
            "else reads the task again",
            task_id=row.task_id,
        )

    def own_attributes(self) -> Iterator[tuple[str, Attribute[Any]]]:
        """Yield the user's attributes by name, `data` included."""
        attributes = self._model.get_attributes().items()
        return ((name, attribute) for name, attribute in attributes if name not in self._model.tracker_attributes)

    def ends_at(self, code: int) -> bool:
        """Tell whether a task in this state is finished: succeeded at its last step, or ignored."""
        return code in self._ends

    def name_of(self, code: int) -> str:
        """Return a state in words, `ship pending`."""
        return name_of(code, self.steps)
