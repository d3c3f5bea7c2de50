"""Makes a step's handler, which runs one task per event, or per record in a batch."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.delivery import Delivery, MustMatch, RecordRunner
from pynamodb_tracker.aws_lambda.emf import namespace_of
from pynamodb_tracker.aws_lambda.invocation import LambdaContext, RunningInvocation, TaskTimes, prepare_in_lambda
from pynamodb_tracker.aws_lambda.journal import InvocationLog
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.result import Invocation
from pynamodb_tracker.aws_lambda.trigger import Replies, TaskId, Trigger, TriggerName
from pynamodb_tracker.dynamodb.retries import ending_with
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.arguments import check_flags, check_parameters, check_threads, is_async, shown
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
    """A Lambda handler. Tests may pass None as the context."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function that gets the context and the payload."""

    def __call__(self, event: Any, context: LambdaContext | None) -> Any:
        """Return the response that the trigger expects, or raise the error that the caller gets."""


class StepHandler(Protocol[T_co]):
    """The result of `handles`: a decorator, and the handler for the step's bound function."""

    @overload
    def __call__(self, function: Callable[[ExecutionContext[T_co], Any], Any], /) -> Handler: ...

    @overload
    def __call__(self, function: "Callable[[AsyncContext[T_co], Any], Awaitable[Any]]", /) -> Handler: ...

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
    """Make a Lambda handler that runs the step for each event, or for each record in a batch.

    The result decorates a function that takes the context and the payload. It is also a handler itself, for the
    function that `does` has bound to the step: `handler = handles(Order.ship, task_id="order_id")`. An async function
    gets an AsyncContext, on an event loop that lives as long as the process, so you can keep clients there. A lock
    lasts one second longer than the invocation can. The request id is recorded as the worker.

    A direct or HTTP caller gets the function's result. If the step had succeeded before, it gets the stored result, or
    else the task's id and state. An HTTP client gets a status code for each result, and `retry-after` if another try
    makes sense. Its payload is the event with the body read as JSON, so `task_id="body.order_id"` and
    `"headers.idempotency-key"` are paths.

    The response to a batch has its `batchItemFailures`, which needs ReportBatchItemFailures. The handler raises an
    error if all records failed because of their table, or for Kafka, if any record failed:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html An unreadable event raises
    UnreadableEventError, and in a batch, such a record is redelivered.

    Args:
        step: The step to run.
        task_id: Where the payload has the task id: keys and list indexes with dots between them, or a function.
        trigger: The event source. By default, the event's shape tells. A bare event is direct unless you say "async".
        payload: Gets a record, or an event without records, and returns the payload. By default, that is the whole
            event or record, for S3 an event with that record alone, and for messages, Kinesis and Kafka their content,
            read as JSON.
        create_if_missing: Whether a task's first event creates it at this step and runs it. A function gets the payload
            and returns the task's attributes.
        replies: Which results are errors for the caller.
        must_match: Paths, or a function that gets the payload. If its values have changed since a handler first
            started the task, the event is refused with PayloadMismatchError.
        store_result: Whether to store the function's result with the success, as JSON of at most 262,144 bytes. All
            steps share the task's row of 400 KB.
        respond: Gets an `Invocation` and returns the caller's response, unless the outcome is an error.
        next_queue_url: The next step's queue. After a success, it gets `{"task_id": ...}`, and again if the event is
            redelivered while the task is pending there. If that fails, the record has failed. A FIFO queue keeps the
            message group.
        message_group: Gets the task and returns its tenant in a standard queue, which makes it a fair queue. By
            default, the task's group.
        threads: How many records in a batch run at once. A stream, a message group and a partition stay in order. If
            an earlier attempt may have killed the function, the task's last attempt runs alone, after the others.
        create_first: Whether to create a batch's missing tasks before its first record runs. If that record takes all
            the time or kills the function, a schedule finds the others without waiting for redelivery.
        metrics: Whether to write metrics in CloudWatch's embedded metric format, or their namespace.

    Raises:
        TypeError: An argument has the wrong type, or does not fit the others.
        ValueError: An argument has a value that is not allowed.

    Examples:
        >>> handler = handles(Order.ship, task_id="order_id")
        >>> assert handler({"order_id": "o-2"}, None)["state"] == "ship succeeded"
    """
    fixed = None if trigger is None else triggers.trigger_named(trigger)
    namespace = namespace_of(metrics)
    if message_group is not None and next_queue_url is None:
        raise TypeError("message_group needs next_queue_url")
    check_step(step)
    queue = None if next_queue_url is None else Queue("next_queue_url", next_queue_url, step.model, message_group)

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
        return _build_handler(function, runner, fixed, namespace)

    bound = decorate(lambda ctx, _: for_threads(any_function_of(step, None))(ctx))
    prepare_in_lambda(step, queue, with_payload=must_match is not None)

    def decorate_or_handle(given: Any, context: Any = _ABSENT) -> Any:
        if context is _ABSENT:
            return decorate(given)
        any_function_of(step, None)  # raises if there is none, before a task is claimed
        return bound(given, context)

    return decorate_or_handle


