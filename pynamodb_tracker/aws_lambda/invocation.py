"""An invocation: its time, and its attempts at tasks."""

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
from pynamodb_tracker.execution.call import call_for_result
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.changes import as_stored
from pynamodb_tracker.model.results import fingerprint
from pynamodb_tracker.model.row import keeps_expired
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.work.attempt import Attempt

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause


_LOCK_MARGIN = timedelta(seconds=1)  # Lambda may end the function a moment after its timeout
_TIME_TO_ANSWER = timedelta(seconds=0.5)  # after the last request
_LAST, _PLACE = 20, 3  # among the last twenty times, the third longest counts
_LOOK_AGAIN = timedelta(seconds=5)  # the longest `retry_after` for a locked task, or without a slot or a response
_SLOT_WAIT = timedelta(seconds=2)
_ASK_AGAIN = timedelta(minutes=1)  # the longest `retry_after` during a pause, which may end early


class LambdaContext(Protocol):
    """The used part of a handler's second argument.

    https://docs.aws.amazon.com/lambda/latest/dg/python-context.html
    """

    @property
    def aws_request_id(self) -> str:
        """The invocation's id, which stays the same if Lambda retries an event."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the function."""


class TaskTimes:
    """Estimates how long the next task takes from the last ones, without those that were slow or frozen once."""

    def __init__(self, at_first: timedelta = timedelta(0)) -> None:
        self.at_first = at_first  # the estimate until three tasks have run
        self.last = deque[timedelta](maxlen=_LAST)

    @property
    def expected(self) -> timedelta:
        longest = sorted(list(self.last), reverse=True)  # noqa: C414 - a copy, because other threads add to it
        return longest[_PLACE - 1] if len(longest) >= _PLACE else self.at_first


class RunningInvocation:
    """An invocation. Without a context, or with a mock, its time limit and id are unknown."""

    def __init__(self, context: LambdaContext | None, times: TaskTimes | None = None) -> None:
        self.context = context
        self.times = TaskTimes() if times is None else times
        self.on_start: Callable[[InvocationAttempt], None] | None = None  # called between a claim and its block
        self._is_first = True

    @property
    def request_id(self) -> str | None:
        found: object = None if self.context is None else self.context.aws_request_id
        return found if isinstance(found, str) else None

    @property
    def remaining(self) -> timedelta | None:
        """The time left, or None without a limit."""
        found: object = None if self.context is None else self.context.get_remaining_time_in_millis()
        return timedelta(milliseconds=found) if isinstance(found, int | float) else None

    @property
    def lock_for(self) -> timedelta | None:
        """How long a new lock lasts, or None for the step's own `lock_for`."""
        remaining = self.remaining
        return None if remaining is None else max(remaining, timedelta(0)) + _LOCK_MARGIN

    @property
    def deadline(self) -> datetime | None:
        """When the last request must have ended, or None without a limit."""
        remaining = self.remaining
        return None if remaining is None else clock.now() + remaining - _TIME_TO_ANSWER

    def note_duration(self, duration: timedelta) -> None:
        self._is_first = False
        self.times.last.append(duration)

    def time_for(self, at_least: timedelta, wait: timedelta = timedelta(0)) -> timedelta:
        """Return the wait plus `at_least`, or plus the estimate if that is more. The first task has the initial one."""
        # Slow tasks in earlier invocations must not stop all later ones.
        return wait + max(at_least, self.times.at_first if self._is_first else self.times.expected)

    def has_time_for(self, at_least: timedelta, wait: timedelta = timedelta(0)) -> bool:
        remaining = self.remaining
        return remaining is None or remaining >= self.time_for(at_least, wait)


def is_in_lambda() -> bool:
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ or os.environ.get("AWS_EXECUTION_ENV", "").startswith("AWS_Lambda_")


def prepare_in_lambda(step: BoundStep[Any], queue: Queue | None = None, *, with_payload: bool = False) -> None:
    """In Lambda's init phase, build what the first invocation would have to build."""
    if is_in_lambda():
        step._definition.prepare(with_payload=with_payload)
        if queue is not None:
            queue.connect()


