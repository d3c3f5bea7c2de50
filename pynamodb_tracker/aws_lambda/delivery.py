"""Runs an event's records, and builds the response."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, Protocol

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.aws_lambda import http
from pynamodb_tracker.aws_lambda import trigger as triggers
from pynamodb_tracker.aws_lambda.invocation import InvocationAttempt, RunningInvocation
from pynamodb_tracker.aws_lambda.journal import InvocationLog
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.result import Invocation, Reason
from pynamodb_tracker.aws_lambda.trigger import Record, Replies, Reply, TaskId, Trigger, UnreadableEventError
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher, batcher_for
from pynamodb_tracker.exceptions import ConcurrencyLimitReachedError, TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.arguments import shown
from pynamodb_tracker.model.results import fingerprint
from pynamodb_tracker.model.row import T
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.work.threads import in_threads

MustMatch = str | Sequence[str] | Callable[[Any], object]  # paths, or a function that gets the payload

_CREATED_AT_ONCE = 25  # the limit of one request
_TOO_LATE = timedelta(seconds=1)  # with less time left, a record would only use up an attempt


class SentSignal(NamedTuple):
    """A signal's result, with the members that an InvocationAttempt has."""

    result: Invocation[Any]
    reason: Reason | None
    cause: BaseException | None
    is_broken: bool
    is_only_here: bool = False
    runs_again_alone: bool = False


Attempt = InvocationAttempt | SentSignal


class _Runner(Protocol):
    """A handler's part in a delivery, as a RecordRunner has it."""

    @property
    def replies(self) -> Replies: ...

    @property
    def threads(self) -> int: ...

    @property
    def creates_first(self) -> bool: ...

    def create_missing(self, records: Sequence[Record], trigger: Trigger, invocation: RunningInvocation) -> int: ...

    def run(
        self, record: Record, trigger: Trigger, invocation: RunningInvocation, batcher: WriteBatcher | None
    ) -> Attempt: ...

    def report(self, log: InvocationLog, attempt: Any, record: Record) -> None: ...

    def value_for(self, result: Invocation[Any]) -> Any: ...

    def response_to(self, event: Any, result: Invocation[Any]) -> dict[str, Any]: ...


class RecordRunner(NamedTuple, Generic[T]):
    step: BoundStep[T]
    function: Callable[[ExecutionContext[T], Any], Any]
    task_id: TaskId
    payload: Callable[[Any], Any] | None
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]]
    replies: Replies
    must_match: MustMatch | None
    store_result: bool
    respond: Callable[[Invocation[T]], Any] | None
    next_queue: Queue | None
    threads: int
    creates_first: bool

    def create_missing(self, records: Sequence[Record], trigger: Trigger, invocation: RunningInvocation) -> int:
        """Create the missing tasks of these records, pending, without raising errors. Return how many it created."""
        if not self.create_if_missing:
            return 0
        from pynamodb_tracker.work.bulk import in_threads_together  # noqa: PLC0415 - few cold starts need it

        attempts, created = list[InvocationAttempt](), list[str]()
        for record in records:
            with suppress(UnreadableEventError):
                attempt, _ = self._attempt(record, trigger, invocation, None)
                if isinstance(attempt.new_attributes, Mapping):  # else its run says what is wrong
                    attempts.append(attempt)

        def create(attempt: InvocationAttempt) -> None:
            with suppress(PynamoDBException, TrackerError):
                if attempt.create():
                    created.append(attempt.task_id)

        threads = max(1, min(len(attempts), _CREATED_AT_ONCE))
        in_threads_together(create, attempts, threads, lambda attempt: attempt.new_attributes.get("group"))
        return len(created)

    def run(
        self, record: Record, trigger: Trigger, invocation: RunningInvocation, batcher: WriteBatcher | None
    ) -> InvocationAttempt:
        attempt, payload = self._attempt(record, trigger, invocation, batcher)
        try:
            if (pause := self.step._definition.pause(lives_long=False)) is None:
                is_for_caller = self.respond is None and trigger in (triggers.DIRECT, triggers.HTTP)
                attempt.run_function(self._call_for_json if is_for_caller else self.function, payload)
                if isinstance(attempt.claim_error, ConcurrencyLimitReachedError):
                    attempt.hold_back(None)
            else:
                attempt.hold_back(pause)
        except UnreadableEventError as error:
            error.task_id = attempt.task_id
            raise
        if self.next_queue is not None:
            attempt.hand_on(self.next_queue, record.group)
        return attempt

    def _attempt(
        self, record: Record, trigger: Trigger, invocation: RunningInvocation, batcher: WriteBatcher | None
    ) -> tuple[InvocationAttempt, Any]:
        payload = triggers.call_on(record.content, "payload", self.payload or trigger.payload)
        task_id = triggers.read_task_id(self.task_id, payload)
        attempt = InvocationAttempt(
            self.step,
            task_id,
            invocation,
            must_match=None if self.must_match is None else _read_must_match(self.must_match, payload),
            store_result=self.store_result,
            attributes=partial(self._attributes_of, payload) if self.create_if_missing else None,
            batcher=batcher,
        )
        return attempt, payload

    def _call_for_json(self, ctx: ExecutionContext[T], payload: Any) -> Any:
        result = self.function(ctx, payload)
        try:
            http.text_of(result)
        except ValueError as error:
            raise ValueError(f"JSON cannot express the function's result: {error}") from error
        return result

    def report(self, log: InvocationLog, attempt: InvocationAttempt, record: Record) -> None:
        log.attempt_ended(attempt, record)

    def _attributes_of(self, payload: Any) -> Mapping[str, Any]:
        if not callable(self.create_if_missing):
            return {}
        attributes: Mapping[str, Any] = triggers.call_on(payload, "create_if_missing", self.create_if_missing)
        return attributes

    def value_for(self, result: Invocation[T]) -> Any:
        """Return what `respond` returns, or else a success's result, or else the state."""
        if self.respond is not None:
            return self.respond(result)
        if result.result is not None:
            return result.result
        task: Any = result.task
        state = None if task is None else str(task.state)
        return {"task_id": result.task_id, "use_case_id": self.step.model.tracker.use_case.name, "state": state}

    def response_to(self, event: Any, result: Invocation[T]) -> dict[str, Any]:
        """Return the HTTP response. Without `respond`, it reveals nothing about a task that has not succeeded."""
        if self.respond is None and result.status != "succeeded":
            return http.response(event, result, {"task_id": result.task_id, "error": result.status})
        return http.response(event, result, self.value_for(result))


