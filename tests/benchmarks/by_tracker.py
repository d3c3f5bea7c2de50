"""Tasks by this library."""

import linecache
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pynamodb_tracker import TaskNotStartableError
from tests.benchmarks.orders import Change, InRow, Order, OrderTable, add_entry, claimed
from tests.benchmarks.usage import Operation

FILE = "/var/task/orders.py"
"""What tracebacks say: their length would be that of the path of the checkout, and what a failure takes with it."""
linecache.cache[FILE] = (0, None, Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True), FILE)


def fail_below(calls: int) -> None:
    """Fail below that many calls, which alternate: Python shortens a traceback with the same line again and again."""
    if calls:
        _fail_in_turn(calls - 1)
    raise ConnectionError("the printer does not answer")


def _fail_in_turn(calls: int) -> None:
    if calls:
        fail_below(calls - 1)
    raise ConnectionError("the printer does not answer")


class ByTracker:
    about = (
        "states, attempts, a lock that another worker takes over, fencing, whole rows from queries, large data beside"
    )
    table = OrderTable.Meta.table_name
    keys: tuple[str, ...] = ("task_id", "use_case_id")
    order: Any = Order

    def __init__(self) -> None:
        OrderTable.tracker.table.reconnect()
        self.client: Any = OrderTable.tracker.connection().connection.client

    def make_table(self) -> None:
        OrderTable.create_table(wait=True)

    def drop_table(self) -> None:
        OrderTable.delete_table()

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]:
        return claimed(task_id, data)

    def create(self, task_id: str, data: dict[str, Any]) -> None:
        self.order.create(task_id, data=data)

    def run(self, task_id: str, change: Change | None = None) -> None:
        with self.order.ship.start(task_id) as ctx:
            if change is not None:
                change(ctx.task.data)

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield "create", lambda: self.create("o-1", data)
        yield "run", lambda: self.run("o-1")
        self.create("o-2", data)
        yield "run that adds to data", lambda: self.run("o-2", add_entry)
        self.create("o-3", data)
        yield "failing run", lambda: self._fail("o-3")
        self.create("o-5", data)
        yield "failure with a traceback of 2 KB", lambda: self._fail("o-5", 20)
        yield "the same failure again", lambda: self._fail("o-5", 20)
        self.order.delete_task("o-5")  # a query of failed tasks would read its tracebacks
        self.create("o-4", data)
        with self.order.ship.start("o-4"):
            yield "refused claim", lambda: self._refused("o-4", detailed=False)
            yield "refused, with the reason", lambda: self._refused("o-4", detailed=True)
        for number in range(10):
            self.order.create(f"q-{number}", state=self.order.ship.failed, data=data)
        yield "query of 10, whole", lambda: list(self.order.ship.failed.query(limit=10))

    def _fail(self, task_id: str, depth: int = 0) -> None:
        with self.order.ship.start(task_id, skip_error=True):
            fail_below(depth)

    def _refused(self, task_id: str, *, detailed: bool) -> None:
        with suppress(TaskNotStartableError), self.order.ship.start(task_id, detailed_error=detailed):
            raise AssertionError("the claim was to be refused")


class ByTrackerInRow(ByTracker):
    """The same with all of its data in the row, as the other ways have it."""

    order = InRow


for function in (fail_below, _fail_in_turn, ByTracker._fail):
    function.__code__ = function.__code__.replace(co_filename=FILE)
