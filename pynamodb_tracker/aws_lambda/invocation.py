"""One invocation of a function: its time, and the tasks that it tries."""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from pynamodb_tracker import clock, exceptions
from pynamodb_tracker.aws_lambda.emf import is_broken
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.result import Invocation, Reason
from pynamodb_tracker.aws_lambda.trigger import UnreadableEventError, shape_of
from pynamodb_tracker.batch.batch import TaskAttempt
from pynamodb_tracker.batch.candidates import Source
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher
from pynamodb_tracker.execution.call import call_for_result
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.model.changes import as_stored
from pynamodb_tracker.model.results import fingerprint
from pynamodb_tracker.model.row import keeps_expired
from pynamodb_tracker.step.bound import BoundStep

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause

log = logging.getLogger("pynamodb_tracker")

_LOCK_MARGIN = timedelta(seconds=1)
"""How much longer than the invocation a lock lasts: Lambda ends the function at its timeout, or a moment later."""

_TIME_TO_ANSWER = timedelta(seconds=0.5)
"""What is left of the invocation when its requests end, so that the handler can still log and respond."""

_LAST, _PLACE = 20, 3
"""Of the last twenty tasks, the third longest time counts."""

_LOOK_AGAIN = timedelta(seconds=5)
"""When a caller is advised to try again, at the latest, if another worker has the task, or the table does not
respond."""


_ASK_AGAIN = timedelta(minutes=1)
"""When a caller is advised to try again, at the latest, if the step is paused: somebody may resume it earlier."""


class LambdaContext(Protocol):
    """What is used of the second argument of a handler.

    https://docs.aws.amazon.com/lambda/latest/dg/python-context.html
    """

    @property
    def aws_request_id(self) -> str:
        """The id of the invocation; the same when Lambda retries an event."""

    def get_remaining_time_in_millis(self) -> int:
        """Return how many milliseconds are left until Lambda ends the function."""


class TaskTimes:
    """How long the last tasks of a handler took in this environment, which says how long the next one may take.

    One task that was slow, or frozen with its environment, says nothing about the others.
    """

    def __init__(self, at_first: timedelta = timedelta(0)) -> None:
        """Take the estimate that holds until three tasks have run."""
        self.at_first = at_first
        self._last = deque[timedelta](maxlen=_LAST)

    def note(self, duration: timedelta) -> None:
        """Note how long a task took."""
        self._last.append(duration)

    @property
    def expected(self) -> timedelta:
        """The third longest time of the last twenty tasks."""
        longest = sorted(list(self._last), reverse=True)  # noqa: C414 - a copy, as other threads add to it
        return longest[_PLACE - 1] if len(longest) >= _PLACE else self.at_first


class RunningInvocation:
    """An invocation of a function. Without a context it has no time limit and no id, and so it is with a mock."""

    def __init__(self, context: LambdaContext | None, times: TaskTimes | None = None) -> None:
        self.context = context
        self.times = TaskTimes() if times is None else times
        self.on_start: Callable[[InvocationAttempt], None] | None = None
        """Called when a task was claimed, before its block."""
        self._is_first = True

    @property
    def request_id(self) -> str | None:
        """Lambda's id of the invocation, which is recorded as the worker."""
        found: object = None if self.context is None else self.context.aws_request_id
        return found if isinstance(found, str) else None

    @property
    def remaining(self) -> timedelta | None:
        """How much time is left; None without a limit."""
        found: object = None if self.context is None else self.context.get_remaining_time_in_millis()
        return timedelta(milliseconds=found) if isinstance(found, int | float) else None

    @property
    def lock_for(self) -> timedelta | None:
        """How long a lock that is taken now lasts; None for the step's own `lock_for`."""
        remaining = self.remaining
        return None if remaining is None else max(remaining, timedelta(0)) + _LOCK_MARGIN

    @property
    def deadline(self) -> datetime | None:
        """Until when requests of the invocation are worth a try; None without a limit."""
        remaining = self.remaining
        return None if remaining is None else clock.now() + remaining - _TIME_TO_ANSWER

    def note_duration(self, duration: timedelta) -> None:
        """Note how long a task of this invocation took."""
        self._is_first = False
        self.times.note(duration)

    def time_for(self, at_least: timedelta, wait: timedelta = timedelta(0)) -> timedelta:
        """Return how long the next task may take, after that wait: at least that, or what is expected.

        Before the first task the estimate counts: slow tasks of earlier invocations must not stop all later ones.
        """
        return wait + max(at_least, self.times.at_first if self._is_first else self.times.expected)

    def has_time_for(self, at_least: timedelta, wait: timedelta = timedelta(0)) -> bool:
        """Return whether as much time is left as the next task may take."""
        remaining = self.remaining
        return remaining is None or remaining >= self.time_for(at_least, wait)


def is_in_lambda() -> bool:
    """Return whether this process is a function's in Lambda."""
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ or os.environ.get("AWS_EXECUTION_ENV", "").startswith("AWS_Lambda_")


