"""An event as a trigger delivered it: the step is run for each of its records, and the caller gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.invocation import Invocation, InvocationAttempt, InvocationLog
from pynamodb_tracker.aws_lambda.trigger import Record, Replies, TaskId, Trigger, UnreadableEventError
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep

T = TypeVar("T", bound=TaskRow)

_TOO_LATE = timedelta(seconds=1)
"""With less time left, no further record is started: it would only use up an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRunner(Generic[T]):
    """Runs the step for a record: finds its task, calls the function, and chooses the answer to a direct caller."""

    step: BoundStep[T]
    function: Callable[[ExecutionContext[T], Any], Any]
    task_id: TaskId
    payload: Callable[[Any], Any] | None
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]]
    replies: Replies
    answer: Callable[[T], Any] | None

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


class Delivery:
    """An event that a trigger delivered to a handler."""

    def __init__(self, runner: RecordRunner[Any], trigger: Trigger, invocation: Invocation, log: InvocationLog) -> None:
        self._runner = runner
        self._trigger = trigger
        self._invocation = invocation
        self._log = log
        self._replies = runner.replies.over(trigger.replies)
        self._began = False
        self._errors: list[BaseException] = []
        """Why records have to be redelivered, in the order in which that was found."""
        self._left: list[Record] = []
        """Records for which no time was left."""

    def process(self, event: object) -> Any:
        """Run the tasks of the event, and return what the trigger expects."""
        try:
            records = self._trigger.records(event)
        except UnreadableEventError as error:
            self._log.unreadable(error)
            raise
        if self._trigger.is_batch:
            return {"batchItemFailures": self._run_batch(records), **triggers.state_of_window(event)}
        answers = [self._runner.answer_to(attempt) for attempt in self._run_each(records)]
        return answers[0] if len(answers) == 1 else answers

    def _run_each(self, records: list[Record]) -> list[InvocationAttempt]:
        """Run records whose trigger takes no answer about single ones: if one is an error, all are redelivered."""
        attempts, errors = list[InvocationAttempt](), list[BaseException]()
        for record in records:
            try:
                attempts.append(self._run(record))
            except UnreadableEventError as error:
                errors.append(error)
        errors += [attempt.error for attempt in attempts if attempt.error is not None and self._is_error(attempt)]
        if errors:
            raise errors[0]
        return attempts

    def _run_batch(self, records: list[Record]) -> list[dict[str, Any]]:
        """Run the records, and return how those are reported that have to be redelivered."""
        failing = [id(record) for lane in self._lanes(records) for record in self._run_in_order(lane)]
        if self._left:
            self._log.no_time_for(self._left)
        failures = [record.failure for record in records if id(record) in failing]
        if failures and self._replies.batch == "raise":
            raise TrackerError(f"{len(failures)} of {len(records)} records have to be redelivered") from next(
                iter(self._errors), None
            )
        return failures[:1] if self._trigger.is_stream else failures  # a stream redelivers all from the first one on

    def _lanes(self, records: list[Record]) -> Iterable[list[Record]]:
        """Return the records in lists that keep an order: a stream, each message group or partition, or one each."""
        if self._trigger.is_stream:
            return [records]
        lanes: dict[object, list[Record]] = {}
        for record in records:
            lanes.setdefault(id(record) if record.group is None else record.group, []).append(record)
        return lanes.values()

    def _run_in_order(self, lane: list[Record]) -> list[Record]:
        """Run records until one has to be redelivered, and return that one and all after it."""
        for place, record in enumerate(lane):
            if self._began and not self._invocation.has_time_for(_TOO_LATE):
                self._left += lane[place:]
                return lane[place:]
            self._began = True
            if not self._is_done(record):
                if not self._trigger.is_stream:
                    for blocked in lane[place + 1 :]:
                        self._log.group_blocked(blocked)
                return lane[place:]
        return []

    def _is_done(self, record: Record) -> bool:
        try:
            attempt = self._run(record)
        except UnreadableEventError as error:
            self._errors.append(error)
            return False
        if is_error := self._is_error(attempt):
            self._errors.append(attempt.error or TrackerError(f"{attempt} was not done"))
        return not is_error

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
