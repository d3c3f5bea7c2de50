"""Requests by API Gateway, by the URL of a function and by a load balancer, and the responses to them."""

import base64
import json
import signal
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import (
    APIGatewayProxyEvent,
    APIGatewayProxyEventV2,
    LambdaFunctionUrlEvent,
    event_source,
)
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import ExecutionContext, GiveUp, clock
from pynamodb_tracker.aws_lambda import Invocation, Replies, UnreadableEventError, handles
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.writes.refusals import kept_changing_error
from tests.aws_lambda.events import bare, function_url, http_api, load_balancer, rest_api
from tests.aws_lambda.shop import Broken, Context, Order, ignored, no_access, ready
from tests.support.workers import die, raising

Event = dict[str, Any]
JSON = {"content-type": "application/json"}
LABEL = {"label": "L-1"}


def print_label(_ctx: ExecutionContext[Order], event: Any) -> dict[str, str]:
    if event["body"].get("broken"):
        raise Broken("secret")
    return LABEL


handler = handles(Order.ship, task_id="body.order_id", store_result=True, must_match="body.size")(print_label)


def body_of(response: Event) -> Any:
    return json.loads(response["body"])


def order(**more: Any) -> Event:
    return {"order_id": "o-1", "size": "XL", **more}


every = pytest.mark.parametrize("request_of", [rest_api, http_api, function_url, load_balancer])


@every
def test_a_repeated_request_gets_the_same_response(request_of: Callable[..., Event], context: Context) -> None:
    ready()
    responses = [handler(request_of(order()), context) for _ in range(3)]
    expected = {"statusCode": 200, "headers": JSON, "body": '{"label": "L-1"}', "isBase64Encoded": False}
    assert responses == [expected] * 3
    json.dumps(responses)
    assert Order.get_task("o-1").attempt == 0


def locked() -> None:
    ready()
    die(Order.ship, "o-1", must_match={"body.size": "XL"}, lock_for=timedelta(minutes=1))


def nearly_free() -> None:
    ready()
    die(Order.ship, "o-1", lock_for=timedelta(seconds=3))


def not_due() -> None:
    Order.create("o-1", state=Order.ship.pending, due_time=clock.now() + timedelta(minutes=2))


def ignored_before() -> None:
    Order.create("o-1")
    Order.confirm.ignore("o-1", reason="cancelled")


def mismatched() -> None:
    ready()
    Order.ship.run("o-1", lambda _: None, must_match={"body.size": "S"})


@pytest.mark.parametrize(
    ("prepare", "error", "retry_after"),
    [
        (locked, "locked", "5"),
        (nearly_free, "locked", "3"),
        (not_due, "not_ready", "120"),
        (lambda: Order.create("o-1"), "not_ready", "5"),
        (lambda: None, "not_found", None),
        (ignored, "ignored", None),
        (ignored_before, "ignored", None),
        (mismatched, "mismatch", None),
    ],
)
@every
def test_each_reason_has_a_status_code(
    request_of: Callable[..., Event], prepare: Callable[[], None], error: str, retry_after: str | None, context: Context
) -> None:
    prepare()
    response = handler(request_of(order()), context)
    code = {"not_found": 404, "ignored": 422, "mismatch": 422}.get(error, 409)
    assert (response["statusCode"], body_of(response)) == (code, {"task_id": "o-1", "error": error})
    assert response["headers"].get("retry-after") == retry_after


def test_a_failed_attempt_is_a_server_error_that_says_nothing(context: Context) -> None:
    ready()
    response = handler(http_api(order(broken=True)), context)
    assert (response["statusCode"], body_of(response)) == (500, {"task_id": "o-1", "error": "failed"})
    assert "secret" not in json.dumps(response)
    assert Order.get_task("o-1").last_error == "Broken: secret"


def test_after_a_failure_the_response_says_when_the_next_attempt_may_start(context: Context) -> None:
    Order.create("o-1", state=Order.deliver.pending)
    deliver = handles(Order.deliver, task_id="body.order_id")(print_label)
    response = deliver(http_api(order(broken=True)), context)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (500, "600")


def test_giving_up_is_no_server_error(context: Context) -> None:
    ready()
    give_up = handles(Order.ship, task_id="body.order_id")(raising(GiveUp("no such street")))
    assert give_up(rest_api(order()), context)["statusCode"] == 422


