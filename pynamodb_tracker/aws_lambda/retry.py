"""A scheduled handler: it runs the due tasks of a step itself, or sends them to a queue."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import (
    check_duration,
    check_limit,
    check_parameters,
    check_rate,
    check_text,
    check_threads,
)
from pynamodb_tracker.aws_lambda.emf import namespace_of
from pynamodb_tracker.aws_lambda.handler import check_step
from pynamodb_tracker.aws_lambda.invocation import (
    InvocationAttempt,
    LambdaContext,
    RunningInvocation,
    TaskTimes,
    prepare_in_lambda,
)
from pynamodb_tracker.aws_lambda.journal import InvocationLog
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.dynamodb.retries import ending_with
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.worker_name import working_as
from pynamodb_tracker.step import BoundStep, States
from pynamodb_tracker.step.bound import bound_functions
from pynamodb_tracker.step.functions import any_function_of, for_threads
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import ThreadExecutor
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.source import Given, OnceThrough, StepSource, StepWork

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext
    from pynamodb_tracker.step.functions import StepFunction

T = TypeVar("T", bound=TaskRow)

_FIRST_ESTIMATE = timedelta(seconds=10)
"""How long a task is expected to take until three have run."""
_TOO_LATE = timedelta(seconds=1)
_BATCH_SIZE = 10
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""


class RetryHandler(Protocol):
    """A Lambda handler. The event's content does not matter."""

    def __call__(self, event: Any, context: LambdaContext | None, /) -> dict[str, int]:
        """Run or send the due tasks, and return how many tasks had each outcome."""


def retry_handler(
    step: BoundStep[T] | Sequence[type[Task] | BoundStep[Any]],
    function: Callable[[ExecutionContext[T]], object] | Callable[[AsyncContext[T]], Awaitable[object]] | None = None,
    *,
    queue_url: str | None = None,
    threads: int = 1,
    limit: int | None = None,
    since: timedelta | None = None,
    only: States = (),
    error_contains: str | None = None,
    rate: float | None = None,
    time_per_task: timedelta | None = None,
    next_queue_url: str | None = None,
    message_group: Callable[[Any], str | None] | None = None,
    metrics: bool | str = False,
) -> RetryHandler:
    """Make a Lambda handler for a schedule that runs the due tasks of a step: pending, failed and abandoned ones.

    It runs them as `run_all` does, and also runs tasks that its runs make due at these steps, such as at the next step.
    A lock lasts one second longer than the invocation can. With `queue_url`, it sends `{"task_id": ...}` for each due
    task to that SQS queue instead, for a function that `handles` the step. In a FIFO queue, each task is a group of its
    own. The event's content does not matter.

    The handler raises an error of the table if no task could be tried, and TrackerError if the queue did not accept all
    messages.

    Args:
        step: The step, or a list of use cases, `[Order, Refund]`, or of steps: every step that has a function runs, and
            each in turn gives one task.
        function: The function of the context. By default, the one that `does` has bound to the step.
        queue_url: The URL of a queue that gets the due tasks.
        threads: How many tasks run at once.
        limit: How many tasks start at most, over all steps.
        since: Only tasks that came to their state within this time.
        only: Only tasks in these states.
        error_contains: Only tasks whose last error contains this text.
        rate: How many tasks start per second at most.
        time_per_task: No task starts if the invocation has less time left. By default, this is the third longest of
            the last 20 tasks, and 10 seconds until three have run.
        next_queue_url: The URL of the next step's queue, as in `handles`.
        message_group: As in `handles`. With `queue_url`, the rows of the tasks are read, too.
        metrics: As in `handles`.

    Returns:
        A handler that returns the numbers of a `Tally` as a dictionary, with the number of tasks `sent` to the queue.
        `out_of_time` tells whether tasks may be left because the invocation was about to end.

    Raises:
        TypeError: An argument has the wrong type, or does not fit another one.
        ValueError: An argument has a value that is not allowed.

    Examples:
        >>> handler = retry_handler(Order.ship)
    """
    if queue_url is not None and function is not None:
        raise TypeError("retry_handler takes either a function of the context or queue_url")
    steps = _steps_to_run(step, function) if queue_url is None else [check_step(step)]
    check_limit("limit", limit)
    if only != () and len(steps) > 1:
        raise ValueError("only has states of one step, and these are several: make a handler for each")
    for each in steps:
        each._definition.codes_to_do(only)
    check_text("error_contains", error_contains)
    if since is not None:
        check_duration("since", since)
    namespace = namespace_of(metrics)
    if queue_url is not None:
        if (threads, rate, time_per_task, next_queue_url, namespace) != (1, None, None, None, None):
            raise TypeError(
                "threads, rate, time_per_task, next_queue_url and metrics cannot be combined with queue_url: "
                "set them where the messages are processed"
            )
        action: _RunTasks | _SendTasks = _SendTasks(Queue("queue_url", queue_url, steps[0].model, message_group))
    else:
        queue = _next_queue(steps, next_queue_url, message_group)
        action = _RunTasks(function=function, threads=threads, rate=rate, time_per_task=time_per_task, queue=queue)
    times = TaskTimes(_FIRST_ESTIMATE if time_per_task is None and queue_url is None else timedelta(0))

    known = {each: set[str]() for each in steps}
    for each in steps:
        prepare_in_lambda(each, action.queue)

    def handler(event: Any, context: LambdaContext | None) -> dict[str, int]:  # noqa: ARG001 - a schedule's event has no content
        invocation = RunningInvocation(context, times)
        logs = {
            each: InvocationLog(each.model, each.name, invocation, "schedule", namespace, known=known[each])
            for each in steps
        }
        invocation.on_start = lambda attempt: logs[attempt.step].attempt_started(attempt)
        which = {"since": since and clock.now() - since, "only": only, "error_contains": error_contains}
        with working_as(invocation.request_id), ending_with(invocation.deadline):
            return _Sweep(action=action, logs=logs, which=which, limit=limit, invocation=invocation).perform()

    return handler