def prepare_in_lambda(step: BoundStep[Any], queue: Queue | None = None, *, with_payload: bool = False) -> None:
    """In Lambda's init phase, build what the first invocation would have to build."""
    if is_in_lambda():
        step._definition.prepare(with_payload=with_payload)
        if queue is not None:
            queue.connect()


class InvocationAttempt(TaskAttempt[Any]):
    """An attempt at a task within an invocation."""

    def __init__(
        self,
        step: BoundStep[Any],
        task_id: str,
        invocation: RunningInvocation,
        *,
        must_match: object = None,
        store_result: bool = False,
        attributes: Callable[[], Mapping[str, Any]] | None = None,
        feed: Source | None = None,
        batcher: WriteBatcher | None = None,
    ) -> None:
        """Start the task with `must_match`; with `store_result`, what the function returns is stored with the success.

        `attributes` returns those with which the task is created if it is missing; otherwise that is an error.
        """
        super().__init__(step._definition.codes, task_id, feed=feed, batcher=batcher)
        self.step = step
        self.duration = timedelta(0)
        """How long it took, including the claim and recording the end."""
        self.unsent: Exception | None = None
        """Why the message to the queue of the next step was not sent."""
        self._invocation = invocation
        self._must_match = must_match
        self._stores_result = store_result
        self._attributes = attributes
        self._begun = clock.now()

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the function with the context and the arguments; what it raises is kept in `error`.

        Only KeyboardInterrupt leaves: after SystemExit, other records of the event are still to be run. And
        UnreadableEventError if the task was to be created, and its attributes cannot be stored.
        """

        def work(ctx: ExecutionContext[Any]) -> object:
            ctx.invocation = self._invocation.context
            if self._invocation.on_start is not None:
                self._invocation.on_start(self)
            return function(ctx, *arguments)

        start = partial(self.step.start, lock_for=self._invocation.lock_for, must_match=self._must_match)
        with suppress(SystemExit):
            self.execute(start, partial(call_for_result, work) if self._stores_result else work)
        if self._run is not None:
            self._run.create = None  # otherwise the two would keep each other, and the event, until they are collected
        self.duration = clock.now() - self._begun
        if self.was_claimed or self.is_broken:  # a table that does not respond takes as long the next time
            self._invocation.note_duration(self.duration)
        if not self.was_claimed and isinstance(self.error, exceptions.ValueNotStorableError):
            raise self._not_storable(self.error) from self.error
        if not self.was_claimed and isinstance(self.error, UnreadableEventError):
            raise self.error

    def create(self) -> bool:
        """Create the task, pending, if it is missing, and return whether it was; UnreadableEventError as of `run`.

        A claim does not create a task over an expired row, so this does not either.
        """
        context = copy_context()
        context.run(keeps_expired.set, True)  # noqa: FBT003 - the value of a variable
        try:
            context.run(self._created, None)
        except exceptions.TaskAlreadyExistsError:
            return False
        return True

    def hold_back(self, pause: "Pause") -> None:
        """Leave the task as it is, because its step is paused; one that is missing is created if it is to be."""
        of = self.step._definition
        try:
            payload = None if self._must_match is None else fingerprint(self._must_match)
            error = of.refusal(self.task_id, pause, payload)
            if self._attributes is not None and isinstance(error, exceptions.TaskNotFoundError):
                self.create()
                error = of.refusal(self.task_id, pause, payload)
            self.details.error = error
        except UnreadableEventError:
            raise
        except Exception as error:  # noqa: BLE001 - kept like what a claim raises
            self.details.error = error

    @property
    def is_only_here(self) -> bool:
        """Whether the step is paused, and `also_from` alone lets the task start, as a message of its own does."""
        found = self.error.task if isinstance(self.error, exceptions.StepPausedError) else None
        return found is not None and found.status not in self.codes.own

    def follow(self, run: Run[Any]) -> None:
        """Have the run keep the details of this attempt up to date, and create the task if it is to."""
        super().follow(run)
        if self._attributes is not None:
            run.create = partial(self._create, run)

    def hand_on(self, queue: Queue, group: str | None = None) -> None:
        """Send the task to the queue of its next step if it has succeeded; keep an error in `unsent`.

        A repeated delivery sends it again while the task is pending there, because the invocation before may have died
        between the two. A FIFO queue drops that message while no other claim has been made since.
        """
        if "succeeded" not in (self.outcome, self.reason) or not self._leads_to_next:
            return
        sender = f"{self.task.use_case_id} {self.task.creation} {self.step.name} {self.task.fence}"
        self.unsent = queue.send_one(self.task, sender, group=group)

    @property
    def _leads_to_next(self) -> bool:
        """Whether the task has gone on to the step that comes next in order, and not to a branch."""
        codes, task = self.codes, self.task
        if self.was_claimed and self._run is not None and self._run.journal is not None:
            return self._run.journal.next_code == codes.succeeded
        return task.status == codes.succeeded and not {codes.pending, codes.succeeded} & {*(task.skipped_steps or ())}

    def _create(self, run: Run[Any]) -> Any:
        """Return the missing task, which the run then creates; None if it was created here, because of its options."""
        try:
            return self._created(run)
        except exceptions.TaskAlreadyExistsError:
            log.debug("%s: another event has created it", self, extra=self.details.log_fields)
            return None

    def _created(self, run: Run[Any] | None) -> Any:
        """Return the missing task for the run, or create it, pending, if there is no run or it has options.

        UnreadableEventError if it has attributes that cannot be stored.
        """
        _, pausing = self._sharing()
        with pausing:
            given = self.new_attributes
            payload = None if self._must_match is None else fingerprint(self._must_match)
            try:
                if self._options(given) <= {"trace"}:
                    definition = self.step._definition
                    return definition.create(self.task_id, given, payload) if run is None else run.new_task(given)
                is_first = self.codes is self.step.model.tracker.steps[0]  # where some options have to begin
                self.step.model.create(self.task_id, state=None if is_first else self.step.pending, **given)
            except (TypeError, ValueError) as error:
                raise self._not_storable(error, f" with {shape_of(given)}") from error
        return None

    @cached_property
    def new_attributes(self) -> Mapping[str, Any]:
        """What a missing task is created with; UnreadableEventError if the event has not got it."""
        return {} if self._attributes is None else self._attributes()

    def _options(self, given: Mapping[str, Any]) -> set[str]:
        """Return the names that are no attributes; a TypeError for those of the id and of the state."""
        options: set[str] = {**given}.keys() - self.step.model.tracker.own_attributes.keys()
        if options & {"task_id", "state"}:
            raise TypeError("the event has the id of a new task, and the handler its step: leave both out")
        return options

    def _not_storable(self, error: Exception, given: str = "") -> UnreadableEventError:
        """Return the error for a task that cannot be created; a message may contain a value that is confidential."""
        log.debug("%s cannot be created", self, exc_info=error, extra=self.details.log_fields)
        attribute = f" for {error.attribute!r}" if isinstance(error, exceptions.ValueNotStorableError) else ""
        return UnreadableEventError(
            f"{self} cannot be created{given}: {type(error).__name__}{attribute}; its message is logged at level DEBUG"
        )

    @property
    def cause(self) -> BaseException | None:
        """Why the record has to be redelivered, if it has to."""
        return self.unsent or self.error

    @property
    def reason(self) -> Reason | None:
        """Why the task did not succeed in this invocation, which decides the reply; None if it did."""
        if self.unsent is not None:
            return "unavailable"
        if self.was_claimed:
            outcome = self.outcome
            if outcome == "succeeded":
                return None
            return "unavailable" if outcome == "refused" else outcome
        for kind, reason in exceptions.REASONS.items():
            if isinstance(self.error, kind):
                return self._why_not_ready if reason == "not_ready" else reason
        return "unavailable"

    @property
    def _why_not_ready(self) -> Reason:
        """Whether only a person can let the task go on, or it waits for others or for its next occurrence."""
        task = self.task
        if task is None:
            return "not_ready"
        if any(task.status == codes.ignored for codes in task.tracker.steps):  # at a step before this one
            return "ignored"
        return (
            "waits"
            if task.status == self.codes.pending and (task.blockers or task.awaited_signals or task.repeat)
            else "not_ready"
        )

    @property
    def result(self) -> Invocation[Any]:
        """What became of the task for its caller, with nothing that an attempt assigned which did not succeed."""
        reason, task, value = self.reason, self.task, None
        repeated = reason == "succeeded"
        if reason is None:
            value = self.value
        elif repeated:
            value = self.step.result(task)
        elif self.was_claimed:
            task = as_stored(task)
        return Invocation(
            status=reason or "succeeded",
            repeated=repeated,
            task_id=self.task_id,
            task=task,
            result=value,
            error=self.cause,
            retry_after=self._retry_after(task),
        )

    def _retry_after(self, task: Any) -> timedelta | None:
        """Return when another try makes sense: a locked task may be done long before its lock expires."""
        if self.reason == "unavailable":
            return _LOOK_AGAIN
        if isinstance(self.error, exceptions.StepPausedError):
            until = self.error.until
            return min(_ASK_AGAIN, max(until - clock.now(), timedelta(0)) if until is not None else _ASK_AGAIN)
        if task is None or self.reason not in ("locked", "not_ready", "waits", "failed", "released"):
            return None
        if task.due_time == clock.NEVER:
            return None
        wait = _LOOK_AGAIN
        if self.reason == "failed" or task.status in (self.codes.pending, self.codes.failed):
            wait = task.due_time - clock.now()
        elif self.reason == "locked":
            wait = min(task.lock_expire_time - clock.now(), _LOOK_AGAIN)
        return max(wait, timedelta(0))

    @property
    def claim_error(self) -> BaseException | None:
        """The error that kept the task from being claimed, unless it is about the task, such as a refusal."""
        return self.error if not self.was_claimed and not isinstance(self.error, exceptions.TaskError) else None

    @property
    def is_broken(self) -> bool:
        """Whether it failed because of the table or the next queue: throttled, not reached, missing, or not allowed."""
        return self.unsent is not None or is_broken(self.details)

    def __str__(self) -> str:
        attempt = f" (attempt {self.details.attempt})" if self.was_claimed else ""
        return f"{self.step.name} of {self.step.model.__name__} {self.task_id!r}{attempt}"
