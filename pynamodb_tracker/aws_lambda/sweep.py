"""What a schedule does with the due tasks of a step while there is time: it runs them, or sends them to a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from threading import Lock
from typing import Any, ClassVar, Protocol

from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.aws_lambda.invocation import Invocation
from pynamodb_tracker.aws_lambda.journal import Journal
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.context import ExecutionContext
from pynamodb_tracker.pace import paced
from pynamodb_tracker.threads import in_threads

__all__ = ["RunInPlace", "SendToQueue", "Sweep", "swept"]

Bounded = Callable[[Iterable[str]], Iterator[str]]
"""Returns those ids for which there is time, and which the limit allows."""


class Sweep(Protocol):
    """What is done with due tasks."""

    @property
    def floor(self) -> timedelta:
        """No further task is begun when the invocation has less time left."""
        ...

    def over(
        self, which: Mapping[str, Any], bounded: Bounded, invocation: Invocation, journal: Journal
    ) -> Counter[str]:
        """Do it with those that are due, and count what became of them; `which` are arguments of `todo`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInPlace:
    """Runs a function on each task."""

    step: BoundStep[Any]
    function: Callable[[ExecutionContext[Any]], object]
    threads: int
    rate: float | None
    time_per_task: timedelta

    @property
    def floor(self) -> timedelta:
        """The wait for its turn is a part of the time of a task."""
        return self.time_per_task + timedelta(seconds=1 / self.rate if self.rate else 0)

    def over(
        self, which: Mapping[str, Any], bounded: Bounded, invocation: Invocation, journal: Journal
    ) -> Counter[str]:
        """Run what is due."""
        feed, guard = self.step.feed(threads=self.threads, **which), Lock()
        done: Counter[str] = Counter()

        def run(task_id: str) -> None:
            attempt = Attempt(self.step, task_id, invocation)
            attempt.run(self.function)
            if attempt.met_another:
                feed.met()
            with guard:
                journal.note(attempt)
                done[attempt.outcome] += 1

        in_threads(run, paced(bounded(feed), self.rate), self.threads)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class SendToQueue:
    """Sends a message for each task."""

    step: BoundStep[Any]
    queue: Queue
    floor: ClassVar[timedelta] = timedelta(seconds=1)

    def over(
        self,
        which: Mapping[str, Any],
        bounded: Bounded,
        invocation: Invocation,
        journal: Journal,  # noqa: ARG002 - who runs the task tells of it
    ) -> Counter[str]:
        """Send what is due."""
        return Counter(sent=sum(self.queue.send(bounded(self.step.due_ids(**which)), invocation.request_id)))


def swept(
    sweep: Sweep, which: Mapping[str, Any], limit: int | None, invocation: Invocation, journal: Journal
) -> dict[str, Any]:
    """Return what became of the due tasks, and whether there was time for all of them."""
    out_of_time = False

    def bounded(ids: Iterable[str]) -> Iterator[str]:
        nonlocal out_of_time
        for task_id in islice(ids, limit):
            if not invocation.has_time_for(sweep.floor):
                out_of_time = True
                return
            yield task_id

    done = sweep.over(which, bounded, invocation, journal)
    if out_of_time and not done.total():
        journal.warn(
            f"nothing was begun, for the invocation had only {invocation.remaining} left: give the function a longer "
            f"timeout, or a task less time than {sweep.floor}"
        )
    counts = {name: done[name] for name in ("succeeded", "failed", "ignored", "refused", "sent")}
    return {**counts, "out_of_time": out_of_time}
