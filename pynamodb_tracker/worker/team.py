"""The attempts of a worker in one process, and the threads that run them."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher, batcher_for
from pynamodb_tracker.exceptions import TaskNotStartableError, TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.observation import Observation
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.instrumentation import Hook, RunDetails
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.step.functions import for_threads
from pynamodb_tracker.work.attempt import TaskAttempt
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.worker.dispatcher import Dispatcher
from pynamodb_tracker.worker.liveness import SILENCE
from pynamodb_tracker.worker.poller import StepPoller
from pynamodb_tracker.worker.settings import WorkerSettings
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr

A = TypeVar("A", bound="WorkerAttempt")

log = logging.getLogger("pynamodb_tracker")

GIVE_BACK_WITHIN = 5.0
"""Seconds that releasing tasks may take. If the network is down, their locks expire instead."""

Function = Callable[[ExecutionContext[Any]], object]


class WorkerAttempt(TaskAttempt[Any], Hook):
    """An attempt of the worker. Another thread may release it, and the thread that ends its run counts it."""

    def __init__(
        self,
        poller: StepPoller,
        task_id: str,
        *,
        heartbeat: bool,
        stopped: threading.Event,
        batcher: WriteBatcher | None = None,
    ) -> None:
        super().__init__(
            poller.step._definition.codes,
            task_id,
            feed=poller.feed,
            stopped=stopped,
            batcher=batcher,
            slot=poller.slot_of(task_id),
        )
        self._poller = poller
        self._heartbeat = heartbeat
        self.on_loss: Callable[[], object] | None = None  # called when the lock is known to be lost
        self._has_ended = threading.Event()

    def run(self, function: Function) -> None:
        """Run the function on the task. Raise only KeyboardInterrupt and SystemExit."""
        if self.is_stopped:
            self.note_response()
            self._has_ended.set()
            return
        try:
            self.execute(partial(self._poller.step.start, heartbeat=self._heartbeat), function)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._note_end()

    def follow(self, run: Run[Any]) -> None:
        """Let the run update the details of this attempt, and count its end."""
        self._run = run
        run.observation = Observation(self.details, self)

    def on_end(self, run: RunDetails) -> None:  # noqa: ARG002 - the details of this attempt
        """Count the outcome."""
        error = self.error if isinstance(self.error, Exception) else None
        self._poller.note_end(self.task_id, self.outcome, error, postponed=self.details.postponed)

    on_refuse = on_end

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:  # noqa: ARG002 - as above
        """Pass on that the lock is lost."""
        if self.on_loss is not None:
            self.on_loss()

    @property
    def has_lost_lock(self) -> bool:
        """Whether the lock is known to be lost while the block still runs, so that its end cannot be recorded."""
        journal = self.journal  # a refused end comes at once, so an ended run does not count
        return journal is not None and not journal.ended and journal.lost is not None

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs, and log whether that was possible within this time.

        If the task is just being claimed, its own thread releases it. If the end of the run is just being recorded, it
        ends. We wait for both, and they repeat no requests.
        """
        self.cut_short.set()
        if not self.was_claimed and self._has_ended.wait(seconds):
            return
        fields = self.details.log_fields
        if self._run is not None and self._run.give_back():
            log.warning("%s still ran at the end of the grace time: it was released", self, extra=fields)
        elif not self._has_ended.wait(seconds):
            text = "%s still ran at the end of the grace time: it stays locked until its lock expires"
            log.error(text, self, extra=fields)

    def _note_end(self) -> None:
        """Log the outcome, and tell `give_back` that it is too late."""
        if self._run is None:  # start itself has raised, which is no run
            self.on_end(self.details)
        self._log_end()
        self._has_ended.set()

    def _log_end(self) -> None:
        details, error = self.details, self.error
        if details.skipped_occurrence:
            text = "%s gave up its occurrence, and waits for the next one: %s"
            log.warning(text, self, self.task.last_error, extra=details.log_fields)
        elif not self.was_claimed:
            if isinstance(self.unexpected_error, Exception):
                level = self._poller.cooldown.log_level(self.task_id)
                log.log(
                    level, "%s could not be started; it is tried again", self, exc_info=error, extra=details.log_fields
                )
        elif details.outcome in ("failed", "ignored"):
            log.warning("%s %s: %s", self, details.outcome, details.task.last_error, extra=details.log_fields)
        elif details.outcome == "refused" or isinstance(error, TaskNotStartableError | PynamoDBException):
            # The message of any other error is the function's own, and may contain a secret.
            shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
            not_recorded = "the end of %s could not be recorded: %s"
            text = not_recorded if details.outcome == "refused" else "%s was released before its function began: %s"
            log.warning(text, self, shown, extra=details.log_fields)

    def __str__(self) -> str:
        attempt = f" (attempt {self.details.attempt})" if self.was_claimed else ""
        return f"{self._poller.name} of {self.task_id!r}{attempt}"


