"""Tasks by botocore alone, as somebody writes it who wants nothing but speed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import botocore.config
import botocore.session

from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.writes.lock import new_token
from tests.benchmarks import by_hand_requests as requests
from tests.benchmarks.orders import LOCK_FOR, MARGIN, Change, add_entry, claimed
from tests.benchmarks.usage import Operation


class ByHand:
    """Constant expressions, no parameter validation, no models; no attribute is read that is not needed."""

    about = "the same two requests and index as the library; data in the row, no retries of its own, no error records"
    table = requests.TABLE
    keys: tuple[str, ...] = ("task_id", "use_case_id")
    settings: Mapping[str, Any] = {"parameter_validation": False}

    def __init__(self) -> None:
        session = botocore.session.get_session()
        config = botocore.config.Config(**self.settings)
        self.client: Any = session.create_client("dynamodb", "us-east-1", config=config)

    def make_table(self) -> None:
        self.client.create_table(**requests.CREATE_TABLE)

    def drop_table(self) -> None:
        self.client.delete_table(TableName=self.table)

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]:
        return claimed(task_id, data)

    def create(self, task_id: str, data: dict[str, Any], *, state: str = "10") -> None:
        now = stored(datetime.now(UTC))
        times = {"due_time": now, "create_time": now, "update_time": now}
        text = {"S": json.dumps(data, separators=(",", ":"))}
        creation = {"creation": {"S": new_token()}}
        item = {**key_of(task_id), **requests.NEW, **creation, **times, "data": text, **requests.moved(state)}
        self.client.put_item(Item=item, **requests.CREATE)

    def run(self, task_id: str, change: Change | None = None) -> None:
        key, token = key_of(task_id), {"S": new_token()}
        self.finish(key, token, self.claim(key, token), change)

    def finish(
        self, key: Mapping[str, Any], token: Mapping[str, str], row: dict[str, Any], change: Change | None = None
    ) -> None:
        values: dict[str, Any] = {
            **requests.FINISH_VALUES,
            ":token": token,
            ":now": stored(datetime.now(UTC)),
            ":unfinished": {"L": row["unfinished"]["L"][:-1]},
        }
        if change is None:
            self.client.update_item(Key=key, ExpressionAttributeValues=values, **requests.FINISH)
            return
        data = json.loads(row["data"]["S"])
        change(data)
        values[":data"] = {"S": json.dumps(data, separators=(",", ":"))}
        self.client.update_item(Key=key, ExpressionAttributeValues=values, **requests.FINISH_WITH_DATA)

    def claim(self, key: Mapping[str, Any], token: Mapping[str, str], **options: Any) -> dict[str, Any]:
        """Return the row; a condition that does not hold is an error of botocore's."""
        now = datetime.now(UTC)
        values = {
            **requests.CLAIM_VALUES,
            ":token": token,
            ":worker": {"S": this_worker()},
            ":now": stored(now),
            ":expire": stored(now + LOCK_FOR),
            ":soon": stored(now + MARGIN),
            ":ago": stored(now - MARGIN),
        }
        answer = self.client.update_item(Key=key, ExpressionAttributeValues=values, **requests.CLAIM, **options)
        row: dict[str, Any] = answer["Attributes"]
        return row

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        yield "create", lambda: self.create("o-1", data)
        yield "run", lambda: self.run("o-1")
        self.create("o-2", data)
        yield "run that adds to data", lambda: self.run("o-2", add_entry)
        self.create("o-3", data)
        yield "failing run", lambda: self._fail("o-3")
        self.create("o-4", data)
        self.claim(key_of("o-4"), {"S": new_token()})
        yield "refused claim", lambda: self._refused("o-4")
        yield "refused, with the reason", lambda: self._refused("o-4", **requests.WITH_ROW)
        for number in range(10):
            self.create(f"q-{number}", data, state="12")
        yield "query of 10, whole", lambda: self.oldest("12", 10)

    def oldest(self, state: str, limit: int) -> list[dict[str, Any]]:
        keys = self.oldest_keys(state, limit)
        wanted: dict[str, Any] = {self.table: {"Keys": keys, "ConsistentRead": True}} if keys else {}
        rows: list[dict[str, Any]] = []
        while wanted:
            found = self.client.batch_get_item(RequestItems=wanted)
            rows += found["Responses"][self.table]
            wanted = found["UnprocessedKeys"]
        return sorted(rows, key=lambda row: str(row["due_time"]["S"]))

    def oldest_keys(self, state: str, limit: int) -> list[dict[str, Any]]:
        options: dict[str, Any] = {"ExpressionAttributeValues": {":status_key": {"S": f"order#{state}#0"}}}
        found: list[dict[str, Any]] = []
        while True:
            page = self.client.query(Limit=limit - len(found), **requests.QUERY, **options)
            found += [{key: entry[key] for key in self.keys} for entry in page["Items"]]
            if len(found) == limit or not page.get("LastEvaluatedKey"):
                return found
            options["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _fail(self, task_id: str) -> None:
        key, token = key_of(task_id), {"S": new_token()}
        self.claim(key, token)
        values = {**requests.FAIL_VALUES, ":token": token, ":now": stored(datetime.now(UTC))}
        self.client.update_item(Key=key, ExpressionAttributeValues=values, **requests.FAIL)

    def _refused(self, task_id: str, **options: Any) -> None:
        with suppress(self.client.exceptions.ConditionalCheckFailedException):
            self.claim(key_of(task_id), {"S": new_token()}, **options)
            raise AssertionError("the claim was to be refused")


class WithValidation(ByHand):
    """With the settings that botocore has by itself."""

    settings: Mapping[str, Any] = {}


class WithUserAgent(ByHand):
    """With a user agent that is put together once, as the library has it."""

    settings: Mapping[str, Any] = {
        "parameter_validation": False,
        "user_agent": botocore.session.get_session().user_agent(),
    }


def key_of(task_id: str) -> dict[str, dict[str, str]]:
    return {"task_id": {"S": task_id}, "use_case_id": {"S": "order"}}


def stored(moment: datetime) -> dict[str, str]:
    return {"S": moment.strftime("%Y-%m-%dT%H:%M:%S.%f+0000")}
