"""Reads and writes rows directly, to check them or to store values that the library never writes."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pynamodb_tracker import Task
from pynamodb_tracker.clock import NEVER, stamp

Item = dict[str, Any]


def client(table: type[Task]) -> Any:
    return table._get_connection().connection.client


def all_rows(table: type[Task], **options: str) -> Iterator[Item]:
    request: Item = {"TableName": table.Meta.table_name, "ConsistentRead": True, **options}
    while True:
        answer = client(table).scan(**request)
        yield from answer["Items"]
        if not (start := answer.get("LastEvaluatedKey")):
            return
        request["ExclusiveStartKey"] = start


def keys(table: type[Task]) -> Iterator[Item]:
    return all_rows(table, ProjectionExpression="task_id, use_case_id")


def stored(use_case: type[Task], task_id: str) -> Item:
    answer = client(use_case).get_item(
        TableName=use_case.Meta.table_name, Key=_key(use_case, task_id), ConsistentRead=True
    )
    item: Item = answer["Item"]
    return item


def off_row_items(use_case: type[Task], task_id: str) -> dict[str, Item]:
    """Return what is stored of a task beside its row, by range key."""
    request: Item = {
        "TableName": use_case.Meta.table_name,
        "KeyConditionExpression": "task_id = :id AND begins_with(use_case_id, :prefix)",
        "ExpressionAttributeValues": {":id": {"S": task_id}, ":prefix": {"S": use_case.tracker.use_case.prefix}},
        "ConsistentRead": True,
    }
    return {item["use_case_id"]["S"]: item for item in client(use_case).query(**request)["Items"]}


def put(table: type[Task], item: Item) -> None:
    client(table).put_item(TableName=table.Meta.table_name, Item=item)


def change(use_case: type[Task], task_id: str, **attributes: Item | None) -> None:
    """Replace values in a stored row. None removes one."""
    item = {**stored(use_case, task_id), **attributes}
    put(use_case, {name: value for name, value in item.items() if value is not None})


def remove(table: type[Task], key: Item) -> None:
    client(table).delete_item(TableName=table.Meta.table_name, Key=key)


def park(use_case: type[Task], task_id: str, waits: int, until: datetime = NEVER) -> None:
    """Let a pending task wait for others, optionally with a time limit."""
    at_latest = {} if until == NEVER else {"wait_until": {"S": stamp(until)}}
    change(use_case, task_id, blockers={"N": str(waits)}, due_time={"S": stamp(until)}, **at_latest)


def index_entries(use_case: type[Task]) -> list[Item]:
    answer = client(use_case).scan(TableName=use_case.Meta.table_name, IndexName="status-index")
    entries: list[Item] = answer["Items"]
    return entries


def item_bytes(item: Item) -> int:
    """Return an item's approximate size: its names, texts and digits."""
    total = 0
    for name, value in item.items():
        ((kind, content),) = value.items()
        total += len(name.encode())
        total += sum(item_bytes({"": entry}) for entry in content) if kind == "L" else 0
        total += item_bytes(content) if kind == "M" else 0
        total += len(content.encode()) if isinstance(content, str) else 0
    return total


def _key(use_case: type[Task], task_id: str) -> Item:
    return {"task_id": {"S": task_id}, "use_case_id": {"S": use_case.tracker.use_case.name}}


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value
