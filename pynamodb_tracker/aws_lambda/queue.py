"""A queue of SQS to which due tasks are sent, one message each."""

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
from pynamodb_tracker.backoff import backoff
from pynamodb_tracker.exceptions import TrackerError

__all__ = ["Queue"]

_AT_ONCE = 10
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""
_TRIES = 4
_GROUP = re.compile(r"[!-~]{1,128}")
"""What a message group may be called: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


class Queue:
    """One queue; its client is made when it is first needed."""

    def __init__(self, url: str | None) -> None:
        self.url = _checked(url)

    def send(self, task_ids: Iterable[str], sender: str | None) -> Iterator[int]:
        """Send a message for each task, ten with a request, and yield how many have been sent by each.

        In a FIFO queue the messages of one sender about one task are one message, for five minutes. TrackerError, once
        all others are sent, where the queue did not take some.
        """
        ids, failed = iter(task_ids), list[dict[str, Any]]()
        while batch := list(islice(ids, _AT_ONCE)):
            left = self._left_of([self._entry(str(place), task_id, sender) for place, task_id in enumerate(batch)])
            failed += left
            yield len(batch) - len(left)
        if failed:
            why = ", ".join(sorted({f"{each['Code']}: {each.get('Message', '')}" for each in failed}))
            raise TrackerError(f"{len(failed)} messages could not be sent to {self.url}: {why}")

    def _entry(self, name: str, task_id: str, sender: str | None) -> dict[str, str]:
        entry = {"Id": name, "MessageBody": json.dumps({"task_id": task_id})}
        if not self.url.endswith(".fifo"):
            return entry
        group = task_id if _GROUP.fullmatch(task_id) else _digest(task_id)
        return {**entry, "MessageGroupId": group, "MessageDeduplicationId": _digest(f"{sender} {task_id}")}

    def _left_of(self, entries: list[dict[str, str]]) -> list[dict[str, Any]]:
        """Send them, and those again that the queue could not take now; return how the rest failed."""
        hopeless: list[dict[str, Any]] = []
        for pause in backoff(tries=_TRIES):
            failed = self._client.send_message_batch(QueueUrl=self.url, Entries=entries).get("Failed", [])
            hopeless += [each for each in failed if each["SenderFault"]]
            again = {each["Id"]: each for each in failed if not each["SenderFault"]}
            if not again or pause is None:
                return [*hopeless, *again.values()]
            entries = [entry for entry in entries if entry["Id"] in again]
            clock.sleep(pause)
        raise AssertionError("the last try returns")

    @cached_property
    def _client(self) -> Any:
        import boto3  # noqa: PLC0415 - only who sends pays for the import

        region = re.search(r"//sqs\.([a-z0-9-]+)\.", self.url)
        return boto3.client("sqs", region_name=region[1] if region else None)


def _checked(url: object) -> str:
    if not (isinstance(url, str) and re.fullmatch(r"https?://\S+/\S+", url)):
        raise ValueError(
            f"queue_url is the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/..., not {shown(url)}"
        )
    return url


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