class Team:
    """The common part of teams of threads and of asyncio tasks."""

    who_is_busy = "tasks run"  # in the status

    def __init__(self, settings: WorkerSettings) -> None:
        self.errors: list[BaseException] = []  # the worker raises the first one, once all have ended
        self.settings = settings
        self.pollers = [
            StepPoller(step, settings.max_poll_interval, threads=settings.concurrency, eager=settings.until_idle)
            for step, _ in settings.functions
        ]
        self.dispatcher = Dispatcher(self.pollers, rate=settings.rate, until_idle=settings.until_idle)
        self._batcher = batcher_for(settings.concurrency)
        self._running: dict[WorkerAttempt, None] = {}

    @property
    def tallies(self) -> list[Tally]:
        """The outcomes of the tasks, by step."""
        return [replace(poller.tally, paused=poller.pause is not None) for poller in self.pollers]

    @property
    def is_alive(self) -> bool:
        """Whether it keeps looking for tasks, or runs as many as it may."""
        is_full = len(self._running) >= self.settings.concurrency
        return is_full or self.dispatcher.has_looked_within(self.settings.max_poll_interval + SILENCE)

    def begin_attempt(self, kind: type[A], poller: StepPoller, task_id: str) -> A:
        """Return a new attempt at a task from the dispatcher."""
        heartbeat, stopped = self.settings.heartbeat, self.dispatcher.stopped
        attempt = kind(poller, task_id, heartbeat=heartbeat, stopped=stopped, batcher=self._batcher)
        self._running[attempt] = None
        return attempt

    def end_attempt(self, attempt: WorkerAttempt) -> None:
        """Note that an attempt has ended."""
        del self._running[attempt]
        attempt.leave_slot()
        self.dispatcher.note_end()

    def give_back(self) -> None:
        """Release the running tasks, each on a thread of its own, because that takes long without a network."""
        helpers = [
            threading.Thread(target=attempt.give_back, args=(GIVE_BACK_WITHIN,), daemon=True)
            for attempt in list(self._running)
        ]
        deadline = time.monotonic() + GIVE_BACK_WITHIN
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def give_back_slots(self) -> None:
        """Give back unused slots of limits at once, because no new tasks start."""
        for poller in self.pollers:
            if poller.slots is not None:
                poller.slots.give_back()

    def print_status(self) -> None:
        """Print the running tasks, and what each step is waiting for."""
        now, running = clock.now(), list(self._running)
        stopping = ", stopping" if self.dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {self.settings.concurrency} {self.who_is_busy}{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.details.start_time).total_seconds():.1f} s" for attempt in running]
        for poller in self.pollers:
            wait = max(0.0, (poller.next_poll - now).total_seconds())
            then = poller.pause or f"next poll {f'in {wait:.1f} s' if wait else 'now'}"
            if poller.waits_for_slot and not poller.pause:
                then = f"{poller.slots}; next look {f'in {wait:.1f} s' if wait else 'now'}"
            lines.append(f"  {poller.name}: {poller.tally}; {then}")
        print_to_stderr("\n".join([*lines, ""]))


class ThreadTeam(Team):
    """The threads of a process. They are daemons, so that a hanging function does not keep the process alive."""

    who_is_busy = "threads are busy"

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED per thread that has ended, and STOP if a function stops the worker."""
        super().__init__(settings)
        self.grace = settings.grace
        self._functions = {step: for_threads(function) for step, function in settings.functions}
        self._messages = messages
        self._threads = [
            threading.Thread(target=self._run, name=f"pynamodb_tracker worker {number + 1}", daemon=True)
            for number in range(settings.concurrency)
        ]
        self._ended: list[None] = []  # appending needs no lock

    def start(self) -> None:
        """Start to work."""
        for thread in self._threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether all threads have ended. When stopping, those that have lost their locks count as ended."""
        left = len(self._threads) - len(self._ended)
        lost = sum(attempt.has_lost_lock for attempt in list(self._running))
        return not left or (self.dispatcher.stopped.is_set() and left == lost)

    def stop(self) -> None:
        """Start no new tasks."""
        self.dispatcher.stop()

    cut_short = Team.give_back

    def abandon(self) -> None:
        """Leave at once. Running tasks stay locked until their locks expire."""
        self.stop()
        for attempt in list(self._running):
            attempt.cut_short.set()

    def _run(self) -> None:
        try:
            while (taken := self.dispatcher.take()) is not None:
                poller, task_id = taken
                attempt = self.begin_attempt(WorkerAttempt, poller, task_id)
                attempt.on_loss = partial(self._messages.put, Message.ENDED)
                try:
                    attempt.run(self._functions[poller.step])
                finally:
                    self.end_attempt(attempt)
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self.stop()
            self._messages.put(Message.STOP)
        finally:
            self.give_back_slots()
            self._ended.append(None)
            self._messages.put(Message.ENDED)
