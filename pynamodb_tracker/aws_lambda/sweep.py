"""What a schedule does with the due tasks of a step while there is time: it runs them, or sends them to a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from threading import Lock
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.aws_lambda.invocation import Invocation
from pynamodb_tracker.aws_lambda.logs import Journal
from pynamodb_tracker.aws_lambda.queue import Queue
from pynamodb_tracker.batch.thread_pool import in_threads
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.step.bound import BoundStep

__all__ = ["RunInPlace", "SendToQueue", "Sweep"]


@dataclass(slots=True, kw_only=True)
class Sweep:
    """What one invocation of a schedule does."""

    way: RunInPlace | SendToQueue
    step: BoundStep[Any]
    which: Mapping[str, Any]
    """Arguments of `todo`."""
    limit: int | None
    invocation: Invocation
    journal: Journal
    done: Counter[str] = field(default_factory=Counter)
    """What became of tasks."""
    out_of_time: bool = False

    def run(self) -> dict[str, Any]:
        """Do it, and return what became of the tasks, and whether there was time for all of them."""
        self.way.work_off(self)
        if self.out_of_time and not self.done.total():
            self.journal.warn(
                f"nothing was begun, for the invocation had only {self.invocation.remaining} left: give the function a "
                f"longer timeout, or a task less time than {self.way.floor}"
            )
        counts = {name: self.done[name] for name in ("succeeded", "failed", "ignored", "refused", "sent")}
        return {**counts, "out_of_time": self.out_of_time}

    def has_time(self) -> bool:
        """Tell whether a further task may be begun."""
        self.out_of_time = self.out_of_time or not self.invocation.has_time_for(self.way.floor)
        return not self.out_of_time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInPlace:
    """Runs a function on each task."""

    function: Callable[[ExecutionContext[Any]], object]
    threads: int
    rate: float | None
    time_per_task: timedelta

    @property
    def floor(self) -> timedelta:
        """With less time left no further task is begun; the wait for its turn is a part of its time."""
        return self.time_per_task + timedelta(seconds=1 / self.rate if self.rate else 0)

    def work_off(self, sweep: Sweep) -> None:
        """Run what is due; an error of the table leaves where it is all that there is, and any odd one at once."""
        feed = sweep.step.feed(threads=self.threads, goes_on=sweep.has_time, **sweep.which)
        guard, done, broken = Lock(), sweep.done, list[BaseException]()

        def run(task_id: str) -> None:
            attempt = Attempt(sweep.step, task_id, sweep.invocation)
            attempt.run(self.function)
            if attempt.was_taken:
                feed.note_taken()
            with guard:
                sweep.journal.note(attempt)
                done[attempt.outcome] += 1
            if isinstance(error := attempt.not_started_by, PynamoDBException):
                broken.append(error)
            elif error is not None:
                raise error

        def within_limit() -> Iterator[str]:
            """Count those that are begun: what cannot be started does not keep others from it."""
            for begun, task_id in enumerate(feed):
                if (sweep.limit is not None and begun - done["refused"] >= sweep.limit) or not sweep.has_time():
                    return
                yield task_id

        in_threads(run, within_limit(), self.threads, rate=self.rate)
        if broken and len(broken) == done.total():
            raise broken[0]


@dataclass(frozen=True, slots=True)
class SendToQueue:
    """Sends a message for each task."""

    queue: Queue
    floor: timedelta = timedelta(seconds=1)

    def work_off(self, sweep: Sweep) -> None:
        """Send what is due."""
        feed = sweep.step.feed(threads=1, goes_on=sweep.has_time, **sweep.which)
        for sent in self.queue.send(islice(feed, sweep.limit), sweep.invocation.request_id):
            sweep.done["sent"] += sent
