"""An SQS queue for messages about tasks."""

import hashlib
import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.error_codes import got_no_response
from pynamodb_tracker.dynamodb.retries import deadline, slept_before_retry
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import strict_json
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.row import TaskRow

_TRIES = 4
# In a host name, also of VPC and FIPS endpoints and older ones: https://docs.aws.amazon.com/general/latest/gr/sqs-service.html
_REGION = re.compile(r"(?:^|\.)([a-z]{2,4}(?:-[a-z]+)+-\d+)(?=\.)")
_GROUP_ID = re.compile(r"[!-~]{1,128}")
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""
_PATIENT = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"})
_QUICK = Config(connect_timeout=0.5, read_timeout=1, retries={"total_max_attempts": 1})
_PATIENCE = 13.0  # seconds per request at most: two tries and a pause
_QUICKNESS = 1.5  # seconds per request at most

Entry = dict[str, str]  # a message in SQS's API


class Queue:
    """A queue of messages `{"task_id": ...}`, for a function that `handles` a step."""

    def __init__(self, name: str, url: object, model: type[TaskRow], message_group: object = None) -> None:
        """Check the URL, which is the argument `name`. `message_group` returns a task's tenant in a standard queue."""
        if not (isinstance(url, str) and re.fullmatch(r"https?://\S+/\S+", url)):
            raise ValueError(
                f"{name} is a queue's URL, such as https://sqs.us-east-1.amazonaws.com/..., not {shown(url)}"
            )
        if message_group is not None:
            if not callable(message_group):
                raise TypeError(f"message_group is a function that gets the task, not {shown(message_group)}")
            if url.endswith(".fifo"):
                raise ValueError("message_group is for standard queues: in a FIFO queue, groups keep an order")
        self.url = url
        self.message_group: Callable[[Any], object] | None = message_group
        self._model = model
        self._clients: dict[Config, Any] = {}
        self._building = threading.Lock()

    def entry(self, name: str, task_id: str, sender: str, *, group: str | None = None, task: Any = None) -> Entry:
        """Return a message about a task. A FIFO queue accepts one per task and sender within five minutes.

        There, a task is its own group by default. In a standard queue, a group is a tenant:
        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
        """
        entry = {"Id": name, "MessageBody": strict_json.dumps({"task_id": task_id})}
        if not self.url.endswith(".fifo"):
            tenant = None if task is None else self._tenant(task)
            return {**entry, "MessageGroupId": _group_id(tenant)} if tenant else entry
        group = _group_id(group or task_id)  # a Kafka partition may have a longer name
        return {**entry, "MessageGroupId": group, "MessageDeduplicationId": _digest(f"{sender} {task_id}")}

    def _tenant(self, task: TaskRow) -> str | None:
        if self.message_group is None:
            return cast("str | None", task.group)
        try:
            found = self.message_group(task)
            if not isinstance(found, str | None):
                raise TypeError(f"message_group returns text or None, not {shown(found)}")  # noqa: TRY301 - as below
        except Exception:  # losing the message would be worse
            fields = log_fields(task.use_case_id, None, task.task_id)
            text = "the message about %s %r is sent without a group"
            log.exception(text, type(task).__name__, task.task_id, extra=fields)
            return None
        return found

    def send(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """Send at most ten entries, with retries. Return all failures, or raise the SDK's error."""
        rejected, retry = list[dict[str, Any]](), 0
        while True:
            end = deadline()
            client = self._client(math.inf if end is None else clock.seconds_until(end))
            try:
                failed = client.send_message_batch(QueueUrl=self.url, Entries=list(entries)).get("Failed", [])
            except (BotoCoreError, ClientError) as error:
                if got_no_response(error) or not self._slept(retry):
                    raise
            else:
                rejected += [each for each in failed if each["SenderFault"]]
                retryable = {each["Id"]: each for each in failed if not each["SenderFault"]}
                if not retryable or not self._slept(retry):
                    return [*rejected, *retryable.values()]
                entries = [entry for entry in entries if entry["Id"] in retryable]
            retry += 1

    def _slept(self, retry: int) -> bool:
        return retry < _TRIES - 1 and slept_before_retry(retry, takes=_QUICKNESS)

    def send_one(self, task: Any, sender: str, *, group: str | None) -> Exception | None:
        """Send a message about a task. Return the error if that failed."""
        try:
            failed = self.send([self.entry("0", task.task_id, sender, group=group, task=task)])
        except Exception as error:  # noqa: BLE001 - after any error, the record has to be redelivered
            return error
        return self.unsent(failed) if failed else None

    def unsent(self, failures: Sequence[dict[str, Any]]) -> TrackerError:
        why = ", ".join(sorted({f"{each['Code']}: {each.get('Message', '')}" for each in failures}))
        return TrackerError(f"{len(failures)} messages could not be sent to {self.url}: {why}")

    def connect(self) -> None:
        """Create a client now, because that takes long."""
        self._client(math.inf)

    def _client(self, seconds: float) -> Any:
        config = _PATIENT if seconds >= _PATIENCE else _QUICK
        with self._building:
            if config not in self._clients:
                of_table = self._model.tracker.table.connection().connection
                found = _REGION.findall(urlsplit(self.url).hostname or "")
                region = found[-1] if found else of_table.region
                self._clients[config] = of_table.session.create_client("sqs", region, config=config)
            return self._clients[config]


def _group_id(name: str) -> str:
    return name if _GROUP_ID.fullmatch(name) else _digest(name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
