"""A task that has succeeded is sent to the queue of its next step."""

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pynamodb_tracker import Repeat, Step, TrackerError, UseCase
from pynamodb_tracker.aws_lambda import Replies, handles, retry_handler
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.testing import StoppedClock, kafka_event
from tests.aws_lambda.events import bare, fifo, names, sqs
from tests.aws_lambda.shop import Context, Order, ShopTask, ready, ship, states
from tests.aws_lambda.test_batches import BROKEN
from tests.aws_lambda.test_queue import answers, bodies, client, failed, received, sqs_client, url
from tests.aws_lambda.test_retry import NOTHING, SCHEDULE, label
from tests.support.workers import succeed

__all__ = ["client", "sqs_client", "url"]  # fixtures

MISSING = "https://sqs.us-east-1.amazonaws.com/123456789012/missing"


def test_a_success_is_sent_to_the_next_queue_and_again_if_redelivered(context: Context, client: Any, url: str) -> None:
    ready("o-1", "broken", "gone")
    Order.ship.ignore("gone", reason="cancelled")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)
    event = sqs(bare("o-1"), bare("broken", **BROKEN), bare("gone"))
    assert names(handler(event, context)) == ["m-2"]
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]
    assert names(handler(sqs(bare("o-1")), context)) == []
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]
    assert handler(bare("o-1"), context)["state"] == "deliver pending"
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]


@pytest.mark.parametrize("has", ["failed there", "finished"])
def test_a_redelivered_message_is_sent_on_only_while_the_task_is_pending_at_the_next_step(
    context: Context, client: Any, url: str, has: str
) -> None:
    ready("o-1")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)
    handler(sqs(bare("o-1")), context)
    if has == "finished":
        Order.deliver.run("o-1", lambda _: None)
    else:
        with pytest.raises(ZeroDivisionError):
            Order.deliver.run("o-1", lambda _: 1 / 0)
    assert names(handler(sqs(bare("o-1")), context)) == []
    assert bodies(received(client, url)) == [{"task_id": "o-1"}], "that of the success"


def test_an_occurrence_that_has_succeeded_at_the_last_step_is_handed_on(
    context: Context, client: Any, url: str
) -> None:
    Order.create("o-1", repeat=Repeat.every(timedelta(hours=1)))
    succeed(Order.confirm, "o-1")
    succeed(Order.ship, "o-1")
    handles(Order.deliver, task_id="order_id", next_queue_url=url)(ship)(bare("o-1"), context)
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]


def test_a_schedule_sends_what_it_has_finished(clock: StoppedClock, client: Any, url: str) -> None:
    ready("o-1", "broken-1")
    done = retry_handler(Order.ship, label, next_queue_url=url)(SCHEDULE, Context(clock))
    assert done == {**NOTHING, "succeeded": 1, "failed": 1}
    assert bodies(received(client, url)) == [{"task_id": "o-1"}]


