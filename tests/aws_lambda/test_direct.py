"""One task per event: how the caller is answered."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker import (
    ExecutionContext,
    GiveUp,
    LockLostError,
    TaskIgnoredError,
    TaskLockedError,
    TaskNotFoundError,
    TaskNotReadyError,
    TaskNotStartableError,
)
from pynamodb_tracker.aws_lambda import Invocation, Replies, UnreadableEventError, handles
from pynamodb_tracker.testing import StoppedClock
from tests.aws_lambda.events import bare, eventbridge
from tests.aws_lambda.shop import REQUEST, Broken, Context, Order, ignored, ready, ship, states
from tests.support.workers import FrozenError, die, raising

DONE = {"task_id": "o-1", "use_case_id": "order", "state": "deliver pending"}

direct = handles(Order.ship, task_id="order_id")(ship)
asynchronous = handles(Order.ship, task_id="order_id", trigger="async")(ship)
by_bus = handles(Order.ship, task_id="detail.order_id")(lambda ctx, event: ship(ctx, event["detail"]))


def label_in(result: Invocation[Order]) -> str | None:
    return result.task.label if result.task else None


def succeeded() -> None:
    Order.create("o-1", state=Order.ship.succeeded)


def locked() -> None:
    ready()
    die(Order.ship, "o-1")


def not_ready() -> None:
    Order.create("o-1")


def missing() -> None:
    pass


def test_an_event_runs_its_task_and_its_state_is_the_answer(context: Context) -> None:
    ready()
    assert direct(bare("o-1"), context) == DONE
    task = Order.get_task("o-1")
    assert (task.state, task.label, task.worker) == (Order.ship.succeeded, "label of o-1", REQUEST)


def test_what_the_function_returns_is_the_answer(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id")(lambda ctx, sent: {"label": f"{ctx.task.task_id} {sent['size']}"})
    assert handler(bare("o-1", size="XL"), context) == {"label": "o-1 XL"}
    assert handler(bare("o-1", size="XL"), context) == DONE


def test_an_answer_of_the_task_is_the_same_whether_it_succeeded_now_or_before(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", respond=lambda result: {"label": label_in(result)})(ship)
    assert [handler(bare("o-1"), context) for _ in range(2)] == [{"label": "label of o-1"}] * 2


def test_without_a_function_it_handles_with_the_bound_one(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id")
    monkeypatch.setattr(Order.ship, "function", lambda ctx: f"{ctx.task.task_id} shipped")
    assert handler(bare("o-1"), context) == "o-1 shipped"


def test_without_any_function_no_task_is_claimed(context: Context) -> None:
    ready()
    with pytest.raises(TypeError, match=r"no function is bound to Order\.ship"):
        handles(Order.ship, task_id="order_id")(bare("o-1"), context)
    assert Order.get_task("o-1").fence == 0


def test_the_function_stays_at_hand_for_tests_of_its_own(context: Context) -> None:
    ready()
    with Order.ship.start("o-1") as ctx:
        direct.__wrapped__(ctx, {})
    assert Order.get_task("o-1").label == "label of o-1"
    assert context.get_remaining_time_in_millis() == 30_000


@pytest.mark.parametrize(("handler", "event"), [(direct, bare), (asynchronous, bare), (by_bus, eventbridge)])
@pytest.mark.parametrize(
    ("prepare", "error"), [(locked, TaskLockedError), (not_ready, TaskNotReadyError), (missing, TaskNotFoundError)]
)
@pytest.mark.usefixtures("clock")
def test_what_may_start_later_is_an_error_to_every_caller(
    handler: Callable[..., Any],
    event: Callable[..., Any],
    prepare: Callable[[], None],
    error: type[TaskNotStartableError],
    context: Context,
) -> None:
    prepare()
    with pytest.raises(error) as refused:
        handler(event("o-1"), context)
    assert type(refused.value) is error


@pytest.mark.parametrize(("handler", "event"), [(direct, bare), (asynchronous, bare), (by_bus, eventbridge)])
def test_a_task_that_succeeded_before_is_not_an_error(
    handler: Callable[..., Any], event: Callable[..., Any], context: Context
) -> None:
    succeeded()
    assert handler(event("o-1"), context) == DONE


def test_an_ignored_task_is_an_error_to_a_caller_and_none_to_a_trigger_that_retries(context: Context) -> None:
    ignored()
    answer = {**DONE, "state": "ship ignored"}
    with pytest.raises(TaskIgnoredError):
        direct(bare("o-1"), context)
    assert asynchronous(bare("o-1"), context) == answer
    assert by_bus(eventbridge("o-1"), context) == answer


def test_a_failure_leaves_and_the_next_event_is_the_next_attempt(context: Context) -> None:
    ready()
    for handler in (direct, asynchronous):
        with pytest.raises(Broken):
            handler(bare("o-1", broken="no paper"), context)
        Order.ship.reopen("o-1")
    with pytest.raises(Broken):
        by_bus(eventbridge("o-1", broken="no ink"), context)
    task = Order.get_task("o-1")
    assert (task.state, task.last_error) == (Order.ship.failed, "Broken: no ink")


def test_the_last_failure_is_an_error_to_a_caller_and_none_to_a_trigger_that_retries(context: Context) -> None:
    for task_id, handler in (("o-1", direct), ("o-2", asynchronous)):
        ready(task_id)
        with pytest.raises(Broken):
            handler(bare(task_id, broken="no paper"), context)
    with pytest.raises(Broken):
        direct(bare("o-1", broken="no ink"), context)
    assert asynchronous(bare("o-2", broken="no ink"), context)["state"] == "ship ignored"
    assert Order.get_task("o-1").state == Order.get_task("o-2").state == Order.ship.ignored


def test_giving_up_sets_the_task_aside(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", trigger="async")(raising(GiveUp("no such street")))
    assert handler(bare("o-1"), context)["state"] == "ship ignored"


@pytest.mark.parametrize(
    ("prepare", "replies", "state"),
    [
        (locked, Replies(locked="ack"), "ship in_progress"),
        (not_ready, Replies(not_ready="ack"), "confirm pending"),
        (missing, Replies(not_found="ack"), None),
        (ignored, Replies(ignored="ack"), "ship ignored"),
    ],
)
@pytest.mark.usefixtures("clock")
def test_replies_choose_what_is_not_an_error(
    prepare: Callable[[], None], replies: Replies, state: str | None, context: Context
) -> None:
    prepare()
    handler = handles(Order.ship, task_id="order_id", replies=replies)(ship)
    assert handler(bare("o-1"), context) == {**DONE, "state": state}


def test_replies_choose_what_is_an_error(context: Context) -> None:
    succeeded()
    handler = handles(Order.ship, task_id="order_id", replies=Replies(succeeded="raise"))(ship)
    with pytest.raises(TaskNotStartableError, match="done"):
        handler(bare("o-1"), context)


def test_a_failure_may_be_left_to_the_scheduled_retry(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", replies=Replies(failed="ack"))(ship)
    assert handler(bare("o-1", broken="no paper"), context)["state"] == "ship failed"


def test_the_lock_ends_a_second_after_the_invocation(clock: StoppedClock) -> None:
    ready()
    seen = []
    handler = handles(Order.ship, task_id="order_id")(lambda ctx, _: seen.append(ctx.lock_expire_time - clock.now()))
    handler(bare("o-1"), Context(clock, 7.5))
    assert seen == [timedelta(seconds=8.5)]


def test_a_task_whose_invocation_was_ended_is_free_once_that_would_be_over(clock: StoppedClock) -> None:
    ready()
    dies = handles(Order.ship, task_id="order_id")(raising(Killed))
    with pytest.MonkeyPatch.context() as patch:  # nothing of the run is recorded
        patch.setattr("pynamodb_tracker.execution.run.Run.__exit__", lambda *_: False)
        with pytest.raises(Killed):
            dies(bare("o-1"), Context(clock, 30))
    clock.advance(timedelta(seconds=31))
    with pytest.raises(TaskLockedError):
        direct(bare("o-1"), Context(clock, 30))
    clock.advance(timedelta(seconds=2.1))  # the margin for clocks that differ
    assert direct(bare("o-1"), Context(clock, 30)) == DONE


class Killed(BaseException):
    """The process is gone."""


def test_a_run_that_lost_its_lock_is_an_error_whatever_the_trigger(clock: StoppedClock) -> None:
    ready()

    @handles(Order.ship, task_id="order_id", trigger="async")
    def freezes(ctx: ExecutionContext[Order], _event: object) -> None:
        ctx.task.label = "too late"
        clock.advance(timedelta(minutes=2))
        Order.ship.run("o-1", lambda _: None)

    with pytest.raises(LockLostError):
        freezes(bare("o-1"), Context(clock, 30))
    assert Order.get_task("o-1").label is None


def test_without_a_context_the_lock_lasts_as_the_step_says(clock: StoppedClock) -> None:
    ready()
    seen = []
    handler = handles(Order.ship, task_id="order_id")(
        lambda ctx, _event: seen.append((ctx.lock_expire_time - clock.now(), ctx.task.worker))
    )
    handler(bare("o-1"), None)
    [(lasts, worker)] = seen
    assert lasts == timedelta(minutes=5)
    assert worker != REQUEST


@pytest.mark.parametrize(
    "event",
    [
        {},
        None,
        [],
        "o-1",
        {"id": "o-1"},
        {"order_id": None},
        {"order_id": 1001},
        {"order_id": ""},
        {"order_id": "o" * 1025},
        {"Records": [{"s3": {}}]},
        {"Records": "o-1"},
        {"Records": []},
        {"Records": [{"eventSource": []}]},
    ],
    ids=str,
)
def test_an_event_without_a_task_id_is_refused(event: Any, context: Context) -> None:
    with pytest.raises(UnreadableEventError):
        direct(event, context)


def test_a_path_leads_through_objects_only(context: Context) -> None:
    handler = handles(Order.ship, task_id="detail.order_id")(ship)
    with pytest.raises(
        UnreadableEventError, match=r"'order_id' of the path 'detail.order_id' is not in a str of length 3"
    ):
        handler({"detail": "o-1"}, context)


def test_what_a_function_for_the_task_id_raises_is_reported(context: Context) -> None:
    handler = handles(Order.ship, task_id=lambda event: event["a"]["b"])(ship)
    with pytest.raises(UnreadableEventError, match=r"task_id raised KeyError for an object with \['a'\]"):
        handler({"a": {}}, context)


def test_an_error_contains_the_shape_of_an_event_and_none_of_its_values(context: Context) -> None:
    with pytest.raises(UnreadableEventError) as refused:
        direct({"card": "4111 1111"}, context)
    assert "'card'" in str(refused.value)
    assert "4111" not in str(refused.value)


def test_a_handler_of_one_trigger_refuses_the_others(context: Context) -> None:
    handler = handles(Order.ship, task_id="detail.order_id", trigger="eventbridge")(ship)
    with pytest.raises(UnreadableEventError, match="not from the trigger 'eventbridge'"):
        handler({"detail": {"order_id": "o-1"}}, context)


def test_the_function_gets_the_custom_payload(context: Context) -> None:
    ready()
    handler = handles(Order.ship, task_id="order_id", payload=lambda event: event["detail"])(ship)
    with pytest.raises(Broken, match="no paper"):
        handler(eventbridge("o-1", broken="no paper"), context)


def test_a_function_that_starts_a_task_itself_fails_with_its_refusal(context: Context) -> None:
    ready()
    ready("o-2")

    @handles(Order.ship, task_id="order_id", trigger="async")
    def handler(_ctx: object, _event: object) -> None:
        with Order.ship.start("o-2"), Order.ship.start("o-2"):
            pass

    with pytest.raises(TaskLockedError):
        handler(bare("o-1"), context)
    assert Order.get_task("o-1").state == Order.ship.failed


def test_what_the_function_returned_is_no_answer_where_that_could_not_be_recorded(context: Context) -> None:
    ready()

    @handles(Order.ship, task_id="order_id", replies=Replies(ignored="ack"))
    def handler(ctx: ExecutionContext[Order], _event: object) -> dict[str, bool]:
        ctx.task.amount = float("nan")
        return {"shipped": True}

    assert handler(bare("o-1"), context) == {**DONE, "state": "ship ignored"}


def seen(result: Invocation[Order]) -> tuple[object, ...]:
    return result.status, label_in(result), result.task and result.task.state


def test_an_answer_has_nothing_that_a_failed_attempt_assigned(context: Context) -> None:
    ready()

    @handles(Order.ship, task_id="order_id", replies=Replies(failed="ack"), respond=seen)
    def handler(ctx: ExecutionContext[Order], _event: object) -> None:
        ctx.task.label = "L-1"
        raise Broken

    assert handler(bare("o-1"), context) == ("failed", None, Order.ship.failed)


def test_a_state_machine_that_hands_on_an_event_of_a_bus_listens_if_the_handler_says_so(context: Context) -> None:
    ignored()
    handler = handles(Order.ship, task_id="detail.order_id", trigger="direct")(ship)
    with pytest.raises(TaskIgnoredError):
        handler(eventbridge("o-1"), context)


async def unawaited() -> None: ...


@pytest.mark.parametrize(
    ("function", "error", "state"),
    [
        (raising(FrozenError("it broke")), FrozenError("it broke"), "ship failed"),
        (raising(UnreadableEventError("no size in it")), UnreadableEventError("no size in it"), "ship failed"),
        (raising(KeyboardInterrupt("now")), KeyboardInterrupt("now"), "ship pending"),
        (raising(SystemExit(3)), SystemExit(3), "ship failed"),
        (lambda _ctx, _event: unawaited(), TypeError("returned an awaitable"), "ship failed"),
    ],
    ids=["frozen", "of the library", "Ctrl-C", "exit", "not awaited"],
)
def test_what_the_function_raises_leaves_as_it_is_and_is_recorded(
    function: Any, error: BaseException, state: str, context: Context
) -> None:
    ready()
    with pytest.raises(type(error), match=str(error)):
        handles(Order.ship, task_id="order_id")(function)(bare("o-1"), context)
    assert states("o-1") == [state]