@pytest.mark.parametrize(
    "event",
    [
        http_api(),
        http_api("{", headers=JSON),
        http_api([]),
        http_api({"order_id": 5, "size": "XL"}),
        http_api({"order_id": "o-1"}),
        rest_api("{", headers=JSON),
        rest_api(),
        load_balancer(),
        {**http_api(), "body": "no base64", "isBase64Encoded": True},
        {**http_api(headers={"content-type": "application/vnd.api+json"}), "body": "[" * 100_000},
    ],
    ids=range(10),
)
def test_an_unreadable_request_is_the_clients_error(event: Event, context: Context) -> None:
    ready()
    response = handler(event, context)
    assert (response["statusCode"], body_of(response)) == (400, {"task_id": "", "error": "unreadable"})
    assert Order.get_task("o-1").state == Order.ship.pending


def test_a_body_in_base64_is_decoded(context: Context) -> None:
    ready()
    encoded = base64.b64encode(json.dumps(order()).encode()).decode()
    response = handler({**function_url(), "body": encoded, "isBase64Encoded": True}, context)
    assert response["statusCode"] == 200


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"body": "a=1&b=2"}, "a=1&b=2"),
        ({"body": "w6Q=", "isBase64Encoded": True}, "ä"),
        ({"body": "/w==", "isBase64Encoded": True}, b"\xff"),
        ({"body": ""}, None),
    ],
)
def test_a_body_that_is_no_json_is_passed_as_it_is(body: Event, seen: object, context: Context) -> None:
    ready()
    got: list[object] = []
    upload = handles(Order.ship, task_id="pathParameters.order_id")(lambda _ctx, event: got.append(event["body"]))
    upload({**http_api(path_parameters={"order_id": "o-1"}), **body}, context)
    assert got == [seen]


@pytest.mark.parametrize("where", ["headers.idempotency-key", "headers.Idempotency-Key"])
@every
def test_the_id_may_be_in_a_header_of_any_case(request_of: Callable[..., Event], where: str, context: Context) -> None:
    ready()
    by_header = handles(Order.ship, task_id=where)(lambda _ctx, event: event["headers"].get("IDEMPOTENCY-KEY"))
    assert body_of(by_header(request_of(headers={"idempotency-key": "o-1"}), context)) == "o-1"


def test_a_load_balancer_with_lists_of_values_is_answered_with_lists(context: Context) -> None:
    ready()
    event = load_balancer(order())
    event["multiValueHeaders"] = {name: [value] for name, value in event.pop("headers").items()}
    response = handler(event, context)
    assert response["multiValueHeaders"] == {"content-type": ["application/json"]}
    assert "headers" not in response


def test_the_function_may_return_the_response_itself_and_a_repeated_request_gets_it_too(context: Context) -> None:
    ready()
    created = {"statusCode": 201, "headers": {"Location": "/labels/1"}, "body": {"label": "L-1"}}
    create = handles(Order.ship, task_id="body.order_id", store_result=True)(lambda _ctx, _event: created)
    responses = [create(rest_api(order()), context) for _ in range(2)]
    headers = {**JSON, "location": "/labels/1"}
    assert (
        responses == [{"statusCode": 201, "headers": headers, "body": '{"label": "L-1"}', "isBase64Encoded": False}] * 2
    )


def test_a_response_of_text_keeps_its_type_and_one_without_a_body_is_empty(context: Context) -> None:
    ready()
    page = {"statusCode": 200, "headers": {"Content-Type": "text/html"}, "body": "<p>"}
    html = handles(Order.ship, task_id="body.order_id", store_result=True)(lambda _ctx, _event: page)
    empty = handles(Order.ship, task_id="body.order_id", respond=lambda _: {"statusCode": 204})(print_label)
    shown = html(http_api(order()), context)
    assert (shown["headers"], shown["body"]) == ({"content-type": "text/html"}, "<p>")
    assert (empty(http_api(order()), context)["statusCode"], empty(http_api(order()), context)["body"]) == (204, "")


@pytest.mark.parametrize("code", ["201", True, None])
def test_content_whose_status_code_is_not_a_number_is_the_body(code: object, context: Context) -> None:
    ready()
    content = {"statusCode": code}
    create = handles(Order.ship, task_id="body.order_id", respond=lambda _: content)(print_label)
    response = create(http_api(order()), context)
    assert (response["statusCode"], body_of(response)) == (200, content)


def test_a_status_code_may_be_a_member_of_an_enumeration(context: Context) -> None:
    ready()
    told = {"statusCode": HTTPStatus.CREATED, "body": "done"}
    create = handles(Order.ship, task_id="body.order_id", respond=lambda _: told)(print_label)
    response = create(http_api(order()), context)
    assert (json.dumps(response["statusCode"]), response["body"]) == ("201", "done")