def _steps_to_run(given: object, function: StepFunction[Any] | None) -> list[BoundStep[Any]]:
    if not isinstance(given, list | tuple):
        any_function_of(check_step(given), function)
        return [check_step(given)]
    if function is not None:
        raise TypeError("retry_handler of a list runs the functions that are bound to its steps: leave function out")
    return list(bound_functions(given, any_function_of))


def _next_queue(
    steps: Sequence[BoundStep[Any]], url: str | None, message_group: Callable[[Any], str | None] | None
) -> Queue | None:
    if message_group is not None and url is None:
        raise TypeError("message_group is for messages to a queue: set next_queue_url or queue_url, too")
    if url is not None and len(steps) > 1:
        raise ValueError("next_queue_url is the queue after one step, and these are several: make a handler for each")
    return None if url is None else Queue("next_queue_url", url, steps[0].model, message_group)


@dataclass(slots=True, kw_only=True)
class _Sweep:
    """One scheduled invocation, which processes due tasks while there is time."""

    action: _RunTasks | _SendTasks
    logs: Mapping[BoundStep[Any], InvocationLog]
    which: Mapping[str, Any]
    """Arguments of `due`."""
    limit: int | None
    invocation: RunningInvocation
    tallies: dict[BoundStep[Any], Tally] = field(default_factory=dict)
    sent: int = 0
    """How many tasks were sent to the queue."""
    out_of_time: bool = False
    table_errors: list[PynamoDBException] = field(default_factory=list)
    """Errors of the table that kept tasks from being claimed."""
    unsent: list[Exception] = field(default_factory=list)
    """Errors that kept succeeded tasks from being sent to their next queue."""

    def perform(self) -> dict[str, int]:
        self.action.process(self)
        if self.out_of_time and not (self.sent or self.number):
            needed = self.invocation.time_for(self.action.min_time, self.action.wait)
            next(iter(self.logs.values())).write(
                logging.WARNING,
                f"no task was started, because the invocation had only {self.invocation.remaining} left and a task "
                f"needs {needed}: give the function a longer timeout, or set a lower time_per_task",
            )
        for step, log in self.logs.items():
            log.summary(self._summary(self.tallies.get(step, Tally())))
        return self._summary(sum(self.tallies.values(), Tally()))

    def _summary(self, tally: Tally) -> dict[str, Any]:
        return {**asdict(tally), "sent": self.sent, "out_of_time": self.out_of_time}

    @property
    def number(self) -> int:
        """How many tasks have an outcome."""
        return sum(it.succeeded + it.failed + it.ignored + it.refused + it.released for it in self.tallies.values())

    def note(self, attempt: Any) -> None:
        """Log an attempt. Raise an error that says nothing about the table."""
        self.logs[attempt.step].attempt_ended(attempt)
        if attempt.unsent is not None:
            self.unsent.append(attempt.unsent)
        if isinstance(error := attempt.claim_error, PynamoDBException):
            self.table_errors.append(error)
        elif error is not None:
            raise error

    def is_paused(self, step: BoundStep[Any]) -> bool:
        """Return whether a step is paused, and note that."""
        if step._definition.pause() is None:
            return False
        self.tallies[step] = Tally(paused=True)
        return True

    def has_time(self) -> bool:
        """Return whether another task may start."""
        self.out_of_time = self.out_of_time or not self.invocation.has_time_for(self.action.min_time, self.action.wait)
        return not self.out_of_time


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunTasks:
    function: StepFunction[Any] | None
    """None for the function that is bound to the task's step."""
    threads: int
    rate: float | None
    time_per_task: timedelta | None
    queue: Queue | None
    """The next step's queue."""

    def __post_init__(self) -> None:
        if self.function is not None:
            check_parameters(self.function, "ctx", may_be_async=True)
        check_threads(self.threads)
        check_rate("rate", self.rate)
        if self.time_per_task is not None:
            check_duration("time_per_task", self.time_per_task)

    @property
    def min_time(self) -> timedelta:
        return self.time_per_task or _TOO_LATE

    @property
    def wait(self) -> timedelta:
        """How long `rate` may make a task wait before it starts."""
        return timedelta(seconds=1 / self.rate if self.rate else 0)

    def process(self, sweep: _Sweep) -> None:
        """Run the due tasks.

        An error of the table is raised if no task could be claimed, any other claim error at once. If succeeded tasks
        could not be sent to the next queue, the first error is raised after all others have run.
        """
        which = {"threads": self.threads, "limit": sweep.limit, **sweep.which}
        steps, sources = {step._definition.codes: step for step in sweep.logs}, list[StepSource]()
        for step in sweep.logs:
            work = StepWork(step._definition, step.start, for_threads(self.function or any_function_of(step, None)))
            sources.append(OnceThrough(work, step._definition.candidates(**which)))

        def new_attempt(given: Given) -> InvocationAttempt:
            step = steps[given.source.work.codes]
            return InvocationAttempt(step, given.task_id, sweep.invocation, next_queue=self.queue)

        dispatcher = Dispatcher(sources, limit=sweep.limit, rate=self.rate, goes_on=sweep.has_time)
        ThreadExecutor(dispatcher, self.threads, sweep.note, new_attempt=new_attempt).run()
        for source in sources:
            sweep.tallies[steps[source.work.codes]] = replace(source.tally, paused=source.pause is not None)
        if sweep.table_errors and len(sweep.table_errors) == sweep.number:
            raise sweep.table_errors[0]
        if sweep.unsent:
            raise sweep.unsent[0]


class _SendTasks:
    min_time, wait = _TOO_LATE, timedelta(0)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def process(self, sweep: _Sweep) -> None:
        """Send the due tasks, ten per request. If the queue refuses some, raise TrackerError after the others are sent.

        In a FIFO queue, all messages of one invocation about one task within five minutes are one message.
        """
        [step] = sweep.logs
        candidates = step._definition.candidates(threads=1, limit=sweep.limit, **sweep.which)
        candidates.goes_on = sweep.has_time
        found = (task_id for task_id in candidates if isinstance(task_id, str))  # there are no claims to wait for
        ids, failed = islice(found, sweep.limit), list[dict[str, Any]]()
        sender = sweep.invocation.request_id or uuid4().hex
        while not sweep.is_paused(step) and (batch := list(islice(ids, _BATCH_SIZE))):
            tasks = {} if self.queue.message_group is None else rows(step.model, batch)
            entries = [
                self.queue.entry(str(at), task_id, sender, task=tasks.get(task_id)) for at, task_id in enumerate(batch)
            ]
            unsent = self.queue.send(entries)
            failed += unsent
            sweep.sent += len(batch) - len(unsent)
        if failed:
            raise self.queue.unsent(failed)
