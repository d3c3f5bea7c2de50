"""The settings, checks and threads of workers."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.exceptions import TaskNotStartableError, TrackerError
from pynamodb_tracker.instrumentation import log, log_fields
from pynamodb_tracker.model import arguments
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep, bound_functions
from pynamodb_tracker.step.definition import add_listener
from pynamodb_tracker.step.functions import for_threads
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.executor import ThreadExecutor
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.polling import Polling
from pynamodb_tracker.work.source import StepWork
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr

F = TypeVar("F")

POLL_INTERVAL = timedelta(seconds=2)  # the default of `max_poll_interval`
SILENCE = timedelta(minutes=2)  # a living worker's longest request, with all its retries
_SIGN_INTERVAL = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    functions: Sequence[tuple[BoundStep[Any], Callable[[Any], object]]]
    concurrency: int
    heartbeat: bool
    rate: float | None
    grace: timedelta
    max_poll_interval: timedelta
    until_idle: bool = False

    def __post_init__(self) -> None:
        """Refuse bad options. The workers check `concurrency` and `rate`."""
        arguments.check_flags(heartbeat=self.heartbeat, until_idle=self.until_idle)
        grace: object = self.grace
        if not isinstance(grace, timedelta):
            raise TypeError(f"grace must be a timedelta, not {arguments.shown(grace)}: write timedelta(seconds=...)")
        if not timedelta(0) <= grace <= arguments.LONGEST:
            raise ValueError(f"grace is zero or more and at most {arguments.LONGEST.days} days, not {grace!r}")
        arguments.check_duration("max_poll_interval", self.max_poll_interval)


def functions_by_step(given: object, choose: Callable[[BoundStep[Any], Any], F]) -> dict[BoundStep[Any], F]:
    if isinstance(given, list | tuple):
        return bound_functions(given, choose)
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            "a worker takes use cases with bound functions, as [Order], or a function for each step, as "
            f"{{Order.ship: print_label}}, not {arguments.shown(given)}"
        )
    for step in given:
        if not isinstance(step, BoundStep):
            raise TypeError(f"{arguments.shown(step)} is not a step: write Order.ship")
    return {step: choose(step, function) for step, function in given.items()}


def log_start(steps: Iterable[BoundStep[Any]], given: Iterable[object]) -> None:
    log.info("a worker runs %s", _names(steps))
    models = [each for each in given if isinstance(each, type) and issubclass(each, TaskRow)]
    unbound = [step for model in models for step in model._bound_steps.values() if step.function is None]
    if unbound:
        text = "no function is bound to %s: this worker does not run those tasks"
        log.warning(text, _names(unbound), extra=log_fields(unbound[0].model.tracker.use_case.name))


def _names(steps: Iterable[BoundStep[Any]]) -> str:
    return ", ".join(f"{step.model.__name__}.{step.name}" for step in steps)


def check_tables(steps: Iterable[BoundStep[Any]]) -> None:
    """Raise an error that would make every poll fail, such as a missing table."""
    steps = list(steps)
    for step in steps:
        step._definition.check_caller()
    for step in steps:
        try:
            step._definition.pause()  # raises a DefinitionError about its numbers
            step._definition.check_index()
        except PynamoDBException as error:
            if not is_temporary(error):
                raise
            fields = log_fields(step.model.tracker.use_case.name, step.name)
            log.warning("%s cannot be polled yet, the worker keeps trying: %s", _names([step]), error, extra=fields)


@contextmanager
def give_signs_of_life(is_alive: Callable[[], bool], give: Callable[[], object]) -> Iterator[None]:
    """Give a sign of life at the start, and then every five seconds while the worker is alive."""
    has_ended = threading.Event()

    def keep_giving() -> None:
        while not has_ended.wait(_SIGN_INTERVAL):
            try:
                if is_alive():
                    give()
            except OSError:
                log.exception("the worker cannot show that it is alive")

    give()
    threading.Thread(target=keep_giving, name="pynamodb_tracker liveness", daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()


def build_dispatcher(settings: WorkerSettings, work_of: Callable[[BoundStep[Any], Any], StepWork]) -> Dispatcher:
    longest, threads, eager = settings.max_poll_interval, settings.concurrency, settings.until_idle
    works = (work_of(*each) for each in settings.functions)
    sources = [Polling(work, longest, threads=threads, eager=eager) for work in works]
    dispatcher = Dispatcher(sources, rate=settings.rate, until_idle=settings.until_idle)
    add_listener(dispatcher)
    return dispatcher


class ThreadTeam(ThreadExecutor):
    name = "pynamodb_tracker worker"
    daemon = True
    deadly = (KeyboardInterrupt, SystemExit)

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED per ended thread, and STOP if a function stops the worker."""

        def work_of(step: BoundStep[Any], function: Any) -> StepWork:
            start = partial(step.start, heartbeat=settings.heartbeat)
            return StepWork(step._definition, start, for_threads(function))

        super().__init__(build_dispatcher(settings, work_of), settings.concurrency, log_ended)
        self.grace = settings.grace
        self._messages = messages
        self._silence = settings.max_poll_interval + SILENCE

    @property
    def is_alive(self) -> bool:
        """Whether it keeps looking for tasks, or runs as many as it may."""
        return len(self.running) >= self.concurrency or self.dispatcher.has_looked_within(self._silence)

    @property
    def tallies(self) -> list[Tally]:
        return [source.tally for source in self.dispatcher.sources]

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._messages.put(Message.STOP)

    def note_change(self) -> None:
        self._messages.put(Message.ENDED)

    def print_status(self) -> None:
        print_to_stderr(self.status())


def log_ended(attempt: Attempt) -> None:
    details, error = attempt.details, attempt.error
    if details.skipped_occurrence:
        text = "%s gave up its occurrence and waits for the next one: %s"
        log.warning(text, attempt, attempt.task.last_error, extra=details.log_fields)
    elif attempt.claim_error is not None:
        if isinstance(attempt.unexpected_error, Exception):
            source = attempt.given and attempt.given.source
            level = source.cooldown.log_level(attempt.task_id) if isinstance(source, Polling) else logging.ERROR
            text = "%s could not be started, and will be retried"
            log.log(level, text, attempt, exc_info=error, extra=details.log_fields)
    elif details.outcome in ("failed", "ignored"):
        log.warning("%s %s: %s", attempt, details.outcome, details.task.last_error, extra=details.log_fields)
    elif details.outcome == "released" and isinstance(error, asyncio.CancelledError):
        log.warning("%s was cancelled, and its task was released", attempt, extra=details.log_fields)
    elif details.outcome == "refused" or isinstance(error, TaskNotStartableError | PynamoDBException):
        # Any other error is the function's own, and its message may contain a secret.
        shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
        text = "%s was released before its function began: %s"
        if details.outcome == "refused":
            text = "the end of %s could not be recorded: %s"
        log.warning(text, attempt, shown, extra=details.log_fields)