class InvocationAttempt(Attempt):
    def __init__(
        self,
        step: BoundStep[Any],
        task_id: str,
        invocation: RunningInvocation,
        *,
        must_match: object = None,
        store_result: bool = False,
        attributes: Callable[[], Mapping[str, Any]] | None = None,
        next_queue: Queue | None = None,
        **of_work: Any,
    ) -> None:
        """`attributes` returns the attributes of a missing task, which is otherwise an error."""
        super().__init__(step._definition.codes, task_id, **of_work)
        self.step = step
        self._next_queue = next_queue
        self.duration = timedelta(0)  # with claim and end
        self.unsent: Exception | None = None  # why the message to the next queue was not sent
        self._invocation = invocation
        self._must_match = must_match
        self._stores_result = store_result
        self._attributes = attributes
        self._begun = clock.now()

    def run(self) -> None:
        if self.given is not None:
            self.run_function(self.given.source.work.function)
            if self._next_queue is not None:
                self.hand_on(self._next_queue)

    def run_function(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the function with the context and the arguments, and keep its exception in `error`.

        Raise only KeyboardInterrupt, because other records must run, and UnreadableEventError if a new task cannot be
        stored.
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
            self._run.create = None  # otherwise this cycle keeps the event in memory
        self.duration = clock.now() - self._begun
        if self.claim_error is None or self.is_broken:  # a broken table may take as long the next time
            self._invocation.note_duration(self.duration)
        if isinstance(self.claim_error, exceptions.ValueNotStorableError):
            raise self._not_storable(self.claim_error) from self.claim_error
        if isinstance(self.claim_error, UnreadableEventError):
            raise self.claim_error

    def create(self) -> bool:
        """Create the task, pending, if it is missing or expired. Return whether it was, and raise as `run` does."""
        context = copy_context()
        context.run(keeps_expired.set, True)  # noqa: FBT003 - the value of a variable
        try:
            context.run(self._build_task, None)
        except exceptions.TaskAlreadyExistsError:
            return False
        return True

    def hold_back(self, pause: "Pause | None") -> None:
        """Leave the task because its step is paused or its limit is reached. Create it if it is missing."""
        try:
            payload = None if self._must_match is None else fingerprint(self._must_match)
            look = partial(self.step._definition.refusal, self.task_id, pause, payload)
            refusal: Exception = look()
            if self._attributes is not None and isinstance(refusal, exceptions.TaskNotFoundError):
                self.create()
                refusal = look()
        except UnreadableEventError:
            raise
        except Exception as error:  # noqa: BLE001 - kept like an error of the claim
            refusal = error
        self.claim_error = self.details.error = refusal

    @property
    def is_only_here(self) -> bool:
        """Whether only `also_from` lets the task start after the pause, so that no schedule will find it."""
        found = self.task if isinstance(self.claim_error, exceptions.StepPausedError) else None
        return found is not None and found.status not in self.codes.own

    def follow(self, run: Run[Any]) -> None:
        super().follow(run)
        run.slot_wait = _SLOT_WAIT
        if self._attributes is not None:
            run.create = partial(self._create, run)

    def hand_on(self, queue: Queue, group: str | None = None) -> None:
        """Send the task to its next step's queue if it has succeeded. Keep an error in `unsent`.

        A repeated delivery sends it again while it is pending there, because the last invocation may have died before.
        A FIFO queue drops that message unless the task has been claimed since.
        """
        is_repeated = isinstance(self.claim_error, exceptions.TaskAlreadySucceededError)
        if (self.outcome == "succeeded" or is_repeated) and self._leads_to_next:
            sender = f"{self.task.use_case_id} {self.task.creation} {self.step.name} {self.task.fence}"
            self.unsent = queue.send_one(self.task, sender, group=group)

    @property
    def _leads_to_next(self) -> bool:
        """Whether the task has moved to the next step in order, and not to a branch."""
        codes, task = self.codes, self.task
        journal = None if self._run is None else self._run.journal
        if journal is not None:
            return journal.next_code == codes.succeeded
        return task.status == codes.succeeded and not {codes.pending, codes.succeeded} & {*(task.skipped_steps or ())}

    def _create(self, run: Run[Any]) -> Any:
        try:
            return self._build_task(run)
        except exceptions.TaskAlreadyExistsError:
            log.debug("%s: another event has created it", self, extra=self.details.log_fields)
            return None

    def _build_task(self, run: Run[Any] | None) -> Any:
        """Return the missing task for the run, or create it, pending, if it has options or `run` is None."""
        _, pausing = self._share_requests()
        with pausing:
            given = self.new_attributes
            payload = None if self._must_match is None else fingerprint(self._must_match)
            try:
                options: set[str] = {**given}.keys() - self.step.model.tracker.own_attributes.keys()
                if options & {"task_id", "state"}:
                    raise TypeError("the event has a new task's id, and the handler its step: leave both out")  # noqa: TRY301 - as if `create` refused it
                if options <= {"trace"}:
                    own = {**given}
                    trace = own.pop("trace", None)
                    if run is not None:
                        return run.new_task(own, trace)
                    return self.step._definition.create(self.task_id, own, trace, payload)
                is_first = self.codes is self.step.model.tracker.steps[0]  # some options are only for the first step
                self.step.model.create(self.task_id, state=None if is_first else self.step.pending, **given)
            except (TypeError, ValueError) as error:
                raise self._not_storable(error, f" with {shape_of(given)}") from error
        return None

    @cached_property
    def new_attributes(self) -> Mapping[str, Any]:
        return {} if self._attributes is None else self._attributes()

    def _not_storable(self, error: Exception, given: str = "") -> UnreadableEventError:
        """Return an error without the original message, which may contain a secret value."""
        log.debug("%s cannot be created", self, exc_info=error, extra=self.details.log_fields)
        attribute = f" for {error.attribute!r}" if isinstance(error, exceptions.ValueNotStorableError) else ""
        return UnreadableEventError(
            f"{self} cannot be created{given}: {type(error).__name__}{attribute}. Its message is logged at level DEBUG"
        )

    @property
    def cause(self) -> BaseException | None:
        return self.unsent or self.error

    @cached_property
    def reason(self) -> Reason | None:
        """Why the task did not succeed in this invocation, once it has ended. None for a success."""
        if self.unsent is not None:
            return "unavailable"
        if self.claim_error is None:
            outcome = self.outcome
            return None if outcome == "succeeded" else "unavailable" if outcome == "refused" else outcome
        for kind, reason in exceptions.REASONS.items():
            if isinstance(self.claim_error, kind):
                return self._why_not_ready if reason == "not_ready" else reason
        return "unavailable"

    @property
    def _why_not_ready(self) -> Reason:
        """Return "waits" if the task becomes due by itself, and "ignored" if only a person can help."""
        task = self.task
        if task is None:
            return "not_ready"
        if any(task.status == codes.ignored for codes in task.tracker.steps):  # at a step before this one
            return "ignored"
        waits = task.status == self.codes.pending and (task.blockers or task.awaited_signals or task.repeat)
        return "waits" if waits else "not_ready"

    @property
    def result(self) -> Invocation[Any]:
        """The result for the caller, without attributes that a failed attempt assigned."""
        reason, task, value = self.reason, self.task, None
        if reason is None:
            value = self.value
        elif reason == "succeeded":
            value = self.step.result(task)
        elif self.claim_error is None:
            task = as_stored(task)
        return Invocation(
            status=reason or "succeeded",
            repeated=reason == "succeeded",
            task_id=self.task_id,
            task=task,
            result=value,
            error=self.cause,
            retry_after=self._retry_after(task),
        )

    def _retry_after(self, task: Any) -> timedelta | None:
        """Return when another try makes sense. A locked task may end long before its lock expires."""
        if self.reason in ("unavailable", "limited"):
            return _LOOK_AGAIN
        if isinstance(self.claim_error, exceptions.StepPausedError):
            until = self.claim_error.until
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
    def system_error(self) -> BaseException | None:
        """Why the task could not be claimed, unless that is due to the task."""
        return None if isinstance(self.claim_error, exceptions.TaskError) else self.claim_error

    @property
    def is_broken(self) -> bool:
        return self.unsent is not None or is_broken(self.details)

    def __str__(self) -> str:
        attempt = "" if self.details.attempt is None else f" (attempt {self.details.attempt})"
        return f"{self.step.name} of {self.step.model.__name__} {self.task_id!r}{attempt}"
