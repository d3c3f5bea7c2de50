"""What an operation used: its requests, and the units that dynoxide reports for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Operation = tuple[str, Callable[[], object]]

WRITES = {"UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem", "BatchExecuteStatement"}
READS = {"GetItem", "BatchGetItem", "Query", "Scan"}


@dataclass
class Usage:
    requests: int = 0
    write_units: float = 0
    read_units: float = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    """Keys or items of writes whose condition did not hold: the engine does not say what they used."""
    _params: dict[str, Any] = field(default_factory=dict)

    def ask(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in WRITES | READS:
            params.setdefault("ReturnConsumedCapacity", "TOTAL")
            self._params = params

    def count(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        self.requests += 1
        if "Error" in parsed:
            self.refused.append(self._params.get("Key") or self._params["Item"])
            return
        if model.name == "BatchExecuteStatement":  # each refused write is one of a row of up to 1 KB
            self.write_units += sum("Error" in each for each in parsed["Responses"])
        used = parsed.get("ConsumedCapacity", [])
        units = sum(part["CapacityUnits"] for part in (used if isinstance(used, list) else [used]))
        if model.name in WRITES:
            self.write_units += units
        else:
            self.read_units += units


def usages(
    client: Any, table: str, keys: tuple[str, ...], operations: Iterator[Operation]
) -> Iterator[tuple[str, Usage]]:
    """Yield what each operation used; `keys` are the names of the key attributes of the table.

    AWS charges a refused write by the size of the row that is there; so a write of that row that changes nothing is
    made, and what it used is counted for the refused one.
    """
    for name, operate in operations:
        usage = Usage()
        client.meta.events.register("provide-client-params.dynamodb", usage.ask)
        client.meta.events.register("after-call.dynamodb", usage.count)
        try:
            operate()
        finally:
            client.meta.events.unregister("after-call.dynamodb", usage.count)
            client.meta.events.unregister("provide-client-params.dynamodb", usage.ask)
        for item in usage.refused:
            answer = client.update_item(
                TableName=table,
                Key={key: item[key] for key in keys},
                UpdateExpression="SET #status = #status",
                ExpressionAttributeNames={"#status": "status"},
                ReturnConsumedCapacity="TOTAL",
            )
            usage.write_units += answer["ConsumedCapacity"]["CapacityUnits"]
        yield name, usage
