"""A scheduled handler that runs a step's due tasks, or sends them to a queue."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
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
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.hydration import rows
from pynamodb_tracker.model.row import T
from pynamodb_tracker.model.status import Codes
from pynamodb_tracker.model.worker_name import working_as
from pynamodb_tracker.step.bound import BoundStep, bound_functions
from pynamodb_tracker.step.definition import States
from pynamodb_tracker.step.functions import StepFunction, any_function_of, for_threads
from pynamodb_tracker.task.task import Task
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import ThreadExecutor
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.source import OnceThrough, StepSource, StepWork

if TYPE_CHECKING:
    from pynamodb_tracker.aio.context import AsyncContext


_FIRST_ESTIMATE = timedelta(seconds=10)  # how long a task takes, until three have run
_TOO_LATE = timedelta(seconds=1)
_BATCH_SIZE = 10  # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html


class RetryHandler(Protocol):
    """A Lambda handler. The event's content does not matter."""

    def __call__(self, event: Any, context: LambdaContext | None, /) -> dict[str, int]:
        """Run or send the due tasks, and return how many had each outcome."""


def retry_handler(
    step: BoundStep[T] | Sequence[type[Task] | BoundStep[Any]],
    function: "Callable[[ExecutionContext[T]], object] | Callable[[AsyncContext[T]], Awaitable[object]] | None" = None,
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
    """Make a Lambda handler for a schedule that runs a step's due tasks: pending, failed and abandoned ones.

    It runs them as `run_all` does, including tasks that its runs make due at these steps. A lock lasts one second
    longer than the invocation can. With `queue_url`, it sends `{"task_id": ...}` for each due task to that SQS queue
    instead, for a function that `handles` the step. In a FIFO queue, each task is its own group.

    The handler raises a table's error if it could try no task, and TrackerError if the queue refused messages.

    Args:
        step: The step, or a list of use cases or steps, as `[Order, Refund]`: every step that has a function runs, and
            each in turn gives one task.
        function: Gets the context. By default, the function that `does` has bound to the step.
        queue_url: A queue that gets the due tasks.
        threads: How many tasks run at once.
        limit: How many tasks start at most, over all steps.
        since: Only tasks that came to their state within this time.
        only: Only tasks in these states.
        error_contains: Only tasks with this text in their last error.
        rate: How many tasks start per second at most.
        time_per_task: No task starts if the invocation has less time left. By default, the third longest time among the
            last 20 tasks, and 10 seconds until three have run.
        next_queue_url: The next step's queue, as in `handles`.
        message_group: As in `handles`. With `queue_url`, the handler reads the tasks' rows for it.
        metrics: As in `handles`.

    Returns:
        A handler that returns a `Tally` as a dictionary, and how many tasks it `sent` to the queue. `out_of_time` is
        true if tasks may be left because the invocation was about to end.

    Raises:
        TypeError: An argument has the wrong type, or does not fit the others.
        ValueError: An argument has a value that is not allowed.

    Examples:
        >>> handler = retry_handler(Order.ship)
    """
    if queue_url is not None and function is not None:
        raise TypeError("retry_handler takes either a function or queue_url")
    steps = _steps_to_run(step, function) if queue_url is None else [check_step(step)]
    arguments.check_limit("limit", limit)
    if only != () and len(steps) > 1:
        raise ValueError("only has states of one step, and these are several: make a handler for each")
    for each in steps:
        each._definition.codes_to_do(only)
    arguments.check_text("error_contains", error_contains)
    if since is not None:
        arguments.check_duration("since", since)
    namespace = namespace_of(metrics)
    if queue_url is not None:
        if (threads, rate, time_per_task, next_queue_url, namespace) != (1, None, None, None, None):
            raise TypeError(
                "queue_url excludes threads, rate, time_per_task, next_queue_url and metrics: set them where the "
                "messages are processed"
            )
        target = Queue("queue_url", queue_url, steps[0].model, message_group)
        queue: Queue | None = target
        process = partial(_Sweep.send_tasks, queue=target)
    else:
        queue = _next_queue(steps, next_queue_url, message_group)
        _check_run_options(function, threads, rate, time_per_task)
        process = partial(_Sweep.run_tasks, function=function, threads=threads, rate=rate, next_queue=queue)
    times = TaskTimes(_FIRST_ESTIMATE if time_per_task is None and queue_url is None else timedelta(0))
    known = {each: set[str]() for each in steps}
    for each in steps:
        prepare_in_lambda(each, queue)

    def handler(event: Any, context: LambdaContext | None) -> dict[str, int]:  # noqa: ARG001 - a schedule's event is empty
        invocation = RunningInvocation(context, times)
        logs = {
            each: InvocationLog(each.model, each.name, invocation, "schedule", namespace, known=known[each])
            for each in steps
        }
        invocation.on_start = lambda attempt: logs[attempt.step].attempt_started(attempt)
        sweep = _Sweep(
            logs=logs,
            which={"since": since and clock.now() - since, "only": only, "error_contains": error_contains},
            limit=limit,
            invocation=invocation,
            min_time=time_per_task or _TOO_LATE,
            wait=timedelta(seconds=1 / rate if rate else 0),
        )
        with working_as(invocation.request_id), ending_with(invocation.deadline):
            process(sweep)
            return sweep.report()

    return handler


def _check_run_options(
    function: StepFunction[Any] | None, threads: int, rate: float | None, time_per_task: timedelta | None
) -> None:
    if function is not None:
        arguments.check_parameters(function, "ctx", may_be_async=True)
    arguments.check_threads(threads)
    arguments.check_rate("rate", rate)
    if time_per_task is not None:
        arguments.check_duration("time_per_task", time_per_task)


def _steps_to_run(given: object, function: StepFunction[Any] | None) -> list[BoundStep[Any]]:
    if not isinstance(given, list | tuple):
        step = check_step(given)
        any_function_of(step, function)
        return [step]
    if function is not None:
        raise TypeError("retry_handler runs the bound functions in a list: leave function out")
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
    logs: Mapping[BoundStep[Any], InvocationLog]
    which: Mapping[str, Any]  # arguments of `due`
    limit: int | None
    invocation: RunningInvocation
    min_time: timedelta
    wait: timedelta  # the longest wait for a start because of `rate`
    tallies: dict[BoundStep[Any], Tally] = field(default_factory=dict)
    sent: int = 0
    out_of_time: bool = False
    table_errors: list[PynamoDBException] = field(default_factory=list)  # of claims
    unsent: list[Exception] = field(default_factory=list)  # errors of messages to the next queue

    def run_tasks(
        self, *, function: StepFunction[Any] | None, threads: int, rate: float | None, next_queue: Queue | None
    ) -> None:
        """Run the due tasks. Without `function`, run the bound ones.

        Raise a table's error if no task could be claimed, and any other claim error at once. If a message to the next
        queue failed, raise that at the end.
        """
        steps, sources = {step._definition.codes: step for step in self.logs}, list[StepSource]()
        for step in self.logs:
            work = StepWork(step._definition, step.start, for_threads(function or any_function_of(step, None)))
            candidates = step._definition.candidates(threads=threads, limit=self.limit, **self.which)
            sources.append(OnceThrough(work, candidates))

        def new_attempt(codes: Codes, task_id: str, **of_work: Any) -> InvocationAttempt:
            return InvocationAttempt(steps[codes], task_id, self.invocation, next_queue=next_queue, **of_work)

        dispatcher = Dispatcher(sources, limit=self.limit, rate=rate, goes_on=self._has_time)
        ThreadExecutor(dispatcher, threads, self._note, new_attempt=new_attempt).run()
        for source in sources:
            self.tallies[steps[source.work.codes]] = source.tally
        if self.table_errors and len(self.table_errors) == self._number:
            raise self.table_errors[0]
        if self.unsent:
            raise self.unsent[0]

    def send_tasks(self, *, queue: Queue) -> None:
        """Send the due tasks, ten per request. At the end, raise TrackerError if the queue refused some."""
        [step] = self.logs
        candidates = step._definition.candidates(threads=1, limit=self.limit, **self.which)
        candidates.goes_on = self._has_time
        found = (task_id for task_id in candidates if isinstance(task_id, str))  # without waiting for a claim
        ids, failed = islice(found, self.limit), list[dict[str, Any]]()
        sender = self.invocation.request_id or uuid4().hex  # a FIFO queue drops its repeated messages
        while True:
            if step._definition.pause() is not None:
                self.tallies[step] = Tally(paused=True)
                break
            if not (batch := list(islice(ids, _BATCH_SIZE))):
                break
            tasks = {} if queue.message_group is None else rows(step.model, batch)
            entries = [
                queue.entry(str(at), task_id, sender, task=tasks.get(task_id)) for at, task_id in enumerate(batch)
            ]
            unsent = queue.send(entries)
            failed += unsent
            self.sent += len(batch) - len(unsent)
        if failed:
            raise queue.unsent(failed)

    def report(self) -> dict[str, int]:
        if self.out_of_time and not (self.sent or self._number):
            needed = self.invocation.time_for(self.min_time, self.wait)
            next(iter(self.logs.values())).write(
                logging.WARNING,
                f"no task was started, because {self.invocation.remaining} was left and a task needs {needed}: give "
                "the function a longer timeout, or set a lower time_per_task",
            )
        for step, log in self.logs.items():
            log.summary(self._summary(self.tallies.get(step, Tally())))
        return self._summary(sum(self.tallies.values(), Tally()))

    def _summary(self, tally: Tally) -> dict[str, Any]:
        return {**asdict(tally), "sent": self.sent, "out_of_time": self.out_of_time}

    @property
    def _number(self) -> int:
        return sum(it.succeeded + it.failed + it.ignored + it.refused + it.released for it in self.tallies.values())

    def _note(self, attempt: Any) -> None:
        """Log an attempt. Raise an error that is not about the table."""
        self.logs[attempt.step].attempt_ended(attempt)
        if attempt.unsent is not None:
            self.unsent.append(attempt.unsent)
        if isinstance(error := attempt.system_error, PynamoDBException):
            self.table_errors.append(error)
        elif error is not None:
            raise error

    def _has_time(self) -> bool:
        self.out_of_time = self.out_of_time or not self.invocation.has_time_for(self.min_time, self.wait)
        return not self.out_of_time
