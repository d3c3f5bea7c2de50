"""The handler of a step: one task per event, or per record of a batch."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar, cast

from pynamodb_tracker.arguments import check_function, shown
from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.invocation import Invocation, InvocationAttempt, InvocationLog, LambdaContext
from pynamodb_tracker.aws_lambda.trigger import Record, Replies, TaskId, Trigger, TriggerName, UnreadableEventError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker_name import working_as

T = TypeVar("T", bound=TaskRow)

_TOO_LATE = timedelta(seconds=1)
"""With less time left, no further record is started: it would only use up an attempt."""

_NAMESPACE = re.compile(r"(?!AWS/)(?=.{1,255}\Z)[0-9A-Za-z._/#-][0-9A-Za-z._/#: -]*")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html; AWS/ is reserved."""


class Handler(Protocol):
    """What Lambda calls, with the event and its context; tests may pass None as the context."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function of the context and the payload."""
        ...

    def __call__(self, event: Any, context: LambdaContext | None) -> Any:
        """Return what the trigger expects, or raise the error that the caller is to get."""
        ...


def handles(
    step: BoundStep[T],
    *,
    task_id: TaskId,
    trigger: TriggerName | None = None,
    payload: Callable[[Any], Any] | None = None,
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]] = False,
    replies: Replies | None = None,
    answer: Callable[[T], Any] | None = None,
    metrics: bool | str = False,
) -> Callable[[Callable[[ExecutionContext[T], Any], Any]], Handler]:
    """Make a Lambda handler of a function of the context and the payload: it runs the step for each event or record.

    A lock lasts one second longer than the invocation can; the request id is the worker. `task_id` says where the
    payload has the id: keys with dots between them, or a function. The `trigger` is detected by the shape of the event;
    a bare event is direct, unless you say "async". `payload` is a function of the record, or of the event if it has no
    records; by default, the payload is the whole of it, or for messages and Kinesis their content, read as JSON.
    `create_if_missing` creates a task on its first event, pending for this step; a function of the payload returns
    its attributes. `replies` decide what is an error to the caller, and `answer` what a direct caller gets of the task.
    `metrics` are written in CloudWatch's embedded metric format, in a namespace of your own if you name one.
    A batch is answered with its `batchItemFailures`, which needs ReportBatchItemFailures:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    The handler raises UnreadableEventError if an event cannot be read; a record of a batch is redelivered.
    """
    fixed = None if trigger is None else triggers.trigger_named(trigger)
    namespace = check_namespace(metrics)

    def decorate(function: Callable[[ExecutionContext[T], Any], Any]) -> Handler:
        runner = _RecordRunner(
            step=step,
            function=function,
            task_id=task_id,
            payload=payload,
            create_if_missing=create_if_missing,
            replies=Replies() if replies is None else replies,
            answer=answer,
        )

        @wraps(function)
        def handler(event: Any, context: LambdaContext | None) -> Any:
            used = fixed or triggers.trigger_of(event)
            invocation = Invocation(context)
            log = InvocationLog(step, invocation, used.name, namespace)
            with working_as(invocation.request_id):
                return _Delivery(runner, used, invocation, log).process(event)

        return cast("Handler", handler)  # functools sets __wrapped__

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordRunner(Generic[T]):
    """Runs the step for a record: finds its task, calls the function, and chooses the answer to a direct caller."""

    step: BoundStep[T]
    function: Callable[[ExecutionContext[T], Any], Any]
    task_id: TaskId
    payload: Callable[[Any], Any] | None
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]]
    replies: Replies
    answer: Callable[[T], Any] | None

    def __post_init__(self) -> None:
        """Refuse wrong arguments before the first event arrives."""
        check_step(self.step)
        check_parameters(self.function, "ctx", "event")
        where: object = self.task_id
        if not (callable(where) or (isinstance(where, str) and all(where.split(".")))):
            raise TypeError(
                'task_id is keys with dots between them, such as "detail.order_id", or a function of the payload, '
                f"not {shown(where)}"
            )
        if not (isinstance(self.create_if_missing, bool) or callable(self.create_if_missing)):
            raise TypeError(
                "create_if_missing is True, False, or a function of the payload that returns attributes, "
                f"not {shown(self.create_if_missing)}"
            )
        if not isinstance(self.replies, Replies):
            raise TypeError(f"replies are Replies(...), not {shown(self.replies)}")
        for name, function in {"payload": self.payload, "answer": self.answer}.items():
            if not (function is None or callable(function)):
                raise TypeError(f"{name} is a function, not {shown(function)}")

    def run(self, record: Record, trigger: Trigger, invocation: Invocation) -> InvocationAttempt:
        """Run the step for the task of a record; UnreadableEventError if the record cannot be read."""
        payload = triggers.call_on(record.content, "payload", self.payload or trigger.payload)
        attempt = InvocationAttempt(self.step, triggers.read_task_id(self.task_id, payload), invocation)
        attempt.run(self.function, payload)
        if attempt.reason == "not_found" and self.create_if_missing:
            attempt.create_task(self._attributes_of(payload))
            if attempt.error is None:
                attempt.run(self.function, payload)
        return attempt

    def _attributes_of(self, payload: Any) -> Mapping[str, Any]:
        if not callable(self.create_if_missing):
            return {}
        attributes: Mapping[str, Any] = triggers.call_on(payload, "create_if_missing", self.create_if_missing)
        return attributes

    def answer_to(self, attempt: InvocationAttempt) -> Any:
        """Return what a direct caller gets; of an attempt that did not succeed, nothing that it assigned."""
        task = attempt.task
        if attempt.ctx is None or attempt.outcome == "succeeded":
            if self.answer is not None and task is not None:
                return self.answer(task)
            if attempt.value is not None:
                return attempt.value
        state = None if task is None else str(task.state)
        return {"task_id": attempt.task_id, "use_case_id": self.step.model.tracker.use_case.name, "state": state}


