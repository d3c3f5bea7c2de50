"""Tables made by hand, with one defect each, and answers of DynamoDB that no server here gives."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.stub import Stubber

from pynamodb_tracker import Task
from pynamodb_tracker.doctor import Finding, Severity, examine
from tests.support.engines import is_moto

Answer = Mapping[str, Any] | str | None

PROJECTED = ["status", "attempt", "create_time", "update_time", "last_error"]

_TABLE: dict[str, Any] = {
    "AttributeDefinitions": {"task_id": "S", "use_case_id": "S", "status_key": "S", "due_time": "S", "customer": "S"},
    "KeySchema": ["task_id", "use_case_id"],
    "GlobalSecondaryIndexes": {
        "status-index": (["status_key", "due_time"], {"ProjectionType": "INCLUDE", "NonKeyAttributes": PROJECTED}),
        "by-customer": (["customer"], {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["amount"]}),
    },
}


def by_hand() -> dict[str, Any]:
    """Return the table of a shop as a template would declare it, in short, to be changed."""
    return copy.deepcopy(_TABLE)


def projecting(*names: str) -> dict[str, Any]:
    table = by_hand()
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(names)}
    table["GlobalSecondaryIndexes"]["status-index"] = (["status_key", "due_time"], projection)
    return table


def client(model: type[Task]) -> Any:
    return model.tracker.connection().connection.client


def make(model: type[Task], table: Mapping[str, Any], *, expire: str | None = "expire_time") -> None:
    """Create the table again; `expire` is the attribute of its time to live."""
    name, capacity = model.Meta.table_name, table.get("ProvisionedThroughput")
    throughput = {"ProvisionedThroughput": capacity} if capacity else {}
    billing = throughput or {"BillingMode": "PAY_PER_REQUEST"}
    client(model).delete_table(TableName=name)
    client(model).create_table(
        TableName=name,
        AttributeDefinitions=[
            {"AttributeName": each, "AttributeType": kind} for each, kind in table["AttributeDefinitions"].items()
        ],
        KeySchema=_keys(table["KeySchema"]),
        GlobalSecondaryIndexes=[
            {"IndexName": index, "KeySchema": _keys(keys), "Projection": projection, **throughput}
            for index, (keys, projection) in table["GlobalSecondaryIndexes"].items()
        ],
        **billing,
    )
    if expire:
        specification = {"Enabled": True, "AttributeName": expire}
        client(model).update_time_to_live(TableName=name, TimeToLiveSpecification=specification)


def _keys(names: list[str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def there(model: type[Task]) -> dict[str, Any]:
    described: dict[str, Any] = client(model).describe_table(TableName=model.Meta.table_name)["Table"]
    for each in (described, *described.get("GlobalSecondaryIndexes", ())):  # botocore's description of it has no 0
        each.get("ProvisionedThroughput", {}).pop("NumberOfDecreasesToday", None)
    return described


def settings(model: type[Task]) -> dict[str, Any] | None:
    """Return all that a test may change about a table, its rows included; None where there is none."""
    name, asked = model.Meta.table_name, client(model)
    try:
        table = there(model)
    except asked.exceptions.ResourceNotFoundException:
        return None
    made = {key: part for key, part in table.items() if key not in {"CreationDateTime", "TableId", "TableSizeBytes"}}
    made["TimeToLive"] = asked.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if is_moto(model):  # dynoxide has no backups
        made["Backups"] = asked.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    return made


@contextmanager
def answering(
    model: type[Task], *, table: Answer = None, time_to_live: Answer = None, backups: Answer = None
) -> Iterator[None]:
    """Let DynamoDB answer once as it does now, but for these parts, or with an error of this code.

    A part that is None is left out; botocore refuses one that its model of the answer does not have.
    """
    live = client(model).describe_time_to_live(TableName=model.Meta.table_name)["TimeToLiveDescription"]
    enabled = {"ContinuousBackupsStatus": "ENABLED"}
    answers: list[tuple[str, str, Mapping[str, Any], Answer]] = [
        ("describe_table", "Table", there(model), table),
        ("describe_time_to_live", "TimeToLiveDescription", live, time_to_live),
        ("describe_continuous_backups", "ContinuousBackupsDescription", enabled, backups),
    ]
    with Stubber(client(model)) as stub:
        for operation, about, real, changed in answers:
            if isinstance(changed, str):
                stub.add_client_error(operation, changed, "this is\nwhy")
            else:
                answer = {**real, **(changed or {})}
                stub.add_response(operation, {about: {key: part for key, part in answer.items() if part is not None}})
        yield


def worse(model: type[Task]) -> list[Finding]:
    return [finding for finding in examine(model) if finding.severity is not Severity.ADVICE]


def one(model: type[Task], subject: str) -> Finding:
    (finding,) = [finding for finding in examine(model) if finding.subject == subject]
    return finding


def subjects(model: type[Task]) -> set[str]:
    return {finding.subject for finding in examine(model)}
