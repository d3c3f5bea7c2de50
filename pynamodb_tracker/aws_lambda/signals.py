"""A handler of signals: a webhook or a message wakes the task that waits for it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from pynamodb_tracker import exceptions
from pynamodb_tracker.aws_lambda import http
from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.delivery import Delivery, SentSignal
from pynamodb_tracker.aws_lambda.invocation import LambdaContext, RunningInvocation, is_in_lambda
from pynamodb_tracker.aws_lambda.journal import LEVELS, InvocationLog
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.result import Invocation, InvocationStatus, Reason
from pynamodb_tracker.aws_lambda.trigger import Record, Replies, TaskId, Trigger, TriggerName, UnreadableEventError
from pynamodb_tracker.dynamodb.retries import ending_with
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.signals import ReceivedSignal, check_label, too_late
from pynamodb_tracker.step.signal import BoundSignal

T = TypeVar("T", bound=TaskRow)

Place = str | Callable[[Any], object]  # where a payload has a value: a path, such as "body.amount", or a function
Other = Literal["ack", "conflict"]  # the reply to a signal that no run will act on

_TRY_AGAIN = timedelta(seconds=5)
# The status codes of results. 503 for any other error.
_CODES: Mapping[InvocationStatus, int] = {"unreadable": 400, "not_found": 404, "mismatch": 409, "failed": 500}
# Why a signal is not stored. "unavailable" for any other error.
_REASONS: Mapping[type[Exception], Reason] = {
    exceptions.SignalAlreadyReceivedError: "mismatch",
    exceptions.TaskAlreadySucceededError: "mismatch",
    exceptions.TaskNotFoundError: "not_found",
    exceptions.TaskNotReadyError: "not_ready",
    TypeError: "failed",  # the handler lacks the round
}


def handles_signal(
    signal: BoundSignal[T],
    *,
    task_id: TaskId,
    value: Place | None = None,
    key: Place | None = None,
    round: Place | None = None,  # noqa: A002 - as `send` names it
    by: str | Callable[[Any], str] | None = None,
    trigger: TriggerName | None = None,
    other: Other = "ack",
    next_queue_url: str | None = None,
) -> Callable[[Any, LambdaContext | None], Any]:
    """Make a Lambda handler that sends a signal, such as `Order.paid`, for each event, or each record of a batch.

    Triggers and payloads are as in `handles`. Check first who sent a request, in a function that calls the handler.

    | the signal comes | `effect` | `will_be_read` | an HTTP client gets |
    | --- | --- | --- | --- |
    | before a step waits for it | `early` | true | 200 |
    | before the limit, or before a run is started after it | `resumed` | true | 200 |
    | while such a run lasts, or is retried, or has given up | `late` | true | 200 |
    | while the task waits for more signals, or again | `stored` | true | 200 |
    | after a run has succeeded without it | `late` | false | 200, or 409 |
    | after the task was cancelled | `cancelled` | false | 200, or 409 |
    | after a different one, or after the task's end | `other` | false | 200, or 409 |
    | for a missing task or round | | | 404 |
    | in an unreadable request, or with a value that cannot be stored | | | 400 |
    | for a task that is not ready, or while the table cannot be used | | | 503 with `retry-after` |

    `other` chooses between 200 and 409. For any other caller, each code except 200 is an error, and a record is
    redelivered.

    Args:
        signal: The signal to send.
        task_id: Where the payload has the task id: a path such as "body.order_id", or a function.
        value: Where the payload has the value: a path, or a function.
        key: Where the payload has the key that tells repeated deliveries: a path, or a function.
        round: Where the payload has the round, which a task needs that repeats or starts over.
        by: Who sends the signal, or a function that returns that.
        trigger: As in `handles`.
        other: The reply to a signal that no run will act on: "ack" for 200, "conflict" for 409 or an error. Both log a
            warning.
        next_queue_url: The waiting step's queue. The handler sends `{"task_id": ...}` there if the signal has made the
            task due, and again for a repeated delivery until the task has been started.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not allowed.

    Examples:
        >>> signal = handles_signal(Order.paid, task_id="body.order", value="body.amount", key="body.id")
    """
    given: object = signal
    if not isinstance(given, BoundSignal):
        raise TypeError(f"this takes a signal that a use case declares, such as Order.paid, not {shown(given)}")
    signal.model.tracker.use_case  # noqa: B018 - raises a TypeError for a table's class
    for name, where in {"task_id": task_id, "value": value, "key": key, "round": round}.items():
        if where is not None or name == "task_id":
            triggers.check_place(name, where)
    if not callable(by):
        check_label("by", by)
    if other not in get_args(Other):
        raise ValueError(f'other is "ack" or "conflict", not {shown(other)}')
    fixed = None if trigger is None else triggers.trigger_named(trigger)
    queue = None if next_queue_url is None else Queue("next_queue_url", next_queue_url, signal.model)
    if is_in_lambda():
        signal.model.tracker.table.connect()
        if queue is not None:
            queue.connect()
    optional = {"value": value, "key": key, "round": round, "by": (lambda _: by) if isinstance(by, str) else by}
    places = {name: where for name, where in optional.items() if where is not None}
    runner = _Sender(signal, task_id, places, Replies(mismatch="ack" if other == "ack" else None), queue)

    def handler(event: Any, context: LambdaContext | None) -> Any:
        used, invocation = fixed or triggers.trigger_of(event), RunningInvocation(context)
        log = InvocationLog(signal.model, None, invocation, used.name)
        with ending_with(invocation.deadline):
            return Delivery(runner, used, invocation, log).process(event)

    return handler


@dataclass(slots=True)
class _Sender(Generic[T]):
    signal: BoundSignal[T]
    task_id: TaskId
    places: Mapping[str, Place]
    replies: Replies
    next_queue: Queue | None
    threads: int = 1
    creates_first: bool = False

    def create_missing(self, records: Sequence[Record], trigger: Trigger, invocation: RunningInvocation) -> int:  # noqa: ARG002 - as RecordRunner has them
        return 0  # a signal is for an existing task

    def run(
        self, record: Record, trigger: Trigger, _invocation: RunningInvocation, _batcher: WriteBatcher | None
    ) -> SentSignal:
        payload = triggers.call_on(record.content, "payload", trigger.payload)
        task_id = triggers.read_task_id(self.task_id, payload)
        options = {name: triggers.found_at(name, place, payload) for name, place in self.places.items()}
        for name in options.keys() - {"value"}:
            try:
                check_label(name, options[name])
            except (TypeError, ValueError) as error:
                raise UnreadableEventError(
                    f"{name} is text of 1 to 256 bytes, not {triggers.shape_of(options[name])}"
                ) from error
        result = self._send(task_id, options)
        if (
            self.next_queue is not None
            and result.status in {"succeeded", "mismatch"}
            and (first := self._woken_by(result))
        ):
            unsent = self.next_queue.send_one(result.task, f"{self.signal.name} {first.token}", group=record.group)
            if unsent is not None:
                result = replace(result, status="unavailable", error=unsent, retry_after=_TRY_AGAIN)
        reason: Reason | None = None if result.status == "succeeded" else cast("Reason", result.status)
        return SentSignal(result, reason, result.error, is_broken=result.status == "unavailable")

    def _send(self, task_id: str, options: dict[str, Any]) -> Invocation[Any]:
        try:
            sent = self.signal.send(task_id, **options)
        except exceptions.ValueNotStorableError as error:
            raise UnreadableEventError(str(error)) from error
        except Exception as error:  # noqa: BLE001 - kept for the caller, because other records must run
            found = (reason for kind, reason in _REASONS.items() if isinstance(error, kind))
            reason: Reason = next(found, "unavailable")
            again = _TRY_AGAIN if reason in {"not_ready", "unavailable"} else None
            task: Any = getattr(error, "task", None)
            return Invocation(status=reason, task_id=task_id, task=task, error=error, retry_after=again)
        told: dict[str, Any] = {"task_id": task_id, "task": sent.task, "result": sent.effect}
        if sent.will_be_read:
            return Invocation(status="succeeded", repeated=sent.effect == "stored", **told)
        return Invocation(status="mismatch", error=too_late(sent.task, self.signal.name), **told)

    def _woken_by(self, result: Invocation[Any]) -> ReceivedSignal | None:
        """Return the signal if it has made the task due, and no run has started since."""
        task: Any = result.task
        if task.awaited_signals or task.blockers:
            return None
        first: ReceivedSignal | None = (task.signals or {}).get(self.signal.name)
        is_pending = any(task.status == codes.pending for codes in task.tracker.steps)
        return first if first is not None and is_pending and task.due_time == first.time else None

    def report(self, journal: InvocationLog, attempt: SentSignal, record: Record) -> None:
        result, model = attempt.result, self.signal.model
        about = {**log_fields(model.tracker.use_case.name, None, result.task_id), "signal": self.signal.name}
        effect = f"was not stored: {result.error}" if result.result is None else f"is {result.result}"
        level = LEVELS.get(result.status, logging.ERROR)
        if result.result is not None and result.status == "mismatch":
            level = logging.INFO  # `send` has logged the warning
        elif result.result is not None and result.error is not None:
            effect += f", but its task was not sent to its step's queue: {result.error}"
        message = f"{self.signal.name} of {model.__name__} {result.task_id!r} {effect}"
        journal.write(level, message, record, **about, outcome=result.status)

    def value_for(self, result: Invocation[Any]) -> dict[str, Any]:
        """Return the response to a caller, with what `send` returns as `effect`, or "other"."""
        read = result.status == "succeeded"
        return {"task_id": result.task_id, "effect": result.result or "other", "will_be_read": read}

    def response_to(self, event: Any, result: Invocation[Any]) -> dict[str, Any]:
        if result.status == "succeeded" or (result.status == "mismatch" and self.replies.mismatch == "ack"):
            return http.response(event, result, {"statusCode": 200, "body": self.value_for(result)})
        known = self.value_for(result) if result.status == "mismatch" else {"task_id": result.task_id}
        code, body = _CODES.get(result.status, 503), {**known, "error": result.status}
        return http.response(event, result, {"statusCode": code, "body": body})