def _read_must_match(where: MustMatch, payload: object) -> object:
    if callable(where):
        found = triggers.call_on(payload, "must_match", where)
        if found is None:
            raise UnreadableEventError(f"must_match returned None for {triggers.shape_of(payload)}")
        with suppress(TypeError):  # the run raises this mistake in the function
            _check_depth(found)
        return found
    paths = (where,) if isinstance(where, str) else where
    found = {path: triggers.value_at(path, payload) for path in paths}
    try:
        _check_depth(found)
    except TypeError as error:  # a binary body
        raise UnreadableEventError(f"must_match cannot compare {shown(paths)}: {type(error).__name__}") from error
    return found


def _check_depth(value: object) -> None:
    try:
        fingerprint(value)
    except ValueError as error:
        raise UnreadableEventError(f"must_match cannot compare it: {error}") from error


class Delivery:
    def __init__(self, runner: _Runner, trigger: Trigger, invocation: RunningInvocation, log: InvocationLog) -> None:
        self._runner = runner
        self._trigger = trigger
        self._invocation = invocation
        self._log = log
        self._batcher: WriteBatcher | None = None  # set while several records may run
        self._guard = threading.Lock()  # records may run on several threads
        self._began = False
        self._attempts: list[Attempt] = []
        self._errors: list[BaseException] = []  # why records must be redelivered
        self._undone: list[Record] = []  # to redeliver
        self._left: list[Record] = []  # to redeliver because no time was left
        self._alone: list[list[Record]] = []  # to run one by one, because the first record may kill the function

    def process(self, event: Any) -> Any:
        try:
            records = self._trigger.records(event)
        except UnreadableEventError as error:
            self._log.unreadable(error)
            raise
        if self._trigger.is_batch:
            return {"batchItemFailures": self._run_batch(records), **triggers.state_of_window(event)}
        for record in records:
            self._run(record)
        if self._trigger is triggers.HTTP and not self._attempts:
            return self._runner.response_to(event, Invocation(status="unreadable", error=self._errors[0]))
        if self._errors:
            raise self._errors[0]
        results = [attempt.result for attempt in self._attempts]
        if self._trigger is triggers.HTTP:
            return self._runner.response_to(event, results[0])
        responses = [self._runner.value_for(result) for result in results]
        return responses[0] if len(responses) == 1 else responses

    def _run_batch(self, records: list[Record]) -> list[dict[str, Any]]:
        self._check_order(records)
        if self._runner.creates_first and len(records) > 1:  # a single record's claim creates its task
            self._create_missing(records)
        lanes = self._lanes(records)
        self._batcher = batcher_for(min(self._runner.threads, len(lanes)))
        in_threads(self._run_in_order, lanes, self._runner.threads)
        self._batcher = None
        in_threads(self._run_in_order, self._alone, 1)
        if self._left:
            first, created = self._left[0], self._create_missing(self._left)
            text = f"no time left for {len(self._left)} records from {first.name} on: they will be redelivered"
            if created:
                text += f". {created} of their tasks were created, so a schedule can run them sooner"
            self._log.write(logging.WARNING, text, first, outcome="left")
        broken = [each.cause for each in self._attempts if each.is_broken and self._reply_to(each.reason) == "raise"]
        if broken and broken[0] and len(broken) == len(self._attempts):
            raise broken[0]  # alarms watch for errors
        undone = {id(record) for record in self._undone}
        failures = [{"itemIdentifier": record.identifier or record.name} for record in records if id(record) in undone]
        if failures and (self._runner.replies.batch or self._trigger.replies.batch) == "raise":
            cause = self._errors[0] if self._errors else None
            raise TrackerError(f"{len(failures)} of {len(records)} records must be redelivered") from cause
        return failures[:1] if self._trigger.is_stream else failures  # a stream redelivers all later ones, too

    def _create_missing(self, records: Sequence[Record]) -> int:
        """Create missing tasks, but not of ordered records: a schedule could run these in the wrong order."""
        unordered = [] if self._trigger.is_stream else [record for record in records if record.group is None]
        return self._runner.create_missing(unordered, self._trigger, self._invocation)

    def _check_order(self, records: list[Record]) -> None:
        if self._trigger.keeps_groups and any(record.group for record in records):
            for name in ("locked", "not_ready", "paused", "limited", "failed", "released", "unavailable"):
                # The default of `paused` keeps the order.
                if (self._runner.replies.paused if name == "paused" else self._reply_to(name)) == "ack":
                    raise ValueError(
                        f'Replies({name}="ack") breaks the order of a FIFO queue: the group\'s next message would run '
                        "before this task is done. Leave it out, and give the step no retry_delay, so that the queue's "
                        "visibility timeout separates attempts. Or create the tasks with group=..., which keeps their "
                        "order, and use a standard queue"
                    )

    def _lanes(self, records: list[Record]) -> list[list[Record]]:
        if self._trigger.is_stream:
            return [records]
        lanes: dict[object, list[Record]] = {}
        for record in records:
            lanes.setdefault(id(record) if record.group is None else record.group, []).append(record)
        return list(lanes.values())

    def _run_in_order(self, lane: list[Record]) -> None:
        """Run records until one must be redelivered or must run alone, with all later ones."""
        for place, record in enumerate(lane):
            if self._began and not self._invocation.has_time_for(_TOO_LATE):
                with self._guard:
                    self._left += lane[place:]
                    self._undone += lane[place:]
                return
            self._began = True
            if (then := self._run(record)) == "continue":
                continue
            with self._guard:
                if then == "run alone":
                    self._alone.append(lane[place:])
                    return
                self._undone += lane[place:]
                if not self._trigger.is_stream:
                    for blocked in lane[place + 1 :]:
                        text = f"record {blocked.name} was not started: an earlier one in its group comes first"
                        self._log.write(logging.INFO, text, blocked, outcome="left")
            return

    def _run(self, record: Record) -> Literal["continue", "redeliver", "run alone"]:
        """Run a record. Return what to do with it and the later ones in its lane."""
        error: BaseException | None
        try:
            attempt = self._runner.run(record, self._trigger, self._invocation, self._batcher)
        except UnreadableEventError as unreadable:
            error = unreadable
            with self._guard:
                self._log.unreadable(unreadable, record)
        else:
            if attempt.runs_again_alone:
                text = "waits until all others have ended, because its last attempt may have killed the function"
                with self._guard:
                    self._log.write(logging.WARNING, f"{attempt} {text}", record, outcome="released")
                return "run alone"
            error = self._error_of(attempt, record)
            with self._guard:
                self._attempts.append(attempt)
                self._runner.report(self._log, attempt, record)
        if error is None:
            return "continue"
        self._errors.append(error)
        return "redeliver"

    def _reply_to(self, reason: Reason | None) -> Reply:
        """Return the reply for a reason. None means that the task succeeded."""
        if reason is None:
            return "ack"
        return getattr(self._runner.replies, reason) or getattr(self._trigger.replies, reason) or "raise"

    def _error_of(self, attempt: Attempt, record: Record) -> BaseException | None:
        keeps_order = attempt.reason == "paused" and self._trigger.keeps_groups and record.group is not None
        is_event = self._trigger is not triggers.HTTP  # an HTTP client sends its request again
        is_lost = is_event and attempt.is_only_here and self._runner.replies.paused is None
        if self._reply_to(attempt.reason) == "ack" and not (keeps_order or is_lost):
            return None
        return attempt.cause or TrackerError(f"{attempt} ended in an unknown way")
