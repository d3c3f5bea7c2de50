"""A scheduled handler: what is left of a step is run in place, or sent to a queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from pynamodb_tracker import clock
from pynamodb_tracker.arguments import (
    check_duration,
    check_limit,
    check_rate,
    check_text,
    check_threads,
)
from pynamodb_tracker.aws_lambda.invocation import Invocation, LambdaContext
from pynamodb_tracker.aws_lambda.logs import Journal
from pynamodb_tracker.aws_lambda.metrics import check_namespace
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.aws_lambda.record_job import check_function_of, check_step
from pynamodb_tracker.aws_lambda.sweep import RunInPlace, SendToQueue, Sweep
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep, States
from pynamodb_tracker.worker_name import working_as

__all__ = ["retry_handler"]

T = TypeVar("T", bound=TaskRow)

_TIME_PER_TASK = timedelta(seconds=10)


def retry_handler(
    step: BoundStep[T],
    function: Callable[[ExecutionContext[T]], object] | None = None,
    *,
    queue_url: str | None = None,
    threads: int = 1,
    limit: int | None = None,
    since: timedelta | None = None,
    only: States = (),
    error_like: str | None = None,
    rate: float | None = None,
    time_per_task: timedelta | None = None,
    metrics: bool | str = False,
) -> Callable[[Any, LambdaContext | None], dict[str, Any]]:
    """Make a Lambda handler for a schedule, which runs what is left of a step: pending, failed and abandoned tasks.

    With a function of the context it runs them in place, as `run_all` does; the locks last as long as the invocation
    can, and a second. It begins none when the invocation has less than `time_per_task` left, 10 seconds unless set, or
    less than the longest took so far; `limit` bounds how many are begun. With `queue_url` it sends
    `{"task_id": ...}` for each to that queue of SQS instead, for a function that `handles` the step; in a FIFO queue
    each task is a group of its own. `since` looks at tasks that came to their state within that time; all else is as of
    `run_all` and `handles`. The event does not matter.
    Returns how many `succeeded`, `failed`, were `ignored`, `refused` or `sent`, and whether it was `out_of_time`. An
    error of the table leaves where no task could be tried; TrackerError where the queue did not take all.
    """
    check_step(step)
    if (function is None) == (queue_url is None):
        raise TypeError("retry_handler takes a function of the context, or queue_url: one of both")
    check_limit("limit", limit)
    step.codes_to_do(only)
    check_text("error_like", error_like)
    if since is not None:
        check_duration("since", since)
    namespace = check_namespace(metrics)
    if function is None:
        if (threads, rate, time_per_task, namespace) != (1, None, None, None):
            raise TypeError(
                "threads, rate, time_per_task and metrics are for a function: give them to who takes the queue"
            )
        way: RunInPlace | SendToQueue = SendToQueue(Queue(queue_url))
    else:
        way = _in_place(function, threads, rate, _TIME_PER_TASK if time_per_task is None else time_per_task)

    def handler(event: Any, context: LambdaContext | None) -> dict[str, Any]:  # noqa: ARG001 - the schedule's event says nothing
        invocation = Invocation(context)
        journal = Journal(step, invocation, "schedule", namespace)
        which = {"since": since and clock.now() - since, "only": only, "error_like": error_like}
        with working_as(invocation.request_id):
            sweep = Sweep(way=way, step=step, which=which, limit=limit, invocation=invocation, journal=journal)
            done = sweep.run()
            journal.tell(", ".join(f"{count} {name}" for name, count in done.items()), **done)
            return done

    return handler


def _in_place(
    function: Callable[[ExecutionContext[Any]], object], threads: int, rate: float | None, time_per_task: timedelta
) -> RunInPlace:
    check_function_of(function, "ctx")
    return RunInPlace(
        function=function,
        threads=check_threads(threads),
        rate=check_rate("rate", rate),
        time_per_task=check_duration("time_per_task", time_per_task),
    )