@pytest.mark.parametrize("headers", ["headers", "multiValueHeaders"])
def test_a_header_with_a_list_of_values_has_no_other_one(headers: str, context: Context) -> None:
    ready()
    page = {"statusCode": 200, "multiValueHeaders": {"Content-Type": ["text/html"]}, "body": "<p>"}
    html = handles(Order.ship, task_id="body.order_id", respond=lambda _: page)(print_label)
    event = load_balancer(order())
    event[headers] = event.pop("headers") if headers == "headers" else {k: [v] for k, v in event.pop("headers").items()}
    response = html(event, context)
    assert response.get("headers", {}) | response["multiValueHeaders"] == {"Content-Type": ["text/html"]}


def test_answer_chooses_the_body_of_every_result(context: Context) -> None:
    def told(result: Invocation[Order]) -> dict[str, object]:
        return {"status": result.status, "repeated": result.repeated, "id": result.task_id, "label": result.result}

    tell = handles(Order.ship, task_id="body.order_id", store_result=True, respond=told)(print_label)

    missed = tell(http_api(order()), context)
    ready()
    failed = tell(http_api(order(broken=True)), context)
    first, again = [tell(http_api(order()), context) for _ in range(2)]
    unreadable = tell(http_api(), context)

    codes = [each["statusCode"] for each in (missed, failed, first, again, unreadable)]
    assert codes == [404, 500, 200, 200, 400]
    assert [body_of(each)["status"] for each in (missed, failed, first, again, unreadable)] == [
        "not_found", "failed", "succeeded", "succeeded", "unreadable",
    ]  # fmt: skip
    assert body_of(first) == {"status": "succeeded", "repeated": False, "id": "o-1", "label": LABEL}
    assert body_of(again) == {"status": "succeeded", "repeated": True, "id": "o-1", "label": LABEL}


def test_without_a_stored_answer_a_repeated_request_gets_the_state(context: Context) -> None:
    ready()
    plain = handles(Order.ship, task_id="body.order_id")(print_label)
    first, again = [plain(http_api(order()), context) for _ in range(2)]
    assert body_of(first) == LABEL
    assert (again["statusCode"], body_of(again)) == (
        200, {"task_id": "o-1", "use_case_id": "order", "state": "deliver pending"},
    )  # fmt: skip


def test_a_value_that_json_does_not_have_is_sent_as_text_unless_it_is_to_be_stored(context: Context) -> None:
    ready()
    plain = handles(Order.ship, task_id="body.order_id")(lambda _ctx, _event: {"price": Decimal("3.10")})
    assert plain(http_api(order()), context)["body"] == '{"price": "3.10"}'


@pytest.mark.parametrize("event", [http_api(order()), bare("o-1")], ids=["http", "direct"])
def test_a_result_that_no_client_can_read_fails_the_attempt_and_is_no_success(event: Event, context: Context) -> None:
    ready()
    task_id = "order_id" if "order_id" in event else "body.order_id"
    rated = handles(Order.ship, task_id=task_id, replies=Replies(failed="raise"))(lambda *_: {"rate": float("nan")})
    with pytest.raises(ValueError, match="JSON cannot express the function's result: Out of range"):
        rated(event, context)
    assert Order.get_task("o-1").state == Order.ship.failed


def test_replies_decide_what_is_an_error_of_the_function(context: Context) -> None:
    ready()
    alarming = handles(Order.ship, task_id="body.order_id", replies=Replies(failed="raise"))(print_label)
    with pytest.raises(Broken):
        alarming(http_api(order(broken=True)), context)


UNAVAILABLE = {"task_id": "o-1", "error": "unavailable"}


@every
def test_a_table_that_cannot_be_used_has_a_status_code(
    request_of: Callable[..., Event], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.ship, "start", no_access)
    response = handler(request_of(order()), context)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "5")
    assert body_of(response) == UNAVAILABLE


def test_a_task_that_kept_changing_during_its_start_is_a_conflict(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.ship, "start", raising(kept_changing_error(Order, "o-1", "start ship of", 9)))
    assert handler(http_api(order()), context)["statusCode"] == 409


def test_answer_chooses_the_body_where_the_table_cannot_be_used(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Invocation[Order]] = []
    noting = handles(Order.ship, task_id="body.order_id", respond=results.append)(print_label)
    monkeypatch.setattr(Order.ship, "start", no_access)
    assert noting(http_api(order()), context)["statusCode"] == 503
    assert (results[0].status, results[0].task, type(results[0].error)) == ("unavailable", None, UpdateError)


