"""The constant parts of the requests that are written by hand."""

from typing import Any

TABLE = "benchmark-by-hand"
INDEX = "status-index"
PROJECTED = ["status", "attempt", "create_time", "update_time", "last_error"]


def moved(state: str) -> dict[str, Any]:
    return {"status": {"N": state}, "status_key": {"S": f"order#{state}#0"}}


def _key(*names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=True)]


CREATE_TABLE: dict[str, Any] = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": _key("task_id", "use_case_id"),
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": "S"} for name in ("task_id", "use_case_id", "status_key", "due_time")
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": INDEX,
            "KeySchema": _key("status_key", "due_time"),
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": PROJECTED},
        }
    ],
}
NEW: dict[str, Any] = {"attempt": {"N": "0"}, "fence": {"N": "0"}, "unfinished": {"L": []}, "v": {"N": "1"}}
CREATE: dict[str, Any] = {"TableName": TABLE, "ConditionExpression": "attribute_not_exists(task_id)"}
CLAIM: dict[str, Any] = {
    "TableName": TABLE,
    "ConditionExpression": "((#status IN (:pending, :failed) AND due_time <= :soon) OR "
    "(#status = :in_progress AND lock_expire_time < :ago)) AND attempt < :max_attempts AND "
    "(attribute_not_exists(#lock) OR #lock < :token) AND v <= :latest",
    "UpdateExpression": "SET #status = :in_progress, status_key = :status_key, due_time = :expire, "
    "update_time = :now, attempt = attempt + :one, lock_expire_time = :expire, #lock = :token, worker = :worker, "
    "fence = fence + :one, unfinished[9999] = fence + :one, saves = :zero REMOVE expire_time",
    "ExpressionAttributeNames": {"#status": "status", "#lock": "lock"},
    "ReturnValues": "ALL_NEW",
}
CLAIM_VALUES = {
    ":pending": {"N": "10"},
    ":failed": {"N": "12"},
    ":in_progress": {"N": "11"},
    ":max_attempts": {"N": "3"},
    ":status_key": {"S": "order#11#0"},
    ":zero": {"N": "0"},
    ":one": {"N": "1"},
    ":latest": {"N": "1"},
}
WITH_ROW = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
FINISH: dict[str, Any] = {
    "TableName": TABLE,
    "ConditionExpression": "#lock = :token AND #status = :in_progress",
    "UpdateExpression": "SET #status = :pending, status_key = :status_key, due_time = :now, update_time = :now, "
    "attempt = :zero, unfinished = :unfinished REMOVE last_error, release_count",
    "ExpressionAttributeNames": {"#status": "status", "#lock": "lock"},
}
FINISH_WITH_DATA: dict[str, Any] = {
    **FINISH,
    "UpdateExpression": FINISH["UpdateExpression"].replace(" REMOVE", ", #data = :data REMOVE"),
    "ExpressionAttributeNames": {"#status": "status", "#lock": "lock", "#data": "data"},
}
FINISH_VALUES = {
    ":in_progress": {"N": "11"},
    ":pending": {"N": "20"},
    ":status_key": {"S": "order#20#0"},
    ":zero": {"N": "0"},
}
FAIL: dict[str, Any] = {
    **FINISH,
    "UpdateExpression": "SET #status = :failed, status_key = :status_key, due_time = :now, update_time = :now, "
    "last_error = :error",
}
FAIL_VALUES = {
    ":in_progress": {"N": "11"},
    ":failed": {"N": "12"},
    ":status_key": {"S": "order#12#0"},
    ":error": {"S": "ConnectionError: the printer does not answer"},
}
QUERY: dict[str, Any] = {
    "TableName": TABLE,
    "IndexName": INDEX,
    "KeyConditionExpression": "status_key = :status_key",
    "ProjectionExpression": "task_id, use_case_id",
}
