"""Batches while the table does not answer, and on several threads."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.aws_lambda import Replies, UnreadableEventError, handles, retry_handler
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, fifo, kafka, kinesis, names, sqs
from tests.aws_lambda.shop import Broken, Context, Order, no_access, ready, ship, states
from tests.aws_lambda.test_batches import BROKEN
from tests.support.workers import die, raising

handler = handles(Order.ship, task_id="order_id")(ship)


def no_access_to(*task_ids: str) -> Callable[..., Any]:
    """Return a `start` to which the table denies access for these tasks."""
    start = Order.ship.start
    return lambda task_id, **more: no_access() if task_id in task_ids else start(task_id, **more)


@pytest.mark.parametrize("event", [sqs, kinesis, lambda *bodies: kafka([*bodies])])
def test_a_batch_that_could_not_run_is_an_error(event: Any, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship, "start", no_access)
    with pytest.raises(UpdateError, match="AccessDenied"):
        handler(event(bare("o-1"), bare("o-2")), context)
    with pytest.raises(UpdateError, match="AccessDenied"):
        handler(event(bare("o-1"), {"no": "id"}), context)


def test_a_batch_with_one_run_is_no_error_of_the_function(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1", "o-2")
    monkeypatch.setattr(Order.ship, "start", no_access_to("o-1", "o-3"))
    assert names(handler(sqs(bare("o-1"), bare("o-2", **BROKEN), bare("o-3")), context)) == ["m-1", "m-2", "m-3"]


def test_acknowledged_records_are_no_error_of_the_function(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order.ship, "start", no_access)
    scheduled = handles(Order.ship, task_id="order_id", replies=Replies(unavailable="ack"))(ship)
    assert names(scheduled(sqs(bare("o-1"), bare("o-2")), context)) == []


def test_records_that_no_attempt_would_help_are_no_error_of_the_function(context: Context) -> None:
    assert names(handler(sqs("{", bare("missing")), context)) == ["m-1", "m-2"]


def test_an_unrecorded_success_is_an_error_of_the_function(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ready("o-1")
    monkeypatch.setattr("pynamodb_tracker.transitions.succeed", no_access)
    with pytest.raises(UpdateError):
        handler(sqs(bare("o-1")), context)


@pytest.mark.parametrize("replies", [Replies(locked="ack"), Replies(not_ready="ack"), Replies(failed="ack")])
def test_replies_that_would_break_the_order_of_a_fifo_queue_are_refused(replies: Replies, context: Context) -> None:
    ready("o-1")
    hasty = handles(Order.ship, task_id="order_id", replies=replies)(ship)
    with pytest.raises(
        ValueError, match=r'Replies\(\w+="ack"\) breaks the order of a FIFO queue.*no retry_delay.*group='
    ):
        hasty(fifo(("a", bare("o-1"))), context)
    assert states("o-1") == ["ship pending"]
    assert names(hasty(sqs(bare("o-1"), MessageGroupId="a"), context)) == []


def test_a_fifo_queue_keeps_its_order_while_a_task_without_delay_is_tried_at_each_delivery(context: Context) -> None:
    ready("o-1", "o-2")
    event = fifo(("a", bare("o-1", broken="no ink")), ("a", bare("o-2")))
    assert names(handler(event, context)) == ["m-1", "m-2"]
    assert names(handler(event, context)) == []  # it was the last attempt
    assert states("o-1", "o-2") == ["ship ignored", "deliver pending"]
    assert Order.get_task("o-1").fence == 2


def test_a_group_keeps_the_order_of_messages_of_a_standard_queue_while_a_task_waits_for_its_next_attempt(
    clock: StoppedClock, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order.ship._definition.declared, "retry_delay", timedelta(hours=1))
    for task_id in ("o-1", "o-2"):
        Order.create(task_id, state=Order.ship.pending, group="customer-7")
    shipping = handles(Order.ship, task_id="order_id", replies=Replies(failed="ack", not_ready="ack"))(ship)
    assert names(shipping(sqs(bare("o-1", broken="no ink"), bare("o-2")), context)) == []
    assert states("o-1", "o-2") == ["ship failed", "ship pending"]
    clock.advance(timedelta(hours=1))
    ran: list[str] = []
    for step in (Order.ship, Order.deliver):
        monkeypatch.setattr(step, "function", lambda ctx: ran.append(ctx.task.task_id))
    assert retry_handler([Order])({}, Context(clock))["succeeded"] == 4
    assert ran == ["o-1", "o-1", "o-2", "o-2"]


def test_threads_run_records_at_once(context: Context) -> None:
    ready("o-1", "o-2", "o-3")
    both = threading.Barrier(2, timeout=60)

    @handles(Order.ship, task_id="order_id", threads=2)
    def meet(ctx: ExecutionContext[Order], event: Any) -> None:
        if ctx.task.task_id != "o-3":
            both.wait()
        ship(ctx, event)

    assert names(meet(sqs(bare("o-1"), bare("o-2"), "{", bare("o-3", **BROKEN)), context)) == ["m-3", "m-4"]
    assert states("o-1", "o-2", "o-3") == ["deliver pending", "deliver pending", "ship failed"]
    assert Order.get_task("o-2").worker == context.aws_request_id


def test_threads_keep_the_order_of_a_message_group(context: Context) -> None:
    ids = [f"{group}-{number}" for group in "ab" for number in range(3)]
    ready(*ids)
    ran = list[str]()

    @handles(Order.ship, task_id="order_id", threads=4)
    def note(ctx: ExecutionContext[Order], _event: Any) -> None:
        ran.append(ctx.task.task_id)
        if ctx.task.task_id == "a-1":
            raise Broken

    messages = [(task_id[0], bare(task_id)) for task_id in sorted(ids, key=lambda task_id: task_id[2])]
    assert names(note(fifo(*messages), context)) == ["m-3", "m-5"]
    assert [task_id for task_id in ran if task_id[0] == "b"] == ["b-0", "b-1", "b-2"]
    assert [task_id for task_id in ran if task_id[0] == "a"] == ["a-0", "a-1"]


def test_the_last_attempt_at_a_task_that_may_have_killed_the_function_runs_alone_after_the_others(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ready("a-0", "a-1", "b-0", "c-0", "d-0")
    for task_id in ("a-0", "b-0"):
        die(Order.ship, task_id)
    clock.advance(timedelta(hours=1))
    both, running, seen = threading.Barrier(2, timeout=60), set[str](), list[tuple[str, set[str]]]()

    @handles(Order.ship, task_id="order_id", threads=4)
    def note(ctx: ExecutionContext[Order], _event: Any) -> None:
        running.add(ctx.task.task_id)
        if ctx.task.task_id in ("c-0", "d-0"):
            both.wait()
        seen.append((ctx.task.task_id, {*running}))
        running.discard(ctx.task.task_id)

    messages = [(task_id[0], bare(task_id)) for task_id in ("a-0", "a-1", "b-0", "c-0", "d-0")]
    assert names(note(fifo(*messages), Context(clock))) == []
    assert {task_id for task_id, _ in seen[:2]} == {"c-0", "d-0"}
    alone = [(task_id, {task_id}) for task_id in ("a-0", "a-1", "b-0")]
    assert sorted(seen[2:], key=str) == sorted(alone, key=str)
    assert [task_id for task_id, _ in seen if task_id[0] == "a"] == ["a-0", "a-1"]
    assert caplog.text.count("waits until all others have ended") == 2


def test_a_message_that_comes_alone_makes_a_last_attempt_at_once(clock: StoppedClock) -> None:
    ready("o-1", "o-2")
    die(Order.ship, "o-1")
    die(Order.ship, "o-2")
    clock.advance(timedelta(hours=1))
    threaded = handles(Order.ship, task_id="order_id", threads=4)(ship)
    assert names(threaded(sqs(bare("o-1")), Context(clock))) == []
    threaded(bare("o-2"), Context(clock))
    assert [Order.get_task(task_id).fence for task_id in ("o-1", "o-2")] == [2, 2]


def test_threads_run_a_stream_in_order_and_stop_at_its_first_failure(context: Context) -> None:
    ready("o-1", "o-2", "o-3")

    @handles(Order.ship, task_id="order_id", threads=4)
    def run(ctx: ExecutionContext[Order], event: Any) -> None:
        assert Order.ship.succeeded.count() == int(ctx.task.task_id[-1]) - 1
        ship(ctx, event)

    assert names(run(kinesis(bare("o-1"), bare("o-2", **BROKEN), bare("o-3")), context)) == ["s-2"]
    assert states("o-3") == ["ship pending"]


def test_a_thread_whose_function_is_interrupted_ends_the_batch(context: Context) -> None:
    ready("o-1")
    interrupt = handles(Order.ship, task_id="order_id", threads=2)(raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        interrupt(sqs(bare("o-1"), "{"), context)


def test_a_record_that_cannot_be_read_is_no_error_of_the_function_on_threads(context: Context) -> None:
    threaded = handles(Order.ship, task_id="order_id", threads=2)(ship)
    assert names(threaded(sqs("{", "{"), context)) == ["m-1", "m-2"]
    with pytest.raises(UnreadableEventError):
        threaded({}, context)
