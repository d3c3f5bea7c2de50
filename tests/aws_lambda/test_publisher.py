"""Each transition of a task is published once or more often, in its order, and nothing else is."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import CredentialRetrievalError, EndpointConnectionError
from moto import mock_aws

from pynamodb_tracker import LockLostError, Repeat, Step, Task, TrackerError, UseCase
from pynamodb_tracker.aws_lambda import UnreadableEventError, event_publisher
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.shop import Context
from tests.engine.engine import Engine
from tests.infra.record_history import FILE, as_delivered, records
from tests.infra.shop import Parcel, ShopTask
from tests.support.engines import Dynoxide
from tests.support.rows import client

SECOND = timedelta(seconds=1)
Sent = list[list[dict[str, Any]]]


class StreamedTask(Task):
    class Meta:
        table_name = "streamed"
        region = "us-east-1"


class Order(StreamedTask):
    use_case_id = UseCase("order")

    pay = Step(100)
    ship = Step(200, max_attempts=3)


class Report(StreamedTask):
    use_case_id = UseCase("report")

    write = Step(100, max_attempts=1)


def work(_ctx: Any) -> None: ...


def refuse(_ctx: Any) -> None:
    raise ConnectionError("no answer")


def stop(_ctx: Any) -> None:
    raise KeyboardInterrupt


@contextmanager
def bus(answer: Callable[[list[dict[str, Any]]], list[dict[str, str]] | None] = lambda _: None) -> Iterator[Sent]:
    """Publish on a bus of moto, and yield the requests; where `answer` answers, it does so for the bus."""
    sent: Sent = []
    send = BaseClient._make_api_call

    def call(self: BaseClient, operation: str, request: dict[str, Any]) -> Any:
        if operation != "PutEvents":
            return send(self, operation, request)
        sent.append(request["Entries"])
        entries = answer(request["Entries"])
        return send(self, operation, request) if entries is None else {"Entries": entries}

    with mock_aws():
        boto3.client("events", region_name="us-east-1").create_event_bus(Name="shop")
        with mock.patch.object(BaseClient, "_make_api_call", call):
            yield sent


def details(sent: Sent, task_id: str | None = None) -> list[dict[str, Any]]:
    found = [json.loads(entry["Detail"]) | {"type": entry["DetailType"]} for request in sent for entry in request]
    return [each for each in found if task_id in (None, each["task_id"])]


def types(sent: Sent, task_id: str) -> list[str]:
    return [each["type"] for each in details(sent, task_id)]


@pytest.fixture
def recording() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["Records"]
    return [{**record, "eventSource": "aws:dynamodb"} for record in found]


def cancel_twice() -> None:
    Order.create("c-1")
    Order.pay.start("c-1").__enter__()
    Order.cancel("c-1", reason="by phone", even_running=True)
    Order.reopen("c-1")
    Order.cancel("c-1", reason="by phone")


def live(clock: StoppedClock) -> None:
    """Let tasks go through every transition, and through writes that are none."""
    Order.create("o-1", trace={"traceparent": "00-1"})
    clock.advance(SECOND)
    with suppress(ConnectionError):
        Order.pay.run("o-1", refuse)
    with suppress(KeyboardInterrupt):
        Order.pay.run("o-1", stop)
    with Order.pay.start("o-1") as ctx:
        ctx.extend_lock()
        ctx.task.data["large"] = "large " * 1_000
        ctx.save()
    for _ in range(3):
        with suppress(ConnectionError):
            Order.ship.run("o-1", refuse)
    Order.ship.reopen("o-1", by="ada")
    Order.ship.ignore("o-1", reason="moved away", by="ada")
    Order.ship.reopen("o-1")
    with suppress(LockLostError), Order.ship.start("o-1"):
        Order.ship.unlock("o-1", reason="its machine burnt", worker=this_worker())
    abandoned = Order.ship.start("o-1")
    abandoned.__enter__()
    clock.advance(timedelta(hours=1))
    Order.ship.run("o-1", work)
    with suppress(LockLostError):
        abandoned.__exit__(None, None, None)
    Order.create_or_merge("o-1")
    Order.delete_task("o-1")

    Order.create("o-2", due_time=timedelta(hours=1))
    Order.create_or_merge("o-2")  # due at once
    with Order.pay.start("o-2"):
        Order.create_or_merge("o-2")
    Order.ship.run("o-2", work)

    Order.create("g-1", group="ada")
    Order.create("g-2", group="ada")
    Order.pay.run("g-1", work)
    Order.ship.run("g-1", work)

    cancel_twice()

    Report.create("r-1", repeat=Repeat.every(timedelta(hours=1)))
    clock.advance(timedelta(hours=2))
    Report.write.run("r-1", work)
    clock.advance(timedelta(hours=2))
    with suppress(ConnectionError):
        Report.write.run("r-1", refuse)
    clock.advance(timedelta(hours=2))
    dead = Report.write.start("r-1")
    dead.__enter__()
    clock.advance(timedelta(hours=2))
    assert list(Report.write.run_all(work).succeeded) == []
    with suppress(LockLostError):
        dead.__exit__(None, None, None)


@pytest.mark.engine
def test_only_transitions_of_a_real_stream_are_events(dynamodb: Engine, stopped_clock: StoppedClock) -> None:
    with Dynoxide.of([StreamedTask], dynamodb.endpoint):
        view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        table = client(StreamedTask).update_table(TableName=StreamedTask.Meta.table_name, StreamSpecification=view)
        live(stopped_clock)
        found = records(dynamodb.endpoint, table["TableDescription"]["LatestStreamArn"], region_name="us-east-1")
        event = json.loads(json.dumps({"Records": list(found)}, default=as_delivered))
    with bus() as sent:
        assert event_publisher(StreamedTask, bus="shop")(event, None) == {"batchItemFailures": []}

    assert types(sent, "o-1") == [
        "pay created",
        *("pay in_progress", "pay failed"),
        *("pay in_progress", "pay released"),
        *("pay in_progress", "pay succeeded"),
        *["ship in_progress", "ship failed"] * 2,
        *("ship in_progress", "ship ignored"),
        *("ship reopened", "ship ignored", "ship reopened"),
        *("ship in_progress", "ship unlocked"),
        *("ship in_progress", "ship in_progress", "ship succeeded"),
        *("pay restarted", "pay deleted"),
    ]
    assert types(sent, "o-2") == [
        *("pay created", "pay in_progress", "pay succeeded"),
        *("ship in_progress", "ship succeeded"),  # and is pending again, for the request of that time
    ]
    assert types(sent, "g-1") == [
        "pay created",
        "pay in_progress",
        "pay succeeded",
        "ship in_progress",
        "ship succeeded",
    ]
    assert types(sent, "c-1") == ["pay created", "pay in_progress", "pay cancelled", "pay reopened", "pay cancelled"]
    cancelled = details(sent, "c-1")[-1]
    assert (cancelled["from"], cancelled["to"], cancelled["last_error"]) == (
        "pay pending",
        "cancelled",
        "cancelled: by phone",
    )
    assert types(sent, "g-2") == ["pay created"]  # its turn makes it due, and moves it to no other state
    assert types(sent, "r-1") == [
        "write created",
        *("write in_progress", "write succeeded"),  # it is pending at the same step, in another round
        *("write in_progress", "write failed"),
        *("write in_progress", "write skipped"),
    ]
    assert {each["task_id"] for each in details(sent)} == {"o-1", "o-2", "c-1", "g-1", "g-2", "r-1"}
    created, _, failed, *_ = details(sent, "o-1")
    assert (created["from"], created["to"], created["trace"]) == (None, "pay pending", {"traceparent": "00-1"})
    assert (failed["from"], failed["to"], failed["attempt"]) == ("pay in_progress", "pay failed", 1)
    assert failed["last_error"] == "ConnectionError: no answer"
    paid, deleted = details(sent, "o-1")[6], details(sent, "o-1")[-1]
    assert (paid["step"], paid["from"], paid["to"]) == ("pay", "pay in_progress", "ship pending")
    assert (paid["attempt"], paid["last_error"]) == (2, None)  # the released attempt did not count
    assert (deleted["from"], deleted["to"]) == ("pay pending", None)


def test_a_task_is_in_a_request_once_and_its_events_are_in_order(recording: list[dict[str, Any]]) -> None:
    with bus() as sent:
        event_publisher(ShopTask, bus="shop")({"Records": recording}, None)
    for request in sent:
        tasks = [
            (json.loads(entry["Detail"])["use_case_id"], json.loads(entry["Detail"])["task_id"]) for entry in request
        ]
        assert len(set(tasks)) == len(tasks) <= 10
        assert {(entry["EventBusName"], entry["Source"]) for entry in request} == {("shop", "pynamodb_tracker")}
    ids = [each["id"] for each in details(sent, "p-1")]
    assert ids == sorted(ids)
    assert len({each["id"] for each in details(sent)}) == len(details(sent)) == 23


def test_a_request_has_at_most_ten_events(recording: list[dict[str, Any]]) -> None:
    created = [copy.deepcopy(recording[0]) for _ in range(21)]
    for number, record in enumerate(created):
        record["dynamodb"]["NewImage"]["task_id"] = {"S": f"p-{number}"}
    with bus() as sent:
        event_publisher(ShopTask, bus="shop")({"Records": created}, None)
    assert [len(request) for request in sent] == [10, 10, 1]


def test_of_a_use_case_only_its_own_tasks_are_published(recording: list[dict[str, Any]]) -> None:
    with bus() as sent:
        event_publisher(Parcel, bus="shop", source="parcels")({"Records": recording}, None)
    assert {each["use_case_id"] for each in details(sent)} == {"parcel"}
    assert sent[0][0]["Source"] == "parcels"


def test_what_its_time_to_live_deleted_is_expired(recording: list[dict[str, Any]]) -> None:
    [removed] = [
        each for each in recording if each["eventName"] == "REMOVE" and "errors" not in str(each["dynamodb"]["Keys"])
    ]
    removed["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    with bus() as sent:
        event_publisher(ShopTask, bus="shop")({"Records": [removed]}, None)
    [event] = details(sent)
    deleted = datetime.fromtimestamp(removed["dynamodb"]["ApproximateCreationDateTime"], UTC)
    assert (event["type"], event["time"]) == ("send expired", deleted.isoformat(timespec="microseconds"))


def accept_all_but(task_id: str, times: int) -> Callable[[list[dict[str, Any]]], list[dict[str, str]]]:
    """Return a bus that refuses the events of a task that often."""
    left = [times]

    def answer(entries: list[dict[str, Any]]) -> list[dict[str, str]]:
        answers = []
        for entry in entries:
            refused = json.loads(entry["Detail"])["task_id"] == task_id and left[0] > 0
            left[0] -= refused
            answers.append({"ErrorCode": "ThrottlingException"} if refused else {"EventId": "e"})
        return answers

    return answer


@pytest.mark.usefixtures("stopped_clock")
def test_events_that_are_not_accepted_are_tried_again_alone(recording: list[dict[str, Any]]) -> None:
    with bus(accept_all_but("l-1", 2)) as sent:
        answer = event_publisher(ShopTask, bus="shop")({"Records": recording[:4]}, None)
    assert answer == {"batchItemFailures": []}
    assert [len(request) for request in sent] == [2, 1, 1, 1]
    assert types(sent, "l-1") == ["post created"] * 3


@pytest.mark.parametrize(("seconds", "tries"), [(60, 4), (15, 1)], ids=["time is left", "no time is left"])
def test_events_are_sent_again_after_a_fault_of_credentials_while_there_is_time(
    recording: list[dict[str, Any]], stopped_clock: StoppedClock, seconds: float, tries: int
) -> None:
    def fail(_: list[dict[str, Any]]) -> list[dict[str, str]]:
        raise CredentialRetrievalError(provider="container-role", error_msg="429")

    with bus(fail) as sent, pytest.raises(TrackerError, match="container-role: 429"):
        event_publisher(ShopTask, bus="shop")({"Records": recording[:1]}, Context(stopped_clock, seconds))
    assert len(sent) == tries


@pytest.mark.usefixtures("stopped_clock")
def test_the_stream_redelivers_from_the_first_event_that_is_never_accepted(
    recording: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with bus(accept_all_but("l-1", 99)) as sent:
        answer = event_publisher(ShopTask, bus="shop")({"Records": recording}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "000000000000000000002"}]}
    assert types(sent, "p-1") == ["pack created"], "nothing later is sent before that"
    assert "1 events could not be published on shop: ThrottlingException" in caplog.text


@pytest.mark.usefixtures("stopped_clock")
def test_the_first_of_the_events_of_a_request_that_failed_is_reported(recording: list[dict[str, Any]]) -> None:
    def fail_with_two(request: list[dict[str, Any]]) -> None:
        if len(request) == 2:
            raise EndpointConnectionError(endpoint_url="https://events.us-east-1.amazonaws.com")

    one, other = (each["dynamodb"]["SequenceNumber"] for each in recording[:2])
    with bus(fail_with_two):
        answer = event_publisher(ShopTask, bus="shop")({"Records": [recording[0], *recording[:2]]}, None)
    assert one < other
    assert answer == {"batchItemFailures": [{"itemIdentifier": one}]}


@pytest.mark.usefixtures("stopped_clock")
def test_an_error_is_raised_where_nothing_was_published(recording: list[dict[str, Any]]) -> None:
    def unreachable(_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://events.us-east-1.amazonaws.com")

    with bus(unreachable), pytest.raises(TrackerError, match="could not be published on shop: Could not connect"):
        event_publisher(ShopTask, bus="shop")({"Records": recording}, None)


def test_an_ending_invocation_publishes_something(recording: list[dict[str, Any]], stopped_clock: StoppedClock) -> None:
    with bus() as sent:
        answer = event_publisher(ShopTask, bus="shop")({"Records": recording}, Context(stopped_clock, seconds=1))
    assert len(sent) == 1
    assert answer == {"batchItemFailures": [{"itemIdentifier": "000000000000000000004"}]}


def test_a_damaged_row_and_a_code_that_no_step_declares_hold_nothing_up(recording: list[dict[str, Any]]) -> None:
    created = recording[0]["dynamodb"]["NewImage"]
    created |= {"status": {"N": "55"}, "update_time": {"S": "yesterday"}, "trace": {"S": "{"}}
    with bus() as sent:
        event_publisher(ShopTask, bus="shop")({"Records": recording[:1]}, None)
        created["status"] = {"S": "pending"}
        event_publisher(ShopTask, bus="shop")({"Records": recording[:1]}, None)
    assert types(sent, "p-1") == ["unknown created"] * 2
    assert [each["to"] for each in details(sent)] == ["unknown 55", "unknown 0"]


def test_a_step_that_the_class_does_not_declare_changes_a_task(recording: list[dict[str, Any]]) -> None:
    released = next(each for each in recording if each["dynamodb"].get("OldImage", {}).get("status") == {"N": "11"})
    released["dynamodb"]["OldImage"]["status"] = {"N": "16"}
    released["dynamodb"]["NewImage"] |= {"status": {"N": "10"}, "errors": {"L": []}}
    with bus() as sent:
        event_publisher(ShopTask, bus="shop")({"Records": [released]}, None)
    [event] = details(sent)
    assert (event["type"], event["from"], event["to"]) == ("pack changed", "unknown 16", "pack pending")


def test_a_stream_without_both_images_is_refused(recording: list[dict[str, Any]]) -> None:
    changed = next(each for each in recording if each["eventName"] == "MODIFY")
    del changed["dynamodb"]["OldImage"]
    with pytest.raises(UnreadableEventError, match="NEW_AND_OLD_IMAGES"):
        event_publisher(ShopTask, bus="shop")({"Records": [changed]}, None)


@pytest.mark.parametrize(("model", "bus"), [(Task, "shop"), (ShopTask, ""), (ShopTask, None)])
def test_what_names_no_table_or_no_bus_is_refused(model: Any, bus: Any) -> None:
    with pytest.raises(TypeError):
        event_publisher(model, bus=bus)