def test_a_message_group_goes_on_and_a_repeated_message_is_dropped(context: Context, client: Any) -> None:
    url = client.create_queue(QueueName="next.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready("o-1", "o-2", "o-3")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)

    for _ in range(2):
        handler(fifo(("a", bare("o-1")), ("b", bare("o-2")), ("a", bare("o-3"))), context)
    handler(sqs(bare("o-1")), context)
    sent = received(client, url)

    groups = [message["Attributes"]["MessageGroupId"] for message in sent]
    assert sorted(zip((each["task_id"] for each in bodies(sent)), groups, strict=True)) == [
        ("o-1", "a"),
        ("o-2", "b"),
        ("o-3", "a"),
    ]


@pytest.mark.parametrize("again", ["a later claim", "another task of that id"])
def test_a_fifo_queue_takes_two_successes_within_five_minutes(context: Context, client: Any, again: str) -> None:
    url = client.create_queue(QueueName="next.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready("o-1")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)
    handler(sqs(bare("o-1")), context)
    if again == "a later claim":
        Order.ship.run("o-1", lambda _: None, also_from=(Order.deliver.pending,))
    else:
        Order.delete_task("o-1")
        ready("o-1")
    handler(sqs(bare("o-1")), context)
    assert bodies(received(client, url)) == [{"task_id": "o-1"}] * 2


def test_a_partition_whose_name_is_longer_than_a_group_goes_on_as_one_group(context: Context, client: Any) -> None:
    url = client.create_queue(QueueName="next.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ready("o-1", "o-2")
    handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)(
        kafka_event(bare("o-1"), bare("o-2"), topic="t" * 200), context
    )
    [group] = {message["Attributes"]["MessageGroupId"] for message in received(client, url)}
    assert len(group) <= 128


def test_a_success_that_was_not_sent_is_redelivered_and_then_sent(
    context: Context, client: Any, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1", "o-2")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url, replies=Replies(succeeded="ack"))(ship)
    sent = answers(monkeypatch, failed("0", by_sender=True))
    assert names(handler(sqs(bare("o-1"), bare("o-2")), context)) == ["m-1"]
    assert states("o-1", "o-2") == ["deliver pending"] * 2
    assert "ship of Order 'o-1' (attempt 1) succeeded, but was not sent to its next step's queue" in caplog.text
    assert names(handler(sqs(bare("o-1")), context)) == []
    assert sent == [["o-1"], ["o-2"], ["o-1"]]
    assert received(client, url) == []


def test_a_next_queue_that_takes_nothing_is_an_error_of_the_function(clock: StoppedClock, client: Any) -> None:  # noqa: ARG001 - moto is on
    ready("o-1", "o-2", "o-3")
    handler = handles(Order.ship, task_id="order_id", next_queue_url=MISSING)(ship)
    with pytest.raises(ClientError, match="NonExistentQueue"):
        handler(sqs(bare("o-1"), bare("o-2")), Context(clock))
    with pytest.raises(ClientError, match="NonExistentQueue"):
        handler(bare("o-1"), Context(clock))
    with pytest.raises(ClientError, match="NonExistentQueue"):
        retry_handler(Order.ship, label, next_queue_url=MISSING)(SCHEDULE, Context(clock))
    assert states("o-1", "o-2", "o-3") == ["deliver pending"] * 3


def test_near_the_end_of_an_invocation_a_send_is_not_retried(
    clock: StoppedClock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready("o-1")
    sent = answers(monkeypatch, *[failed("0", by_sender=False)] * 4)
    monkeypatch.setattr("pynamodb_tracker.clock.seconds_until", lambda time: (time - clock.now()).total_seconds())
    handler = handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)
    with pytest.raises(TrackerError, match="InternalError: try again"):
        handler(bare("o-1"), Context(clock, 0.5))
    assert len(sent) == 1


def test_requests_to_the_next_queue_end_with_the_invocation(url: str) -> None:
    queue = Queue("next_queue_url", url, Order)
    patient, quick = queue._client(20), queue._client(5)
    assert patient is queue._client(13)
    assert patient.meta.config.read_timeout > quick.meta.config.read_timeout
    assert quick.meta.config.connect_timeout + quick.meta.config.read_timeout <= 1.5
    assert quick.meta.config.retries["total_max_attempts"] == 1


@pytest.mark.parametrize("wrong", ["orders", "", 5])
def test_the_next_queue_is_named_by_its_url(wrong: Any) -> None:
    with pytest.raises(ValueError, match="next_queue_url is a queue's URL"):
        handles(Order.ship, task_id="order_id", next_queue_url=wrong)(ship)
    with pytest.raises(ValueError, match="next_queue_url is a queue's URL"):
        retry_handler(Order.ship, label, next_queue_url=wrong)


class Sale(ShopTask):
    use_case_id = UseCase("sale")

    check = Step(10)
    pack = Step(20)
    ship = Step(30)
    refund = Step(90, branch=True)


@pytest.mark.parametrize(
    ("step", "chosen", "is_sent"),
    [("check", "pack", True), ("check", "ship", False), ("check", "refund", False), ("ship", "refund", False)],
)
def test_a_success_that_leads_to_a_branch_is_not_sent_to_the_next_queue_nor_if_it_is_redelivered(
    context: Context, client: Any, url: str, step: str, chosen: str, *, is_sent: bool
) -> None:
    of = getattr(Sale, step)
    Sale.create("s-1", state=of.pending)
    handler = handles(of, task_id="order_id", next_queue_url=url)(lambda ctx, _: ctx.go_to(getattr(Sale, chosen)))
    for _ in range(2):
        assert names(handler(sqs(bare("s-1")), context)) == []
        assert bodies(received(client, url)) == [{"task_id": "s-1"}] * is_sent


def test_a_message_for_a_step_that_was_passed_over_is_not_handed_on(context: Context, client: Any, url: str) -> None:
    Sale.create("s-1")
    Sale.check.run("s-1", lambda ctx: ctx.go_to(Sale.ship))
    assert names(handles(Sale.pack, task_id="order_id", next_queue_url=url)(print)(sqs(bare("s-1")), context)) == []
    assert received(client, url) == []


def groups_of(sent: list[dict[str, Any]]) -> dict[str, str | None]:
    return {json.loads(each["Body"])["task_id"]: each["Attributes"].get("MessageGroupId") for each in sent}


def test_a_standard_queue_gets_the_group_of_a_task_as_its_tenant(context: Context, client: Any, url: str) -> None:
    ready("o-1")
    Order.create("o-2", state=Order.ship.pending, group="customer 7" * 20)
    Order.create("o-3", state=Order.ship.pending, group="customer-8")
    handles(Order.ship, task_id="order_id", next_queue_url=url)(ship)(
        sqs(bare("o-1"), bare("o-2"), bare("o-3")), context
    )
    groups = groups_of(received(client, url))
    assert (groups["o-1"], groups["o-3"]) == (None, "customer-8")
    assert len(groups["o-2"] or "") == 64, "a name that SQS does not take is replaced by its digest"


def test_a_function_of_the_task_names_the_tenant_and_delays_nothing_if_it_fails(
    context: Context, client: Any, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ready("o-1", "o-2", "o-3", "o-4")

    def tenant(task: Order) -> Any:
        return {"o-1": f"{task.state}".replace(" ", "-"), "o-2": None, "o-3": 3}[task.task_id]

    handler = handles(Order.ship, task_id="order_id", next_queue_url=url, message_group=tenant)(ship)
    assert names(handler(sqs(*map(bare, ("o-1", "o-2", "o-3", "o-4"))), context)) == []
    assert groups_of(received(client, url)) == {"o-1": "deliver-pending", "o-2": None, "o-3": None, "o-4": None}
    assert "message_group returns text or None, not 3" in caplog.text
    assert "KeyError" in caplog.text


def test_a_schedule_names_the_tenants_of_what_it_sends_and_of_what_it_has_finished(
    clock: StoppedClock, client: Any, url: str
) -> None:
    ready("o-1", "o-2")

    def tenant(task: Order) -> str:
        return f"{task.state.step}-{task.task_id}"

    assert retry_handler(Order.ship, queue_url=url, message_group=tenant)(SCHEDULE, Context(clock))["sent"] == 2
    assert groups_of(received(client, url)) == {"o-1": "ship-o-1", "o-2": "ship-o-2"}
    retry_handler(Order.ship, label, next_queue_url=url, message_group=tenant)(SCHEDULE, Context(clock))
    assert groups_of(received(client, url)) == {"o-1": "deliver-o-1", "o-2": "deliver-o-2"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"message_group": str}, TypeError),
        ({"message_group": "customer", "next_queue_url": MISSING}, TypeError),
        ({"message_group": str, "next_queue_url": f"{MISSING}.fifo"}, ValueError),
    ],
)
def test_a_group_without_a_standard_queue_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="message_group"):
        handles(Order.ship, task_id="order_id", **options)
    with pytest.raises(error, match="message_group"):
        retry_handler(Order.ship, label, **options)