def test_a_success_with_an_unsent_message_has_a_status_code(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ready()
    url = "https://sqs.eu-west-1.amazonaws.com/1/next"
    handing_on = handles(Order.ship, task_id="body.order_id", next_queue_url=url)
    saying = handles(
        Order.ship, task_id="body.order_id", next_queue_url=url, respond=lambda result: type(result.error).__name__
    )
    monkeypatch.setattr(Queue, "send", lambda *_, **__: 1 / 0)
    response = handing_on(print_label)(http_api(order()), context)
    assert (response["statusCode"], body_of(response)) == (503, UNAVAILABLE)
    assert body_of(saying(print_label)(http_api(order()), context)) == "ZeroDivisionError"


def test_unless_the_replies_say_so_a_table_that_cannot_be_used_is_no_error_of_the_function(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising = handles(Order.ship, task_id="body.order_id", replies=Replies(unavailable="raise"))(print_label)
    monkeypatch.setattr(Order.ship, "start", no_access)
    with pytest.raises(UpdateError):
        raising(http_api(order()), context)


def test_a_function_that_is_stopped_from_outside_has_a_status_code(context: Context) -> None:
    ready()
    before = signal.signal(signal.SIGTERM, raising(SystemExit))
    try:
        stopped = handles(Order.ship, task_id="body.order_id")(lambda *_: signal.raise_signal(signal.SIGTERM))
        response = stopped(http_api(order()), context)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "1")
    assert body_of(response)["error"] == "released"
    assert (Order.get_task("o-1").state, Order.get_task("o-1").attempt) == (Order.ship.pending, 0)


def test_a_lost_lock_has_a_status_code(stopped_clock: StoppedClock, context: Context) -> None:
    ready()

    @handles(Order.ship, task_id="body.order_id")
    def freeze(_ctx: object, _event: object) -> None:
        stopped_clock.advance(timedelta(minutes=2))
        Order.ship.run("o-1", lambda _: None)

    assert freeze(http_api(order()), context)["statusCode"] == 503


def test_a_handler_of_http_requests_refuses_other_events(context: Context) -> None:
    http = handles(Order.ship, task_id="body.order_id", trigger="http")(print_label)
    with pytest.raises(UnreadableEventError, match="not from the trigger 'http'"):
        http(bare("o-1"), context)


def test_a_websocket_message_is_a_plain_event(context: Context) -> None:
    ready()
    context_of_api = {"routeKey": "ship", "eventType": "MESSAGE", "connectionId": "L0SM9cOFvHcCIhw="}
    event = {"requestContext": context_of_api, "body": json.dumps(order()), "isBase64Encoded": False}
    by_body = handles(Order.ship, task_id=lambda event: json.loads(event["body"])["order_id"])(lambda *_: LABEL)
    assert by_body(event, context) == LABEL


def test_a_request_is_a_plain_event_to_a_direct_handler(context: Context) -> None:
    ready()
    direct = handles(Order.ship, task_id=lambda event: json.loads(event["body"])["order_id"], trigger="direct")(
        lambda _ctx, event: {"statusCode": 202, "body": event["body"]}
    )
    assert direct(http_api(order()), context) == {"statusCode": 202, "body": json.dumps(order())}


@pytest.mark.parametrize(
    ("data_class", "event"),
    [
        (APIGatewayProxyEvent, rest_api(order())),
        (APIGatewayProxyEventV2, http_api(order())),
        (LambdaFunctionUrlEvent, function_url(order())),
    ],
)
def test_the_event_classes_of_powertools_work_around_the_handler_and_as_its_payload(
    data_class: Any, event: Event, context: Context
) -> None:
    ready()
    outer: Any = event_source(data_class=data_class)(handler)
    inner = handles(
        Order.ship, task_id=lambda event: event.json_body["order_id"], payload=data_class, store_result=True
    )(lambda _ctx, event: event.json_body["size"])
    assert body_of(outer(event, context)) == LABEL
    assert body_of(inner(event, context)) == LABEL
    Order.delete_task("o-1")
    ready()
    assert body_of(inner(event, context)) == "XL"


@pytest.mark.parametrize(
    "body", [base64.b64encode(b"\xff\x00").decode(), base64.b64encode(b"[" * 100_000 + b"]" * 100_000).decode()]
)
def test_a_body_that_cannot_be_compared_is_an_error_of_the_client(body: str, context: Context) -> None:
    ready()
    comparing = handles(Order.ship, task_id="headers.idempotency-key", must_match="body")(print_label)
    event = {**http_api(headers={"idempotency-key": "o-1"}), "body": body, "isBase64Encoded": True}
    response = comparing(event, context)
    assert (response["statusCode"], body_of(response)["error"]) == (400, "unreadable")
    assert Order.get_task("o-1").attempt == 0


def test_a_response_without_a_body_has_none(context: Context) -> None:
    ready()
    silent = handles(Order.ship, task_id="body.order_id", respond=lambda _: {"statusCode": 204, "body": None})
    assert silent(print_label)(http_api(order()), context)["body"] == ""
