"""The handler of a step: one task per event, or per record of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from pynamodb_tracker.arguments import check_flags, check_parameters, check_threads, is_async, shown
from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.delivery import Delivery, MustMatch, RecordRunner
from pynamodb_tracker.aws_lambda.emf import namespace_of
from pynamodb_tracker.aws_lambda.invocation import LambdaContext, RunningInvocation, TaskTimes, prepare_in_lambda
from pynamodb_tracker.aws_lambda.journal import InvocationLog
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.result import Invocation
from pynamodb_tracker.aws_lambda.trigger import Replies, TaskId, TriggerName
from pynamodb_tracker.dynamodb.retries import ending_with
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.worker_name import working_as
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import any_function_of, for_threads

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext

T = TypeVar("T", bound=TaskRow)
T_co = TypeVar("T_co", bound=TaskRow, covariant=True)

_ABSENT = object()


class Handler(Protocol):
    """What Lambda calls, with the event and its context; tests may pass None as the context."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function of the context and the payload."""

    def __call__(self, event: Any, context: LambdaContext | None) -> Any:
        """Return what the trigger expects, or raise the error that the caller is to get."""


class StepHandler(Protocol[T_co]):
    """What `handles` returns: a decorator of a function, and the handler of the function that is bound to the step."""

    @overload
    def __call__(self, function: Callable[[ExecutionContext[T_co], Any], Any], /) -> Handler: ...

    @overload
    def __call__(self, function: Callable[[AsyncContext[T_co], Any], Awaitable[Any]], /) -> Handler: ...

    @overload
    def __call__(self, event: Any, context: LambdaContext | None, /) -> Any: ...


def handles(
    step: BoundStep[T],
    *,
    task_id: TaskId,
    trigger: TriggerName | None = None,
    payload: Callable[[Any], Any] | None = None,
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]] = False,
    replies: Replies | None = None,
    must_match: MustMatch | None = None,
    store_result: bool = False,
    respond: Callable[[Invocation[T]], Any] | None = None,
    next_queue_url: str | None = None,
    message_group: Callable[[T], str | None] | None = None,
    threads: int = 1,
    create_first: bool = False,
    metrics: bool | str = False,
) -> StepHandler[T]:
    """Make a Lambda handler of a function of the context and the payload: it runs the step for each event or record.

    It returns a decorator for that function, which is also a handler itself: of the function of the context that `does`
    has bound to the step, as in `handler = handles(Order.ship, task_id="order_id")`. An async function gets an
    AsyncContext, and runs on an event loop that lives as long as the process, so it can open clients there and keep
    them for later invocations. A lock lasts one second longer than the invocation can; the request id is the worker.
    `task_id` says where the payload has the id: keys and list indexes with dots between them, or a function. The
    `trigger` is detected by the shape of the event; a bare event is direct, unless you say "async". `payload` is a
    function of the record, or of the event if it has no records; by default, the payload is the whole of it, for S3 an
    event with that record alone, and for messages, Kinesis and Kafka their content, read as JSON. `create_if_missing`
    creates a task on its first event, at this step, and runs it; a function of the payload returns its attributes. With
    `create_first`, the tasks of a batch are created before its first record is run: if that takes all the time, or
    kills the function, a schedule finds the others at once, and nobody waits for their redelivery. `replies` decide
    what is an error to the caller. `must_match`, paths or a function of the payload, tells a repeated event from
    another payload for the same task, which is refused with PayloadMismatchError. A direct or HTTP caller gets what the
    function returns. With `store_result`, that is stored with the success as JSON of at most 262,144 bytes, and a
    repeated event gets it, too; without, that gets the id and the state of the task. The results of all steps of a task
    share its row of 400 KB. `respond`, a function of an `Invocation`, is called for every outcome that is not an error,
    and returns what the caller gets. An HTTP request has a status code for each result, and `retry-after` where another
    try makes sense; its payload is the event with the body read as JSON, so that `task_id="body.order_id"` and
    `"headers.idempotency-key"` are paths. `next_queue_url` is the URL of the next step's queue: once the success is
    recorded, `{"task_id": ...}` is sent there, and again if the event is redelivered while the task is pending there;
    if that fails, the record has failed. A FIFO queue keeps the message group. In a standard queue, it is the tenant of
    a fair queue: the group of the task, or what `message_group` returns of it. `threads` run the records of a batch at
    once; a stream, a message group and a partition stay in order. `metrics` are written in CloudWatch's embedded metric
    format, in a namespace of your own if you name one. A batch is answered with its `batchItemFailures`, which needs
    ReportBatchItemFailures, but one of Kafka with an error if any record failed:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html It also raises an error if every record
    failed because of the table, if that was throttled or not reached, say. The handler raises UnreadableEventError if
    an event cannot be read; a record of a batch is redelivered.

    Examples:
        >>> handler = handles(Order.ship, task_id="order_id")
        >>> assert handler({"order_id": "o-2"}, None)["state"] == "ship succeeded"
    """
    fixed = None if trigger is None else triggers.trigger_named(trigger)
    namespace = namespace_of(metrics)
    if message_group is not None and next_queue_url is None:
        raise TypeError("message_group is that of the messages to the next queue: give that, too, as next_queue_url")
    queue = (
        None
        if next_queue_url is None
        else Queue("next_queue_url", next_queue_url, check_step(step).model, message_group)
    )

    def decorate(function: Callable[[ExecutionContext[T], Any], Any]) -> Handler:
        runner = RecordRunner(
            step=step,
            function=for_threads(function),
            task_id=task_id,
            payload=payload,
            create_if_missing=create_if_missing,
            replies=Replies() if replies is None else replies,
            must_match=must_match,
            store_result=store_result,
            respond=respond,
            next_queue=queue,
            threads=threads,
            creates_first=create_first,
        )
        _check(runner)
        times = TaskTimes()

        @wraps(function)
        def handler(event: Any, context: LambdaContext | None) -> Any:
            used = fixed or triggers.trigger_of(event)
            invocation = RunningInvocation(context, times)
            log = InvocationLog(step.model, step.name, invocation, used.name, namespace)
            invocation.on_start = log.attempt_started
            with working_as(invocation.request_id), ending_with(invocation.deadline):
                return Delivery(runner, used, invocation, log).process(event)

        return cast("Handler", handler)  # functools sets __wrapped__

    bound = decorate(lambda ctx, _: for_threads(any_function_of(step, None))(ctx))
    prepare_in_lambda(step, queue, with_payload=must_match is not None)

    def decorate_or_handle(given: Any, context: Any = _ABSENT) -> Any:
        if context is _ABSENT:
            return decorate(given)
        any_function_of(step, None)  # an error if there is none, before a task is claimed
        return bound(given, context)

    return decorate_or_handle


