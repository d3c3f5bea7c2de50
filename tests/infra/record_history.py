"""Records what the stream of a table reports: `python -m tests.infra.record_history` writes history.json again.

dynoxide runs some tasks, and the records of its stream are kept as Lambda delivers them: with the ARN of the
stream, times as numbers, and bytes in base64.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from pynamodb_tracker import ExecutionContext
from tests.engine.engine import start
from tests.infra.shop import Letter, Parcel, ShopTask, pack, refuse
from tests.support.rows import client

FILE = Path(__file__).with_name("history.json")

_KEYS = {"aws_access_key_id": "history", "aws_secret_access_key": "history", "region_name": "us-east-1"}


def live() -> None:
    """Do what a history is about, and what it is not about: saves, large data, a beat."""
    Parcel.create("p-1")
    Letter.create("l-1", data={"text": "large " * 1_000})
    with suppress(ConnectionError):
        Parcel.pack.run("p-1", refuse)
    with Parcel.pack.start("p-1") as ctx:
        ctx.extend_lock()
        ctx.task.weight = 2
        ctx.save()
    Parcel.send.ignore("p-1", reason="the customer moved away", by="ada")
    Parcel.send.reopen("p-1", by="ada")
    Parcel.send.run("p-1", pack)
    Parcel.delete_task("p-1")
    with Letter.post.start("l-1"):
        Letter.create_or_merge("l-1")
    Letter.post.run("l-1", pack)
    Parcel.create("p-2")
    Parcel.pack.run("p-2", wait_for_letter)
    Letter.post.run("p-2/letter", pack)
    Parcel.send.run("p-2", pack)


def wait_for_letter(ctx: ExecutionContext[Parcel]) -> None:
    """Create a letter that the next step waits for."""
    ctx.create(Letter, f"{ctx.task.task_id}/letter", wait=True)


def records(endpoint: str, arn: str, **credentials: str) -> Iterator[dict[str, Any]]:
    streams = boto3.client(
        "dynamodbstreams",
        endpoint_url=endpoint,
        config=Config(parameter_validation=False),  # names of shards of dynoxide are a letter too short for botocore
        **credentials,
    )
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        place = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
        page = streams.get_records(ShardIterator=place["ShardIterator"])
        while page["Records"]:
            yield from page["Records"]
            page = streams.get_records(ShardIterator=page["NextShardIterator"])


def main() -> None:
    engine = start()
    try:
        meta: Any = ShopTask.Meta
        meta.host, meta.aws_access_key_id, meta.aws_secret_access_key = engine.endpoint, "history", "history"
        ShopTask.create_table(wait=True)
        table: Any = client(ShopTask)
        view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        arn = table.update_table(TableName=ShopTask.Meta.table_name, StreamSpecification=view)["TableDescription"][
            "LatestStreamArn"
        ]
        live()
        found = [{**record, "eventSourceARN": arn} for record in records(engine.endpoint, arn, **_KEYS)]
        lines = ",\n".join(json.dumps(record, default=as_delivered) for record in found)
        FILE.write_text(f'{{"Records": [\n{lines}\n]}}\n', encoding="utf-8")
    finally:
        engine.stop()


def as_delivered(value: object) -> object:
    """Return a value as Lambda has it: a time in seconds, bytes in base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    assert isinstance(value, datetime)
    return int(value.timestamp())


if __name__ == "__main__":
    main()
