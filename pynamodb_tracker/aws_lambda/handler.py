"""The handler of a step: one task per event, or per record of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.aws_lambda.event import Record, TaskId, UnreadableEventError
from pynamodb_tracker.aws_lambda.invocation import Invocation, LambdaContext
from pynamodb_tracker.aws_lambda.logs import Journal
from pynamodb_tracker.aws_lambda.metrics import check_namespace
from pynamodb_tracker.aws_lambda.record_job import Job
from pynamodb_tracker.aws_lambda.replies import Replies
from pynamodb_tracker.aws_lambda.trigger import Trigger, TriggerName, named, told_by
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker_name import working_as

__all__ = ["Handler", "handles"]

T = TypeVar("T", bound=TaskRow)


class Handler(Protocol):
    """What Lambda calls: with the event, and its context; in a test None will do for that."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function of the context and the payload."""
        ...

    def __call__(self, event: Any, context: LambdaContext | None) -> Any:
        """Return what the trigger expects, or raise the error that the caller is to have."""
        ...


_TOO_LATE = timedelta(seconds=1)
"""A further record is not begun when the invocation has less time left, for it would only cost an attempt."""


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

    The lock lasts as long as the invocation can, and a second; the id of the request is the worker. `task_id` is where
    the payload has it: keys with dots between them, or a function. The `trigger` is told by the shape of the event; a
    bare one is direct, unless you say "async". `payload` is a function of the record, or of the event where there are
    none; by default that is all of it, and of messages and of Kinesis what they carry, read as JSON.
    `create_if_missing` registers a task on its first event, pending for this step; a function of the payload returns
    its attributes. `replies` say what is an error to the caller, and `answer` what a direct caller gets of the task.
    `metrics` are written in CloudWatch's embedded metric format, under a namespace of yours if you name one.
    A batch is answered with its `batchItemFailures`, which needs ReportBatchItemFailures:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    The handler raises UnreadableEventError where an event cannot be read; a record of a batch comes again.
    """
    always = None if trigger is None else named(trigger)
    namespace = check_namespace(metrics)

    def decorate(function: Callable[[ExecutionContext[T], Any], Any]) -> Handler:
        job = Job(
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
            kind = always or told_by(event)
            invocation = Invocation(context)
            journal = Journal(step, invocation, kind.name, namespace)
            with working_as(invocation.request_id):
                return _Delivery(job, kind, invocation, journal).answer_to(event)

        return cast("Handler", handler)  # functools sets __wrapped__

    return decorate


class _Delivery:
    """One event in the hands of a job."""

    def __init__(self, job: Job[Any], trigger: Trigger, invocation: Invocation, journal: Journal) -> None:
        self._job = job
        self._trigger = trigger
        self._invocation = invocation
        self._journal = journal
        self._replies = job.replies.over(trigger.replies)

    def answer_to(self, event: object) -> Any:
        """Do what is to be done, and return what the trigger expects."""
        try:
            records = self._trigger.records(event)
        except UnreadableEventError as error:
            self._journal.refuse(error)
            raise
        if self._trigger.is_batch:
            return {"batchItemFailures": [{"itemIdentifier": record.name} for record in self._failing(records)]}
        [record] = records
        attempt = self._run(record)
        if attempt.error is not None and self._is_error(attempt):
            raise attempt.error
        return self._job.answer_to(attempt)

    def _failing(self, records: list[Record]) -> list[Record]:
        """Run the records, and return those that are to come again."""
        failing: list[Record] = []
        groups: set[str] = set()
        for place, record in enumerate(records):
            if place and not self._invocation.has_time_for(_TOO_LATE):
                self._journal.leave(records[place:])
                failing += records[place:]
                break
            if record.group in groups:
                self._journal.skip(record)
            elif self._is_done(record):
                continue
            failing.append(record)
            if self._trigger.is_stream:
                break
            if record.group is not None:
                groups.add(record.group)
        return failing[:1] if self._trigger.is_stream else failing  # from that one on, records of a stream come again

    def _is_done(self, record: Record) -> bool:
        try:
            return not self._is_error(self._run(record))
        except UnreadableEventError:
            return False

    def _run(self, record: Record) -> Attempt:
        try:
            attempt = self._job.run(record, self._trigger, self._invocation)
        except UnreadableEventError as error:
            self._journal.refuse(error, record)
            raise
        self._journal.note(attempt, record)
        return attempt

    def _is_error(self, attempt: Attempt) -> bool:
        return self._replies.to(attempt.outcome, attempt.reason) == "error"
