"""What Lambda's event source mapping does with a queue: receive a batch, invoke, delete what is done.

A message that is not deleted is redelivered after its visibility timeout. Moto's queues use the time of the machine,
but the clock of the tests is stopped, so the mapping ends the timeout itself, by changing it to 0, once the stopped
clock has reached that time. To a queue, both are the same: the message can be received, and its count of receives, by
which the queue moves it to its dead letters, is kept.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID

from pynamodb_tracker.clock import StoppedClock
from tests.infra.order_pipeline.life import KilledError
from tests.infra.order_pipeline.stack import Stack

Event = dict[str, Any]

_MOST_RECEIVED = 10


class Mapping:
    """The mapping of a queue to a function, with the settings of the template."""

    def __init__(self, stack: Stack, name: str, clock: StoppedClock) -> None:
        settings = stack.properties(f"{name}Messages")
        assert settings["EventSourceArn"] == {"Fn::GetAtt": [f"{name}Queue", "Arn"]}
        assert settings["FunctionName"] == {"Ref": name}
        assert settings["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert settings["BatchSize"] <= _MOST_RECEIVED
        self._batch_size = settings["BatchSize"]
        self._visible_after = timedelta(seconds=stack.properties(f"{name}Queue")["VisibilityTimeout"])
        self._clock = clock
        self._sqs = stack.client("sqs")
        self._queue = stack.queue(f"{name}Queue")
        self.url = stack[f"{name}Queue"]
        self.function = name
        self.ends: list[BaseException] = []
        """What invocations ended with that did not answer."""
        self._in_flight: list[tuple[datetime, str]] = []
        self._arn = f"arn:aws:sqs:us-east-1:{DEFAULT_ACCOUNT_ID}:{self.url.rpartition('/')[2]}"

    def poll(self, invoke: Callable[[Event], Any]) -> int:
        """Bring one batch to the function, and return how many messages it had."""
        if not self._queue._messages:
            return 0
        self._end_visibility_timeouts()
        received = self._sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=self._batch_size, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        if not received:
            return 0
        until = self._clock.now() + self._visible_after
        try:
            answer = invoke({"Records": [self._record(message) for message in received]})
        except (Exception, KilledError) as error:  # noqa: BLE001 - whatever it is, none of its messages is deleted
            self.ends.append(error)
            again = {message["MessageId"] for message in received}
        else:
            again = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        assert again <= {message["MessageId"] for message in received}
        for message in received:
            if message["MessageId"] in again:
                self._in_flight.append((until, message["ReceiptHandle"]))
            else:
                self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return len(received)

    def _end_visibility_timeouts(self) -> None:
        now = self._clock.now()
        for _, handle in [each for each in self._in_flight if each[0] <= now]:
            self._sqs.change_message_visibility(QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=0)
        self._in_flight = [each for each in self._in_flight if each[0] > now]

    def _record(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a record as Lambda gives it to a function.

        https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
        """
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self._arn,
            "awsRegion": "us-east-1",
        }
