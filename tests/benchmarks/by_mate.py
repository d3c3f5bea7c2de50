"""Tasks by the status tracker of pynamodb_mate, as its own documentation shows it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pynamodb_mate.patterns.status_tracker import api as mate

from tests.benchmarks.orders import LOCK_FOR, Change, add_entry
from tests.benchmarks.usage import Operation


class MateOrder(mate.BaseTask):  # type: ignore[misc]  # untyped
    """An order, whose data is in the row, as JSON text."""

    class Meta:
        table_name = "benchmark-mate"
        region = "us-east-1"
        billing_mode = "PAY_PER_REQUEST"

    status_and_update_time_index = mate.StatusAndUpdateTimeIndex()
    config = mate.TrackerConfig.make(
        use_case_id="order",
        pending_status=10,
        in_progress_status=11,
        failed_status=12,
        succeeded_status=20,
        ignored_status=13,
        n_pending_shard=1,
        n_in_progress_shard=1,
        n_failed_shard=1,
        n_succeeded_shard=1,
        n_ignored_shard=1,
        lock_expire_seconds=int(LOCK_FOR.total_seconds()),
    )


class ByMate:
    about = "states, attempts, a lock; strands a task whose worker dies, and queries yield keys unless each is read"
    table = "benchmark-mate"
    keys: tuple[str, ...] = ("key",)

    def __init__(self) -> None:
        MateOrder._connection = None
        self.client: Any = MateOrder._get_connection().connection.client

    def make_table(self) -> None:
        MateOrder.create_table(wait=True)

    def drop_table(self) -> None:
        MateOrder.delete_table()

    def create(self, task_id: str, data: dict[str, Any]) -> None:
        MateOrder.make_and_save(task_id, data=data)

    def run(self, task_id: str, change: Change | None = None) -> None:
        with MateOrder.start(task_id) as ctx:
            if change is not None:
                data = {**ctx.task.data}
                change(data)
                ctx.set_data(data)

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]:
        row = MateOrder.make(task_id, data=data, _status=11, lock="5f2f6f0c9d3b4b0a8a0c3b5f4e1d2c3b").serialize()
        return {**row, "data": {"S": json.dumps(data)}}

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield "create", lambda: self.create("o-1", data)
        yield "run", lambda: self.run("o-1")
        self.create("o-2", data)
        yield "run that adds to data", lambda: self.run("o-2", add_entry)
        self.create("o-3", data)
        yield "failing run", lambda: self._fail("o-3")
        self.create("o-4", data)
        with MateOrder.start("o-4"):
            yield "refused claim", lambda: self._refused("o-4", detailed=False)
            yield "refused, with the reason", lambda: self._refused("o-4", detailed=True)
        for number in range(10):
            MateOrder.make_and_save(f"q-{number}", data=data, _status=12)
        yield "query of 10, whole", lambda: self.oldest(12, 10)

    def oldest(self, status: int, limit: int) -> list[Any]:
        return list(MateOrder.query_by_status(status, limit=limit, auto_refresh=True))

    def _fail(self, task_id: str) -> None:
        with suppress(ConnectionError), MateOrder.start(task_id):
            raise ConnectionError("the printer does not answer")

    def _refused(self, task_id: str, *, detailed: bool) -> None:
        with (
            suppress(mate.TaskIsNotReadyToStartError, mate.TaskLockedError),
            MateOrder.start(task_id, detailed_error=detailed),
        ):
            raise AssertionError("the claim was to be refused")
