"""What DynamoDB asks of IAM for a request, and what a policy allows: both as pairs of an action and a resource."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self
from unittest import mock

from botocore.client import BaseClient


@dataclass(frozen=True, order=True)
class Permission:
    action: str
    on: Literal["table", "index"]

    @property
    def is_for_batches(self) -> bool:
        """Whether it saves requests, and nothing else: without it, writes are sent one by one."""
        return self.action.startswith("dynamodb:PartiQL")


_OF_ITS_OWN = {
    *("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"),
    *("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"),
}
"""Operations on one table for which IAM has an action of the same name, which is all that they need."""

_IN_TRANSACTIONS = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html"""


_VERB = re.compile(r"INSERT|UPDATE|DELETE")
"""What a PartiQL statement begins with; IAM has an action of that name.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-iam.html
"""


def _needed(operation: str, request: Mapping[str, Any], table: str) -> Iterator[Permission]:
    """Yield the permissions of a request on this table; those on other tables are not the tracker's to give."""
    if operation == "TransactWriteItems":
        for kind, part in (each for item in request["TransactItems"] for each in item.items()):
            if part["TableName"] == table:
                yield Permission(f"dynamodb:{_IN_TRANSACTIONS[kind]}", "table")
    elif operation == "BatchGetItem":
        if table in request["RequestItems"]:
            yield Permission("dynamodb:BatchGetItem", "table")
    elif operation == "BatchExecuteStatement":
        verbs = (_VERB.match(each["Statement"]) for each in request["Statements"] if f'"{table}"' in each["Statement"])
        yield from (Permission(f"dynamodb:PartiQL{verb[0].title()}", "table") for verb in verbs if verb)
    elif operation in _OF_ITS_OWN:
        if request["TableName"] == table:
            yield Permission(f"dynamodb:{operation}", "index" if "IndexName" in request else "table")
    else:
        raise AssertionError(f"which permissions does {operation} need?")


@dataclass
class Record:
    """What is sent to a table while this is entered, by any client of the process."""

    table: str
    permissions: set[Permission] = field(default_factory=set)
    operations: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        send = BaseClient._make_api_call

        def sent(client: BaseClient, operation: str, request: Mapping[str, Any]) -> Any:
            needed = {*_needed(operation, request, self.table)}
            self.permissions |= needed
            self.operations |= {operation} if needed else set()
            return send(client, operation, request)

        self._patch = mock.patch.object(BaseClient, "_make_api_call", sent)
        self._patch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.stop()


def allowed(document: Mapping[str, Any], table_arn: str) -> set[Permission]:
    """Return what a policy document allows; what else it names is an error."""
    places: dict[str, Literal["table", "index"]] = {table_arn: "table", f"{table_arn}/index/status-index": "index"}
    return {
        Permission(action, places[resource])
        for statement in document["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def listed(value: str | list[str]) -> list[str]:
    """Return the entries of an element of a statement, which may be one."""
    return [value] if isinstance(value, str) else value