class _Delivery:
    """An event that a trigger delivered to a handler."""

    def __init__(
        self, runner: _RecordRunner[Any], trigger: Trigger, invocation: Invocation, log: InvocationLog
    ) -> None:
        self._runner = runner
        self._trigger = trigger
        self._invocation = invocation
        self._log = log
        self._replies = runner.replies.over(trigger.replies)

    def process(self, event: object) -> Any:
        """Run the tasks of the event, and return what the trigger expects."""
        try:
            records = self._trigger.records(event)
        except UnreadableEventError as error:
            self._log.unreadable(error)
            raise
        if self._trigger.is_batch:
            return {"batchItemFailures": [{"itemIdentifier": record.name} for record in self._run_batch(records)]}
        [record] = records
        attempt = self._run(record)
        if attempt.error is not None and self._is_error(attempt):
            raise attempt.error
        return self._runner.answer_to(attempt)

    def _run_batch(self, records: list[Record]) -> list[Record]:
        """Run the records, and return those that have to be redelivered."""
        failing: list[Record] = []
        failed_groups: set[str] = set()
        for place, record in enumerate(records):
            if place and not self._invocation.has_time_for(_TOO_LATE):
                self._log.no_time_for(records[place:])
                failing += records[place:]
                break
            if record.group in failed_groups:
                self._log.group_blocked(record)
            elif self._is_done(record):
                continue
            failing.append(record)
            if self._trigger.is_stream:
                break
            if record.group is not None:
                failed_groups.add(record.group)
        return failing[:1] if self._trigger.is_stream else failing  # a stream redelivers all from the first one on

    def _is_done(self, record: Record) -> bool:
        try:
            return not self._is_error(self._run(record))
        except UnreadableEventError:
            return False

    def _run(self, record: Record) -> InvocationAttempt:
        try:
            attempt = self._runner.run(record, self._trigger, self._invocation)
        except UnreadableEventError as error:
            self._log.unreadable(error, record)
            raise
        self._log.attempt_ended(attempt, record)
        return attempt

    def _is_error(self, attempt: InvocationAttempt) -> bool:
        return self._replies.to(attempt.outcome, attempt.reason) == "error"


def check_parameters(function: Callable[..., Any], *names: str) -> None:
    """Refuse a function that cannot be called with these arguments, or that has those of a Lambda handler."""
    check_function(function)
    try:
        parameters = inspect.signature(function)
    except ValueError:  # some functions that are written in C have no signature
        return
    try:
        parameters.bind(*names)
    except TypeError as error:
        raise TypeError(f"this takes a function of ({', '.join(names)}), not {shown(function)}: {error}") from None
    if list(parameters.parameters)[:2] == ["event", "context"]:
        raise TypeError(f"this takes a function of ({', '.join(names)}), and {shown(function)} has (event, context)")


def check_step(step: object) -> None:
    """Refuse anything but a step of a use case."""
    if not isinstance(step, BoundStep):
        raise TypeError(f"this takes a step of a use case, such as Order.ship, not {shown(step)}")


def check_namespace(metrics: object) -> str | None:
    """Return the namespace of the metrics; None if they are switched off."""
    if isinstance(metrics, bool):
        return "pynamodb_tracker" if metrics else None
    if not (isinstance(metrics, str) and _NAMESPACE.fullmatch(metrics)):
        raise ValueError(
            "metrics is True, False, or a namespace: 1 to 255 letters, digits and ._/#:- that do not begin with AWS/, "
            f"not {shown(metrics)}"
        )
    return metrics
