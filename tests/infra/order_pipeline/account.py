"""The account in which the pipeline runs: orders come in, functions are invoked and die, and time passes."""

import json
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any
from unittest import mock

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from pynamodb_tracker.clock import StoppedClock
from tests.infra.order_pipeline.life import KilledError, Life
from tests.infra.order_pipeline.mapping import Mapping
from tests.infra.order_pipeline.services import Services
from tests.infra.order_pipeline.stack import Stack, environment
from tests.infra.order_pipeline.template import STEPS

DEAD_LETTERS = (*(f"{name}DeadLetters" for name in STEPS), "UndeliveredEvents")


@dataclass(frozen=True)
class Context:
    clock: StoppedClock
    deadline: datetime
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - self.clock.now()) / timedelta(milliseconds=1)))


class Account:
    """The pipeline, and what Lambda and EventBridge do for it."""

    def __init__(self, stack: Stack, app: ModuleType, clock: StoppedClock) -> None:
        self.stack = stack
        self.app = app
        self.clock = clock
        self.life = Life()
        self.services = Services(self.life.does)
        self.mappings = {step: Mapping(stack, name, clock) for name, step in STEPS.items()}
        self.deaths = 0
        self.dies: Callable[[str], int | None] = lambda _: None
        """At which moment the next invocation of a function dies, if it does."""
        self._sqs = stack.client("sqs")

    @property
    def order(self) -> Any:
        return self.app.Order

    @property
    def refused_error(self) -> type[Exception]:
        kind: type[Exception] = sys.modules["pipeline.services"].RefusedError
        return kind

    def announce(self, *details: dict[str, Any]) -> None:
        """Tell the bus of new orders: the rules that are deployed bring them to their targets.

        Moto's own bus would need a further package for that.
        """
        for detail in details:
            event = {
                "version": "0",
                "id": str(uuid.uuid4()),
                "detail-type": "OrderPlaced",
                "source": "shop",
                "account": "123456789012",
                "time": self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "region": "us-east-1",
                "resources": [],
                "detail": detail,
            }
            for url in self.stack.queues_of(event):
                self._sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))

    def send(self, step: str, body: str) -> None:
        self._sqs.send_message(QueueUrl=self.mappings[step].url, MessageBody=body)

    def poll(self, step: str) -> int:
        """Bring one batch of the step's queue to its function, and return how many messages it had."""
        mapping = self.mappings[step]
        return mapping.poll(lambda event: self.invoke(mapping.function, event))

    def retry(self, step: str) -> dict[str, Any]:
        """Invoke the function of the step's schedule, and return its answer; nothing where it died."""
        name = next(name for name, its in STEPS.items() if its == step)
        try:
            answer: dict[str, Any] = self.invoke(f"Retry{name}", {"detail-type": "Scheduled Event"})
        except KilledError:
            return {}
        return answer

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke a function with the environment and the time that the template gives it."""
        settings = self.stack.properties(function)
        handler = getattr(self.app, settings["Handler"].removeprefix("pipeline.app."))
        deadline = self.clock.now() + timedelta(seconds=settings["Timeout"])
        context = Context(self.clock, deadline, str(uuid.uuid4()))
        with mock.patch.dict(os.environ, environment(self.stack[function])):
            try:
                return self.life.live(
                    lambda: json.loads(json.dumps(handler(event, context))),
                    ends_at=self.dies(function),
                    is_over=lambda: self.clock.now() >= deadline,
                )
            except KilledError:
                self.deaths += 1
                raise

    def waiting(self, queue: str) -> int:
        """Return how many messages are in a queue, including messages in flight, without a request."""
        return len(self.stack.queue(queue)._messages)

    def messages(self) -> int:
        return sum(self.waiting(f"{name}Queue") for name in STEPS)

    def dead_letters(self) -> list[str]:
        """Return the bodies of all messages in dead-letter queues, each of which is received once."""
        bodies: list[str] = []
        for queue in DEAD_LETTERS:
            while messages := self._sqs.receive_message(
                QueueUrl=self.stack[queue], MaxNumberOfMessages=10, VisibilityTimeout=3600
            ).get("Messages"):
                bodies += [message["Body"] for message in messages]
        return bodies

    def dashboard(self) -> str:
        body: str = self.stack.client("cloudwatch").get_dashboard(DashboardName=self.stack.name)["DashboardBody"]
        return body

    def empty(self) -> None:
        """Leave nothing to the next test, without requests: SQS itself wants a minute between two purges."""
        dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables[self.order.Meta.table_name].items.clear()
        for queue in (*(f"{name}Queue" for name in STEPS), *DEAD_LETTERS):
            self.stack.queue(queue)._messages.clear()
            self.stack.queue(queue).pending_messages.clear()
