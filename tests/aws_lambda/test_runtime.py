"""Handlers in the client that runs them on AWS, on dynoxide: every trigger, errors, logs, and a time limit."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from functools import cache, partial
from typing import Any

import pytest

from tests.aws_lambda.events import bare, eventbridge, fifo, http_api, kinesis, rest_api, sqs, stream
from tests.aws_lambda.runtime import Answer, Runtime
from tests.aws_lambda.shop import Order, ShopTask, ready, states
from tests.aws_lambda.test_batches import BROKEN
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.engines import Engine as Tables

pytest.importorskip("awslambdaric", reason="Lambda's client is built for Linux only")

pytestmark = pytest.mark.engine

SCHEDULE = {"version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}


@pytest.fixture(scope="module")
def tables(dynamodb: Engine) -> Iterator[Tables]:
    with Dynoxide.of([ShopTask], dynamodb.endpoint) as tables:
        yield tables


@pytest.fixture(scope="module")
def deploy(tables: Tables, dynamodb: Engine) -> Callable[..., Runtime]:  # noqa: ARG001 - they have the table
    """Return a function that deploys a handler in a process of its own."""
    environment = {"AWS_ENDPOINT_URL_DYNAMODB": dynamodb.endpoint, "SHOP_TABLE": ShopTask.Meta.table_name}
    return partial(Runtime, environment=environment)


@pytest.fixture(scope="module")
def functions(deploy: Callable[..., Runtime]) -> Iterator[Callable[[str], Runtime]]:
    """Return a function that deploys a handler once for all tests. One of them is started as on AWS."""
    with ExitStack() as stack:

        @cache
        def deployed_once(handler: str) -> Runtime:
            return stack.enter_context(deploy(handler, is_new=handler == "direct"))

        yield deployed_once


@pytest.fixture
def deployed(tables: Tables, functions: Callable[[str], Runtime]) -> Iterator[Callable[[str], Runtime]]:
    """Return a function that returns the process of a handler, and empty the table in the end."""
    yield functions
    tables.empty()


def test_a_direct_caller_is_answered_and_errors_have_the_names_of_classes(deployed: Callable[[str], Runtime]) -> None:
    ready("o-1")
    done = {"task_id": "o-1", "use_case_id": "order", "state": "deliver pending"}
    function = deployed("direct")
    failed = function.invoke(bare("o-1", **BROKEN), request_id="r-1")
    answers = [function.invoke(bare("o-1"), request_id="r-2"), function.invoke(bare("o-1"))]
    missing = function.invoke(bare("o-2"))
    unreadable = function.invoke({"order": "o-1"})
    assert (failed.kind, failed.body["errorType"], failed.body["errorMessage"]) == ("error", "Broken", "no paper")
    assert answers == [Answer("response", done)] * 2
    assert (missing.kind, missing.body["errorType"]) == ("error", "TaskNotFoundError")
    assert (unreadable.kind, unreadable.body["errorType"]) == ("error", "UnreadableEventError")
    assert Order.get_task("o-1").worker == "r-2"


def test_the_json_log_has_the_fields_and_metrics_are_lines_of_their_own(deployed: Callable[[str], Runtime]) -> None:
    ready("o-1")

    before = len(deployed("direct").logged())
    deployed("direct").invoke(bare("o-1"), request_id="r-7")

    logged = deployed("direct").logged()[before:]
    [line] = [line for line in logged if line.get("logger") == "pynamodb_tracker"]
    assert {name: line[name] for name in ("level", "message", "task_id", "step", "outcome", "request_id")} == {
        "level": "INFO",
        "message": "ship of Order 'o-1' (attempt 1) succeeded",
        "task_id": "o-1",
        "step": "ship",
        "outcome": "succeeded",
        "request_id": "r-7",
    }
    started, ended = [line for line in logged if "_aws" in line]
    assert (started["Started"], ended["Succeeded"]) == (1, 1)


def test_an_event_of_a_bus_registers_its_task(deployed: Callable[[str], Runtime]) -> None:
    answers = [deployed("by_bus").invoke(eventbridge("o-1", task={"amount": 4200})) for _ in range(2)]
    assert [(answer.kind, answer.body["state"]) for answer in answers] == [("response", "ship pending")] * 2
    assert Order.get_task("o-1").amount == 4200


@pytest.mark.parametrize(
    ("handler", "event", "failed"),
    [
        ("by_queue", sqs(bare("o-1"), bare("o-2", **BROKEN), "{", bare("o-3")), ["m-2", "m-3"]),
        ("by_queue", fifo(("a", bare("o-1")), ("b", bare("o-2", **BROKEN)), ("b", bare("o-3"))), ["m-2", "m-3"]),
        ("by_stream", kinesis(bare("o-1"), bare("o-2", **BROKEN), bare("o-3")), ["s-2"]),
        ("by_change", stream("o-1", "missing", "o-3"), ["s-2"]),
    ],
    ids=["sqs", "fifo", "kinesis", "dynamodb"],
)
def test_a_batch_is_answered_with_what_failed(
    deployed: Callable[[str], Runtime], handler: str, event: Any, failed: list[str]
) -> None:
    ready("o-1", "o-2", "o-3")
    answer = deployed(handler).invoke(event)
    assert answer == Answer("response", {"batchItemFailures": [{"itemIdentifier": name} for name in failed]})
    assert states("o-1") == ["deliver pending"]


def test_a_schedule_runs_what_is_left(deployed: Callable[[str], Runtime]) -> None:
    ready("o-1", "o-2")
    answer = deployed("again").invoke(SCHEDULE)
    assert (answer.kind, answer.body["succeeded"]) == ("response", 2)
    assert states("o-1", "o-2") == ["deliver pending"] * 2


def test_a_function_that_is_ended_at_its_time_limit_frees_its_task_then(
    deploy: Callable[[str], Runtime], deployed: Callable[[str], Runtime]
) -> None:
    ready("o-1")

    with deploy("hangs") as function:
        function.invoke_until_killed(bare("o-1"), seconds=2, begun=lambda: Order.get_task("o-1").label == "half done")
    locked, patience_ends = Order.get_task("o-1"), time.monotonic() + 60
    early = deployed("direct").invoke(bare("o-1"))
    answer = early
    while answer.kind == "error" and time.monotonic() < patience_ends:
        time.sleep(0.05)
        answer = deployed("direct").invoke(bare("o-1"))

    assert early.body["errorType"] == "TaskLockedError"
    assert answer.body["state"] == "deliver pending"
    assert locked.lock_expire_time - locked.update_time <= timedelta(seconds=3), "a second longer than the invocation"
    assert (Order.get_task("o-1").fence, Order.get_task("o-1").label) == (2, "label of o-1")


def test_of_two_requests_at_once_one_runs_the_task_and_both_get_its_answer_in_the_end(
    deploy: Callable[[str], Runtime], deployed: Callable[[str], Runtime]
) -> None:
    with deploy("by_request") as second, ThreadPoolExecutor(2) as pool:
        functions = [deployed("by_request"), second]
        for function in functions:  # warm, so that they meet
            function.invoke(http_api({"order_id": "warm", "amount": 1}))
        for round_ in range(5):
            task_id = f"o-{round_}"
            order = {"order_id": task_id, "amount": 1}
            events = [rest_api(order), http_api(order)]

            answers = [answer.body for answer in pool.map(Runtime.invoke, functions, events)]
            again = [function.invoke(event).body for function, event in zip(functions, events, strict=True)]
            other = second.invoke(rest_api({**order, "amount": 2})).body

            done = [answer for answer in answers if answer["statusCode"] == 200]
            assert {answer["statusCode"] for answer in answers} <= {200, 409}
            assert [answer for answer in again if answer not in done] == []
            assert again[0] == again[1]
            assert (other["statusCode"], Order.get_task(task_id).fence) == (422, 1)


def test_one_of_many_events_runs_the_task(deploy: Callable[[str], Runtime], deployed: Callable[[str], Runtime]) -> None:
    with ExitStack() as stack:
        functions = [deployed("by_bus"), *(stack.enter_context(deploy("by_bus")) for _ in range(3))]
        for function in functions:  # warm, so that they meet
            function.invoke(eventbridge("warm", task={"amount": 0}))
        for round_ in range(10):
            task_id = f"o-{round_}"
            with ThreadPoolExecutor(len(functions)) as pool:
                events = [eventbridge(task_id, task={"amount": number}) for number in range(len(functions))]
                answers = list(pool.map(lambda pair: pair[0].invoke(pair[1]), zip(functions, events, strict=True)))
            task = Order.get_task(task_id)
            assert (str(task.state), task.fence) == ("ship pending", 1)
            assert {a.body.get("errorType", a.body.get("state")) for a in answers} <= {
                "TaskLockedError",
                "ship pending",
            }
