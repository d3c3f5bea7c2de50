"""The executors of a worker: threads or asyncio tasks that run what its sources find by polling."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.exceptions import TaskNotStartableError, TrackerError
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.functions import for_threads
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import ThreadExecutor
from pynamodb_tracker.work.listeners import listening
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.polling import Polling
from pynamodb_tracker.work.source import StepWork
from pynamodb_tracker.worker.liveness import SILENCE
from pynamodb_tracker.worker.settings import WorkerSettings
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr

log = logging.getLogger("pynamodb_tracker")


def polled(settings: WorkerSettings, work_of: Callable[[BoundStep[Any], Any], StepWork]) -> Dispatcher:
    """Return what gives out the tasks of a worker. It hears of the tasks that this process creates."""
    longest, threads, eager = settings.max_poll_interval, settings.concurrency, settings.until_idle
    works = (work_of(*each) for each in settings.functions)
    sources = [Polling(work, longest, threads=threads, eager=eager) for work in works]
    dispatcher = Dispatcher(sources, rate=settings.rate, until_idle=settings.until_idle)
    listening(dispatcher)
    return dispatcher


def tallies(dispatcher: Dispatcher) -> list[Tally]:
    """Return the outcomes of the tasks, by step."""
    return [replace(source.tally, paused=source.pause is not None) for source in dispatcher.sources]


class ThreadTeam(ThreadExecutor):
    """The threads of a worker in one process."""

    name = "pynamodb_tracker worker"
    daemon = True
    deadly = (KeyboardInterrupt, SystemExit)

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED per thread that has ended, and STOP if a function stops the worker."""

        def work_of(step: BoundStep[Any], function: Any) -> StepWork:
            start = partial(step.start, heartbeat=settings.heartbeat)
            return StepWork(step._definition, start, for_threads(function))

        super().__init__(polled(settings, work_of), settings.concurrency, log_ended)
        self.grace = settings.grace
        self._messages = messages
        self._silence = settings.max_poll_interval + SILENCE

    @property
    def is_alive(self) -> bool:
        """Whether it keeps looking for tasks, or runs as many as it may."""
        return len(self.running) >= self.concurrency or self.dispatcher.has_looked_within(self._silence)

    @property
    def tallies(self) -> list[Tally]:
        """The outcomes of the tasks, by step."""
        return tallies(self.dispatcher)

    def fail(self, error: BaseException) -> None:
        """Keep an error that ends the work, and stop."""
        super().fail(error)
        self._messages.put(Message.STOP)

    def note_change(self) -> None:
        """Let the main thread check whether all have ended."""
        self._messages.put(Message.ENDED)

    def print_status(self) -> None:
        """Print the running tasks, and what each step is waiting for."""
        print_to_stderr(self.status())


def log_ended(attempt: Attempt) -> None:
    """Log what became of an attempt, unless it has succeeded."""
    details, error = attempt.details, attempt.error
    if details.skipped_occurrence:
        text = "%s gave up its occurrence, and waits for the next one: %s"
        log.warning(text, attempt, attempt.task.last_error, extra=details.log_fields)
    elif not attempt.was_claimed:
        if isinstance(attempt.unexpected_error, Exception):
            source = attempt.given and attempt.given.source
            level = source.cooldown.log_level(attempt.task_id) if isinstance(source, Polling) else logging.ERROR
            text = "%s could not be started; it is tried again"
            log.log(level, text, attempt, exc_info=error, extra=details.log_fields)
    elif details.outcome in ("failed", "ignored"):
        log.warning("%s %s: %s", attempt, details.outcome, details.task.last_error, extra=details.log_fields)
    elif details.outcome == "released" and isinstance(error, asyncio.CancelledError):
        log.warning("%s was cancelled, and its task was released", attempt, extra=details.log_fields)
    elif details.outcome == "refused" or isinstance(error, TaskNotStartableError | PynamoDBException):
        # The message of any other error is the function's own, and may contain a secret.
        shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
        not_recorded = "the end of %s could not be recorded: %s"
        text = not_recorded if details.outcome == "refused" else "%s was released before its function began: %s"
        log.warning(text, attempt, shown, extra=details.log_fields)