def _check(runner: RecordRunner[Any]) -> None:
    """Refuse wrong arguments before the first event arrives."""
    check_step(runner.step)
    check_parameters(runner.function, "ctx", "event")
    _check_is_no_handler(runner.function)
    check_threads(runner.threads)
    triggers.check_place("task_id", runner.task_id)
    if not (isinstance(runner.create_if_missing, bool) or callable(runner.create_if_missing)):
        raise TypeError(
            "create_if_missing is True, False, or a function of the payload that returns attributes, "
            f"not {shown(runner.create_if_missing)}"
        )
    paths: object = (runner.must_match,) if isinstance(runner.must_match, str) else runner.must_match
    is_paths = isinstance(paths, Sequence) and bool(paths)
    if not (
        paths is None or callable(paths) or (is_paths and all(map(triggers.is_path, cast("Sequence[object]", paths))))
    ):
        raise TypeError(
            'must_match is a path, such as "detail.amount", several of them, or a function of the payload, '
            f"not {shown(runner.must_match)}"
        )
    check_flags(store_result=runner.store_result, create_first=runner.creates_first)
    if runner.creates_first and not runner.create_if_missing:
        raise TypeError("create_first is about tasks that create_if_missing creates: give that, too")
    if not isinstance(runner.replies, Replies):
        raise TypeError(f"replies are Replies(...), not {shown(runner.replies)}")
    for name in ("task_id", "payload", "create_if_missing", "must_match", "respond"):
        if is_async(given := getattr(runner, name)):
            raise TypeError(f"{name} is not awaited, so it is not the async {shown(given)}: write def, without async")
    for name, function in {"payload": runner.payload, "respond": runner.respond}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"{name} is a function, not {shown(function)}")


def _check_is_no_handler(function: Callable[..., Any]) -> None:
    """Refuse a function that has the parameters of a Lambda handler."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # some functions that are written in C have no signature
        return
    if list(parameters)[:2] == ["event", "context"]:
        raise TypeError(f"this takes a function of (ctx, event), and {shown(function)} has (event, context)")


def check_step(step: object) -> BoundStep[Any]:
    """Return a step of a use case; refuse anything else."""
    if not isinstance(step, BoundStep):
        raise TypeError(f"this takes a step of a use case, such as Order.ship, not {shown(step)}")
    return step
