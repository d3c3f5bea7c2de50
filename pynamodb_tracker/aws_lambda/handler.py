"""The handler of a step: one task per event, or per record of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
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
    """A Lambda handler. Tests may pass None as the context."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function of the context and the payload."""

    def __call__(self, event: Any, context: LambdaContext | None) -> Any:
        """Return what the trigger expects, or raise the error that the caller is to get."""


class StepHandler(Protocol[T_co]):
    """The result of `handles`: a decorator, and the handler of the function that is bound to the step."""

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
    """Make a Lambda handler that runs the step for each event, or for each record of a batch.

    The result is a decorator for a function of the context and the payload. It is also a handler itself, which calls
    the function that `does` has bound to the step, as in `handler = handles(Order.ship, task_id="order_id")`. An async
    function gets an AsyncContext. It runs on an event loop that lives as long as the process, so it can open clients
    there and keep them for later invocations. A lock lasts one second longer than the invocation can, and the request
    id is recorded as the worker.

    A direct or HTTP caller gets what the function returns. If the step had succeeded before, it gets the stored result,
    or else the id and the state of the task. An HTTP request gets a status code for each result, and `retry-after` if
    another try makes sense. Its payload is the event with the body read as JSON, so `task_id="body.order_id"` and
    `"headers.idempotency-key"` are paths.

    The response to a batch has its `batchItemFailures`, which needs ReportBatchItemFailures. For Kafka, an error is
    raised if any record failed. An error is also raised if every record failed because of the table, for example
    because it was throttled: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html The handler
    raises UnreadableEventError for an event that it cannot read. In a batch, such a record is redelivered.

    Args:
        step: The step to run.
        task_id: Where the payload has the task id: keys and list indexes with dots between them, or a function.
        trigger: The event source. By default, the shape of the event tells. A bare event is direct unless you say
            "async".
        payload: A function of the record, or of the event if it has no records. By default, the payload is the whole
            event or record, for S3 an event with that record alone, and for messages, Kinesis and Kafka their content,
            read as JSON.
        create_if_missing: Whether the first event of a task creates it at this step and runs it. A function of the
            payload returns its attributes.
        replies: What is an error to the caller.
        must_match: Paths, or a function of the payload. If they have other values than when the task was started, the
            event is refused with PayloadMismatchError.
        store_result: Whether the function's result is stored with the success, as JSON of at most 262,144 bytes. The
            results of all steps share the task's row of 400 KB.
        respond: A function of an `Invocation` that returns what the caller gets. It is called for every outcome that is
            not an error.
        next_queue_url: The URL of the next step's queue. Once the success is recorded, `{"task_id": ...}` is sent
            there, and again if the event is redelivered while the task is pending there. If that fails, the record has
            failed. A FIFO queue keeps the message group.
        message_group: A function of the task that returns its tenant in a standard queue, which is a fair queue then.
            By default, it is the task's group.
        threads: How many records of a batch run at once. A stream, a message group and a partition stay in order.
        create_first: Whether the missing tasks of a batch are created before its first record runs. If that record
            takes all the time or kills the function, a schedule finds the others without waiting for redelivery.
        metrics: Whether to write metrics in CloudWatch's embedded metric format, or the namespace to write them in.

    Raises:
        TypeError: An argument has the wrong type, or does not fit another one.
        ValueError: An argument has a value that is not allowed.

    Examples:
        >>> handler = handles(Order.ship, task_id="order_id")
        >>> assert handler({"order_id": "o-2"}, None)["state"] == "ship succeeded"
    """
    fixed = None if trigger is None else triggers.trigger_named(trigger)
    namespace = namespace_of(metrics)
    if message_group is not None and next_queue_url is None:
        raise TypeError("message_group is for messages to the next queue: set next_queue_url, too")
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
    check_parameters(runner.function, "ctx", "event")
    with suppress(ValueError):  # some functions in C have no signature
        if list(inspect.signature(runner.function).parameters)[:2] == ["event", "context"]:
            raise TypeError(f"this takes a function of (ctx, event), and {shown(runner.function)} has (event, context)")
    check_threads(runner.threads)
    triggers.check_place("task_id", runner.task_id)
    creates = runner.create_if_missing
    if not (isinstance(creates, bool) or callable(creates)):
        raise TypeError(
            "create_if_missing is True, False, or a function of the payload that returns attributes, "
            f"not {shown(creates)}"
        )
    paths: object = (runner.must_match,) if isinstance(runner.must_match, str) else runner.must_match
    is_paths = isinstance(paths, Sequence) and bool(paths) and all(map(triggers.is_path, paths))
    if not (paths is None or callable(paths) or is_paths):
        raise TypeError(
            'must_match is a path, such as "detail.amount", several of them, or a function of the payload, '
            f"not {shown(runner.must_match)}"
        )
    check_flags(store_result=runner.store_result, create_first=runner.creates_first)
    if runner.creates_first and not runner.create_if_missing:
        raise TypeError("create_first is about tasks that create_if_missing creates: set that, too")
    if not isinstance(runner.replies, Replies):
        raise TypeError(f"replies are Replies(...), not {shown(runner.replies)}")
    for name in ("task_id", "payload", "create_if_missing", "must_match", "respond"):
        if is_async(given := getattr(runner, name)):
            raise TypeError(f"{name} is not awaited, so it is not the async {shown(given)}: write def, without async")
    for name, function in {"payload": runner.payload, "respond": runner.respond}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"{name} is a function, not {shown(function)}")


def check_step(step: object) -> BoundStep[Any]:
    """Return the step, or raise TypeError for anything else."""
    if not isinstance(step, BoundStep):
        raise TypeError(f"this takes a step of a use case, such as Order.ship, not {shown(step)}")
    return step
