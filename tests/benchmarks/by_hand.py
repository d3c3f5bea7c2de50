"""Claim and finish with botocore alone, as somebody writes it who wants nothing but speed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import botocore.config
import botocore.session

from pynamodb_tracker.token import new_token, this_worker
from tests.benchmarks.orders import LOCK_FOR, MARGIN, OrderTable

__all__ = ["ByHand"]

CLAIM = {
    "TableName": OrderTable.Meta.table_name,
    "ConditionExpression": "((#status IN (:pending, :failed) AND due_time <= :soon) OR "
    "(#status = :in_progress AND lock_expire_time < :ago)) AND attempt < :max_attempts AND "
    "(attribute_not_exists(#lock) OR #lock < :token)",
    "UpdateExpression": "SET #status = :in_progress, status_key = :status_key, due_time = :expire, "
    "update_time = :now, attempt = attempt + :one, lock_expire_time = :expire, #lock = :token, worker = :worker, "
    "fence = fence + :one, unfinished[99] = fence + :one, saves = :zero REMOVE expire_time",
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
}
FINISH = {
    "TableName": OrderTable.Meta.table_name,
    "ConditionExpression": "#lock = :token AND #status = :in_progress",
    "UpdateExpression": "SET #status = :pending, status_key = :status_key, due_time = :now, update_time = :now, "
    "attempt = :zero, unfinished = :unfinished REMOVE last_error",
    "ExpressionAttributeNames": {"#status": "status", "#lock": "lock"},
}
FINISH_WITH_DATA = {
    **FINISH,
    "UpdateExpression": str(FINISH["UpdateExpression"]).replace(" REMOVE", ", #data = :data REMOVE"),
    "ExpressionAttributeNames": {"#status": "status", "#lock": "lock", "#data": "data"},
}
FINISH_VALUES = {
    ":in_progress": {"N": "11"},
    ":pending": {"N": "20"},
    ":status_key": {"S": "order#20#0"},
    ":zero": {"N": "0"},
}


class ByHand:
    """Constant expressions, no parameter validation, no models; no attribute is read that is not needed."""

    def __init__(self) -> None:
        config = botocore.config.Config(parameter_validation=False)
        session = botocore.session.get_session()
        self.client: Any = session.create_client("dynamodb", "us-east-1", config=config)

    def run(self, task_id: str, *, change: bool) -> None:
        key = {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}}
        token = {"S": new_token()}
        row = self._claim(key, token)
        values: dict[str, Any] = {
            **FINISH_VALUES,
            ":token": token,
            ":now": stored(datetime.now(UTC)),
            ":unfinished": {"L": row["unfinished"]["L"][:-1]},
        }
        if not change:
            self.client.update_item(Key=key, ExpressionAttributeValues=values, **FINISH)
            return
        data = json.loads(row["data"]["S"])
        data["receipt"] = "r-1"
        values[":data"] = {"S": json.dumps(data, separators=(",", ":"))}
        self.client.update_item(Key=key, ExpressionAttributeValues=values, **FINISH_WITH_DATA)

    def _claim(self, key: Mapping[str, Any], token: Mapping[str, str]) -> dict[str, Any]:
        now = datetime.now(UTC)
        values = {
            **CLAIM_VALUES,
            ":token": token,
            ":worker": {"S": this_worker()},
            ":now": stored(now),
            ":expire": stored(now + LOCK_FOR),
            ":soon": stored(now + MARGIN),
            ":ago": stored(now - MARGIN),
        }
        row: dict[str, Any] = self.client.update_item(Key=key, ExpressionAttributeValues=values, **CLAIM)["Attributes"]
        return row


def stored(moment: datetime) -> dict[str, str]:
    return {"S": moment.strftime("%Y-%m-%dT%H:%M:%S.%f+0000")}
