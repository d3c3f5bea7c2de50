"""A schedule that sends what is left of a step to a queue."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import CredentialRetrievalError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from pynamodb_tracker import TrackerError
from pynamodb_tracker.aws_lambda import handles, retry_handler
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import fifo, sqs
from tests.aws_lambda.shop import Context, Order, ready, ship, states
from tests.aws_lambda.test_retry import NOTHING, SCHEDULE
from tests.support.engines import Engine

takes = handles(Order.ship, task_id="task_id")(ship)


@pytest.fixture(scope="module")
def sqs_client(engine: Engine) -> Iterator[Any]:  # noqa: ARG001 - moto is on while the shop is open
    client = boto3.client("sqs", region_name="us-east-1")
    yield client
    client.close()


@pytest.fixture
def client(clock: StoppedClock, sqs_client: Any) -> Iterator[Any]:  # noqa: ARG001 - the table is empty
    yield sqs_client
    sqs_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].queues.clear()


@pytest.fixture
def url(client: Any) -> str:
    found: str = client.create_queue(QueueName="orders")["QueueUrl"]
    return found


def received(client: Any, url: str) -> list[dict[str, Any]]:
    messages = []
    while more := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]).get("Messages"):
        messages += more
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[Any]:
    return [json.loads(message["Body"]) for message in messages]


def test_each_due_task_is_a_message_for_a_handler_of_the_step(clock: StoppedClock, client: Any, url: str) -> None:
    ids = [f"o-{number:02}" for number in range(23)]
    ready(*ids)
    Order.create("early")
    done = retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "sent": 23}
    sent = bodies(received(client, url))
    assert sorted(each["task_id"] for each in sent) == ids
    takes(sqs(*sent), Context(clock))
    assert states(*ids) == ["deliver pending"] * 23


def test_ten_messages_go_with_one_request(clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(*(f"o-{number:02}" for number in range(23)))
    requests = []
    call = BaseClient._make_api_call

    def note(self: Any, operation: str, arguments: Any) -> Any:
        requests.append((operation, len(arguments.get("Entries", ()))))
        return call(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", note)
    retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))

    assert [each for each in requests if each[0] == "SendMessageBatch"] == [
        ("SendMessageBatch", 10),
        ("SendMessageBatch", 10),
        ("SendMessageBatch", 3),
    ]


def test_a_schedule_whose_time_ends_after_it_sent_tasks_does_not_ask_for_more_time(
    clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    send = Queue.send

    def send_slowly(queue: Queue, entries: Any) -> Any:
        unsent = send(queue, entries)
        clock.advance(timedelta(minutes=1))
        return unsent

    ready(*(f"o-{number:02}" for number in range(23)))
    monkeypatch.setattr(Queue, "send", send_slowly)
    done = retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert (done["out_of_time"], "no task was started" in caplog.text) == (True, False)


def test_a_limit_and_the_time_bound_what_is_sent(clock: StoppedClock, url: str) -> None:
    ready(*(f"o-{number:02}" for number in range(23)))
    assert retry_handler(Order.ship, queue_url=url, limit=12)(SCHEDULE, Context(clock))["sent"] == 12
    late = retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock, 0.9))
    assert late == {**NOTHING, "out_of_time": True}


@pytest.mark.parametrize("task_id", ["o-1", "Bestellung äöü", "o" * 1024, "a b"])
def test_in_a_fifo_queue_each_task_is_a_group_and_one_invocation_sends_it_once(
    clock: StoppedClock, client: Any, task_id: str
) -> None:
    url = client.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready(task_id)
    again = retry_handler(Order.ship, queue_url=url)

    for _ in range(2):  # Lambda tries an invocation again under the same id
        again(SCHEDULE, Context(clock, request_id="first"))
    [message] = received(client, url)
    assert json.loads(message["Body"]) == {"task_id": task_id}
    group = message["Attributes"]["MessageGroupId"]
    assert group == task_id or len(group) == 64
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    again(SCHEDULE, Context(clock, request_id="second"))
    [message] = received(client, url)
    takes(fifo((group, json.loads(message["Body"]))), Context(clock))
    assert states(task_id) == ["deliver pending"]


def answers(monkeypatch: pytest.MonkeyPatch, *failures: dict[str, Any] | Exception) -> list[list[str]]:
    """Let requests to send fail in turn; return the list of what they sent."""
    sent: list[list[str]] = []
    left = list(failures)
    call = BaseClient._make_api_call

    def answer(self: Any, operation: str, arguments: Any) -> Any:
        if operation != "SendMessageBatch":
            return call(self, operation, arguments)
        sent.append([json.loads(entry["MessageBody"])["task_id"] for entry in arguments["Entries"]])
        met = left.pop(0) if left else {}
        if isinstance(met, Exception):
            raise met
        return met

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)
    return sent


def failed(name: str, *, by_sender: bool) -> dict[str, Any]:
    return {"Failed": [{"Id": name, "SenderFault": by_sender, "Code": "InternalError", "Message": "try again"}]}


def test_only_messages_not_taken_are_resent(clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2")
    begun = clock.now()
    sent = answers(monkeypatch, failed("1", by_sender=False))
    assert retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))["sent"] == 2
    assert [sorted(each) for each in sent] == [["o-1", "o-2"], sent[1]]
    assert len(sent[1]) == 1
    assert clock.now() > begun, "it waited in between"


@pytest.mark.parametrize(("by_sender", "tries"), [(True, 2), (False, 5)])
def test_what_the_queue_never_takes_is_an_error_once_all_others_are_sent(
    clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch, *, by_sender: bool, tries: int
) -> None:
    ready(*(f"o-{number:02}" for number in range(12)))
    sent = answers(monkeypatch, failed("0", by_sender=by_sender), *[failed("0", by_sender=by_sender)] * (tries - 2))
    with pytest.raises(TrackerError, match=r"1 messages could not be sent to .*: InternalError: try again"):
        retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert len(sent) == tries
    assert len(set().union(*sent)) == 12


def test_an_invocation_sends_two_tasks_as_two_messages_of_a_fifo_queue(clock: StoppedClock, client: Any) -> None:
    url = client.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready("o-1", "o-2")
    retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert sorted(each["task_id"] for each in bodies(received(client, url))) == ["o-1", "o-2"]


def test_the_queue_says_in_which_region_it_is(clock: StoppedClock) -> None:
    client = boto3.client("sqs", region_name="eu-central-1")
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    ready("o-1")
    retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]
    client.close()


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("vpce-0a12b3c4-5d6e.sqs.eu-west-1.vpce.amazonaws.com", "eu-west-1"),
        ("vpce-0a12b3c4-5d6e-eu-west-1a.sqs.eu-west-1.vpce.amazonaws.com", "eu-west-1"),
        ("sqs-fips.us-west-2.amazonaws.com", "us-west-2"),
        ("eu-central-1.queue.amazonaws.com", "eu-central-1"),
        ("sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("sqs.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("localhost:4566", "us-east-1"),
    ],
)
def test_the_region_is_found_in_every_form_of_a_url_or_is_that_of_the_table(
    host: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    queue = Queue("next_queue_url", f"https://{host}/123456789012/orders-us-east-2.fifo", Order)
    client = queue._client(60)
    assert client.meta.region_name == region
    client.close()


def test_sweeps_without_a_context_are_different_senders(clock: StoppedClock, client: Any) -> None:  # noqa: ARG001 - the table is empty
    url = client.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready("o-1")
    sweep = retry_handler(Order.ship, queue_url=url)
    assert [sweep(SCHEDULE, None)["sent"] for _ in range(2)] == [1, 1]
    assert bodies(received(client, url) + received(client, url)) == [{"task_id": "o-1"}] * 2


def test_nothing_is_resent_near_the_end(clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1")
    sent = answers(monkeypatch, *[failed("0", by_sender=False)] * 4)
    monkeypatch.setattr("pynamodb_tracker.clock.seconds_until", lambda time: (time - clock.now()).total_seconds())
    with pytest.raises(TrackerError, match="InternalError: try again"):
        retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock, 1.2))
    assert len(sent) == 1


def test_a_fault_of_credentials_is_retried(clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1")
    sent = answers(monkeypatch, CredentialRetrievalError(provider="container-role", error_msg="429"))
    retry_handler(Order.ship, queue_url=url)(SCHEDULE, Context(clock))
    assert sent == [["o-1"], ["o-1"]]
