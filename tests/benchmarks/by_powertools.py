"""Runs by the idempotency utility of Powertools for AWS Lambda: the answer of a call is stored, and given again."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from tests.benchmarks.orders import LOCK_FOR, Change, add_entry
from tests.benchmarks.usage import Operation


class ByPowertools:
    """The function that it wraps returns what a run of the others adds to data; there is nothing to create before."""

    about = "stores the answer of a call, and gives it again; no create, no attempts, no states, no query, no fencing"
    table = "benchmark-powertools"
    keys: tuple[str, ...] = ("id",)

    def __init__(self) -> None:
        milliseconds = int(LOCK_FOR.total_seconds() * 1000)
        context = SimpleNamespace(get_remaining_time_in_millis=lambda: milliseconds)
        layer = DynamoDBPersistenceLayer(table_name=self.table)
        self.client: Any = layer.client
        config = IdempotencyConfig(event_key_jmespath="id", lambda_context=context)
        wrapped = idempotent_function(data_keyword_argument="order", persistence_store=layer, config=config)
        self._call = wrapped(self._work)
        self._data: dict[str, dict[str, Any]] = {}
        self._inside: Callable[[dict[str, Any]], None] = nothing
        self._answer: dict[str, Any] = {}

    def make_table(self) -> None:
        self.client.create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def drop_table(self) -> None:
        self.client.delete_table(TableName=self.table)

    def create(self, task_id: str, data: dict[str, Any]) -> None:
        """Keep the data for the run: nothing is stored before."""
        self._data[task_id] = data

    def run(self, task_id: str, change: Change | None = None) -> None:
        self._answer = {}
        if change is not None:
            self._answer = {**self._data.get(task_id, {})}
            change(self._answer)
        self._call(order={"id": task_id})

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]:
        """Keep the data for the run; no answer to a request has the row in it."""
        self.create(task_id, data)
        return {}

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield "run", lambda: self.run("o-1")
        self.create("o-2", data)
        yield "run that adds to data", lambda: self.run("o-2", add_entry)
        yield "failing run", lambda: self._fail("o-3")
        self._hold("o-4")
        yield "refused, with the reason", lambda: self._refused("o-4")

    def _work(self, order: dict[str, Any]) -> dict[str, Any]:
        self._inside(order)
        return self._answer

    def _hold(self, task_id: str) -> None:
        """Leave the row as a call in progress has it, and no call."""
        seen: list[dict[str, Any]] = []
        self._inside = lambda _: seen.extend(self.client.scan(TableName=self.table)["Items"])
        self.run(task_id)
        self._inside = nothing
        (held,) = [item for item in seen if item["status"]["S"] == "INPROGRESS"]
        self.client.put_item(TableName=self.table, Item=held)

    def _fail(self, task_id: str) -> None:
        self._inside = fail
        with suppress(ConnectionError):
            self.run(task_id)
        self._inside = nothing

    def _refused(self, task_id: str) -> None:
        with suppress(IdempotencyAlreadyInProgressError):
            self.run(task_id)
            raise AssertionError("the call was to be refused")


def fail(_: dict[str, Any]) -> None:
    raise ConnectionError("the printer does not answer")


def nothing(_: dict[str, Any]) -> None:
    """Do nothing: what is measured is what is around a block."""