def _build_handler(
    function: Callable[..., Any], runner: RecordRunner[Any], fixed: Trigger | None, namespace: str | None
) -> Handler:
    step, times = runner.step, TaskTimes()

    @wraps(function)
    def handler(event: Any, context: LambdaContext | None) -> Any:
        trigger = fixed or triggers.trigger_of(event)
        invocation = RunningInvocation(context, times)
        log = InvocationLog(step.model, step.name, invocation, trigger.name, namespace)
        invocation.on_start = log.attempt_started
        with working_as(invocation.request_id), ending_with(invocation.deadline):
            return Delivery(runner, trigger, invocation, log).process(event)

    return cast("Handler", handler)  # functools sets __wrapped__


def _check(runner: RecordRunner[Any]) -> None:
    check_parameters(runner.function, "ctx", "event")
    with suppress(ValueError):  # from functions in C
        if list(inspect.signature(runner.function).parameters)[:2] == ["event", "context"]:
            raise TypeError(f"this takes a function of (ctx, event), and {shown(runner.function)} has (event, context)")
    check_threads(runner.threads)
    triggers.check_place("task_id", runner.task_id)
    creates = runner.create_if_missing
    if not (isinstance(creates, bool) or callable(creates)):
        raise TypeError(
            "create_if_missing is True, False, or a function that gets the payload and returns attributes, "
            f"not {shown(creates)}"
        )
    paths: object = (runner.must_match,) if isinstance(runner.must_match, str) else runner.must_match
    is_paths = isinstance(paths, Sequence) and bool(paths) and all(map(triggers.is_path, paths))
    if not (paths is None or callable(paths) or is_paths):
        raise TypeError(
            'must_match is one or more paths, such as "detail.amount", or a function that gets the payload, '
            f"not {shown(runner.must_match)}"
        )
    check_flags(store_result=runner.store_result, create_first=runner.creates_first)
    if runner.creates_first and not runner.create_if_missing:
        raise TypeError("create_first needs create_if_missing")
    if not isinstance(runner.replies, Replies):
        raise TypeError(f"replies are Replies(...), not {shown(runner.replies)}")
    for name in ("task_id", "payload", "create_if_missing", "must_match", "respond"):
        if is_async(given := getattr(runner, name)):
            raise TypeError(f"{name} is not awaited, so it cannot be the async {shown(given)}: write def")
    for name, function in {"payload": runner.payload, "respond": runner.respond}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"{name} is a function, not {shown(function)}")


def check_step(step: object) -> BoundStep[Any]:
    if not isinstance(step, BoundStep):
        raise TypeError(f"this takes a step, such as Order.ship, not {shown(step)}")
    return step
