"""An SQS queue to which due tasks are sent, one message each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import shown
from pynamodb_tracker.backoff import jittered_pause
from pynamodb_tracker.exceptions import TrackerError

_BATCH_SIZE = 10
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""
_TRIES = 4
_GROUP_ID = re.compile(r"[!-~]{1,128}")
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


class TaskQueue:
    """One queue; its client is created when it is first used."""

    def __init__(self, url: str | None) -> None:
        if not (isinstance(url, str) and re.fullmatch(r"https?://\S+/\S+", url)):
            raise ValueError(
                f"queue_url is the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/..., not {shown(url)}"
            )
        self.url = url

    def send(self, task_ids: Iterable[str], sender: str | None) -> Iterator[int]:
        """Send a message for each task, ten per request, and yield how many each request has sent.

        In a FIFO queue, what one sender sends about one task within five minutes is one message. TrackerError, once
        all others are sent, if the queue did not accept some.
        """
        ids, failed = iter(task_ids), list[dict[str, Any]]()
        while batch := list(islice(ids, _BATCH_SIZE)):
            unsent = self._send_batch([self._entry(str(place), task_id, sender) for place, task_id in enumerate(batch)])
            failed += unsent
            yield len(batch) - len(unsent)
        if failed:
            why = ", ".join(sorted({f"{each['Code']}: {each.get('Message', '')}" for each in failed}))
            raise TrackerError(f"{len(failed)} messages could not be sent to {self.url}: {why}")

    def _entry(self, name: str, task_id: str, sender: str | None) -> dict[str, str]:
        entry = {"Id": name, "MessageBody": json.dumps({"task_id": task_id})}
        if not self.url.endswith(".fifo"):
            return entry
        group = task_id if _GROUP_ID.fullmatch(task_id) else _digest(task_id)
        return {**entry, "MessageGroupId": group, "MessageDeduplicationId": _digest(f"{sender} {task_id}")}

    def _send_batch(self, entries: list[dict[str, str]]) -> list[dict[str, Any]]:
        """Send the entries, retry those that failed for a reason of the queue's own, and return all failures."""
        rejected: list[dict[str, Any]] = []
        for retry in range(_TRIES):
            failed = self._client.send_message_batch(QueueUrl=self.url, Entries=entries).get("Failed", [])
            rejected += [each for each in failed if each["SenderFault"]]
            retryable = {each["Id"]: each for each in failed if not each["SenderFault"]}
            if not retryable or retry == _TRIES - 1:
                return [*rejected, *retryable.values()]
            entries = [entry for entry in entries if entry["Id"] in retryable]
            clock.sleep(jittered_pause(retry))
        raise AssertionError("the last try returns")

    @cached_property
    def _client(self) -> Any:
        import boto3  # noqa: PLC0415 - a function that sends nothing does not pay for the import

        region = re.search(r"//sqs\.([a-z0-9-]+)\.", self.url)
        return boto3.client("sqs", region_name=region[1] if region else None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
