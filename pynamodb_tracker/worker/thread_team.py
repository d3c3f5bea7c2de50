"""The threads of one process that run functions: the tasks that they are given, and the attempts that they make."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from pynamodb_tracker import clock
from pynamodb_tracker.batch.batch import Outcome, TaskAttempt
from pynamodb_tracker.dynamodb.write_batcher import WriteBatcher, batcher_for
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.execution.run import Run
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.worker.poller import INDEX_LAG, StepPoller, Tally
from pynamodb_tracker.worker.shutdown import Message, Messages, print_to_stderr
from pynamodb_tracker.worker_name import this_worker

log = logging.getLogger("pynamodb_tracker")

Function = Callable[[ExecutionContext[Any]], object]

_GIVE_BACK_WITHIN = 5.0
"""Seconds that giving tasks back may take: if the network is down, their locks expire instead."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a process of a worker needs to know; it is sent to other processes."""

    functions: Sequence[tuple[BoundStep[Any], Function]]
    threads: int
    heartbeat: bool
    rate: float | None
    grace: timedelta
    longest_pause: timedelta
    until_idle: bool


class Dispatcher:
    """Gives tasks to threads until it is stopped; a thread waits while there is nothing to do."""

    def __init__(self, pollers: Sequence[StepPoller], *, rate: float | None = None, until_idle: bool = False) -> None:
        """`rate` limits the tasks per second; with `until_idle` it stops once there is nothing to do now."""
        self.stopped = threading.Event()
        self._pollers = list(pollers)
        self._interval = timedelta(0) if rate is None else timedelta(seconds=1 / rate)
        self._until_idle = until_idle
        self._turn: datetime | None = None
        """Until when no task is started, if a rate is set."""
        self._guard = threading.RLock()
        self._waiting: list[threading.Event] = []
        self._under_way = 0
        """Threads that look for a task or run one."""
        self._has_ended_any = False
        """Whether a task has ended since all steps seemed to be idle."""

    def take(self) -> tuple[StepPoller, str] | None:
        """Return a task to try, and the poller of its step, as soon as there is one; None once it is stopped."""
        while not self.stopped.is_set():
            if self._until_idle:
                self._stop_if_idle()
            woken = threading.Event()
            poller, seconds = self._choose(woken)
            if poller is None:
                clock.wait(woken, seconds)
                self._end_wait(woken)
                continue
            task_id = poller.take()
            self._put_back(poller, found=task_id is not None)
            if task_id is not None:
                return poller, task_id
        return None

    def note_end(self) -> None:
        """Note that a task which was taken has ended."""
        with self._guard:
            self._under_way -= 1
            self._has_ended_any = True
        self._wake_one()

    def stop(self) -> None:
        """Give out no further task."""
        self.stopped.set()
        with self._guard:
            for woken in self._waiting:
                woken.set()

    def _stop_if_idle(self) -> None:
        """Stop if there is nothing to do, and no task has ended since all steps were polled.

        If one has, it may be due for another step, which the index may not show yet: all are polled again after a wait.
        """
        with self._guard:
            now = clock.now()
            if self._under_way or any(each.is_ready(now) or not each.is_idle for each in self._pollers):
                return
            if not self._has_ended_any:
                self.stop()
                return
            self._has_ended_any = False
            self._under_way += 1
        clock.sleep(INDEX_LAG.total_seconds())
        with self._guard:
            self._under_way -= 1
            for each in self._pollers:
                each.next_poll = clock.now()

    def _choose(self, woken: threading.Event) -> tuple[StepPoller | None, float]:
        """Return the poller of the next step that may have a task; if none may, for how many seconds to wait.

        The wait ends early when `woken` is set.
        """
        with self._guard:
            now = clock.now()
            if self.stopped.is_set():
                return None, 0.0
            # Setting the clock back does not lengthen the wait.
            until = self._turn if self._turn is not None and now < self._turn <= now + self._interval else None
            ready = None if until else next((each for each in self._pollers if each.is_ready(now)), None)
            if ready is not None:
                self._pollers.remove(ready)
                self._pollers.append(ready)
                ready.is_taken = True
                ready.turn = self._turn = now + self._interval if self._interval else None
                self._under_way += 1
                return ready, 0.0
            self._waiting.append(woken)
            until = until or min((each.next_poll for each in self._pollers if not each.is_taken), default=None)
            return None, threading.TIMEOUT_MAX if until is None else (until - now).total_seconds()

    def _put_back(self, poller: StepPoller, *, found: bool) -> None:
        """Let other threads take from a step, and wake one: it may find the next task, and then wakes another one."""
        with self._guard:
            poller.is_taken = False
            if not found:
                self._under_way -= 1
                if self._turn == poller.turn:
                    self._turn = None  # only a task that was found counts for the rate
        self._wake_one()

    def _wake_one(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.pop(0).set()

    def _end_wait(self, woken: threading.Event) -> None:
        with self._guard:
            if woken in self._waiting:
                self._waiting.remove(woken)


class WorkerAttempt(TaskAttempt[Any]):
    """An attempt in a thread of the worker, which another thread may release."""

    def __init__(
        self,
        poller: StepPoller,
        task_id: str,
        *,
        heartbeat: bool,
        stopped: threading.Event,
        batcher: WriteBatcher | None = None,
    ) -> None:
        super().__init__(poller.step._definition.codes, task_id, feed=poller.feed, stopped=stopped, batcher=batcher)
        self.began = clock.now()
        self._poller = poller
        self._heartbeat = heartbeat
        self._run: Run[Any] | None = None
        self._guard = threading.Lock()
        self._is_counted = False
        self._is_being_given_back = False
        self._has_ended = threading.Event()

    def run(self, function: Function) -> None:
        """Run the function on the task and count the outcome; only KeyboardInterrupt and SystemExit are raised."""
        if self.is_stopped:
            self.skip()
            self._has_ended.set()
            return
        try:
            self.execute(self._start, function)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            if self._count(self.outcome, self.error):
                self._log_end()
            self._has_ended.set()

    def give_back(self, seconds: float) -> None:
        """Release the task while its function still runs; log it if that is done, or not possible within this time.

        A task that is just being claimed is released by its own thread, and a run whose end is just being recorded
        ends: both are waited for.
        """
        if self.ctx is None and self._has_ended.wait(seconds):
            return
        with self._guard:
            self._is_being_given_back = True  # from now on the end of the block is refused; that is not to be counted
        released = self._run is not None and self._run.give_back()
        with self._guard:
            self._is_being_given_back = False
        if released:
            self._count("released", None)
            log.warning("%s still ran at the end of the grace time: it was released", self)
            return
        if self._has_ended.is_set():
            self._count("refused", None)  # unless it was counted before
        if not self._has_ended.wait(seconds):
            log.error("%s still ran at the end of the grace time: it stays locked until its lock expires", self)

    def _start(self, task_id: str) -> Run[Any]:
        self._run = cast("Run[Any]", self._poller.step.start(task_id, heartbeat=self._heartbeat))
        return self._run

    def _count(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Count the task unless it was counted before, and return whether it was counted now."""
        with self._guard:
            if self._is_counted or (self._is_being_given_back and outcome == "refused"):
                return False
            self._is_counted = True
        kept = error if isinstance(error, Exception) else None
        self._poller.note_end(self.task_id, outcome, kept)
        return True

    def _log_end(self) -> None:
        about: dict[str, object] = {"task_id": self.task_id, "step": self._poller.step.name}
        if self.ctx is None:
            if isinstance(error := self.unexpected_error, Exception):
                log.error("%s could not be started; it is tried again", self, exc_info=error, extra=about)
            return
        about["attempt"] = self.ctx.attempt
        outcome, error = self.outcome, self.error
        if outcome in ("failed", "ignored"):
            log.warning("%s %s: %s", self, outcome, self.ctx.task.last_error, extra=about)
        elif outcome == "refused":
            # The message of any other error is the function's own, and may contain a secret.
            shown = error if error is None or isinstance(error, TrackerError) else type(error).__name__
            log.warning("the end of %s could not be recorded: %s", self, shown, extra=about)

    def __str__(self) -> str:
        attempt = "" if self.ctx is None else f" (attempt {self.ctx.attempt})"
        return f"{self._poller.name} of {self.task_id!r}{attempt}"


class ThreadTeam:
    """The threads; they are daemons, so that a function that hangs does not keep the process from ending."""

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED for each thread that has ended, and STOP if a function stops the worker."""
        self.errors: list[BaseException] = []
        self.grace = settings.grace
        longest, eager = settings.longest_pause, settings.until_idle
        self._pollers = [
            StepPoller(step, longest, threads=settings.threads, eager=eager) for step, _ in settings.functions
        ]
        self._functions = dict(settings.functions)
        self._dispatcher = Dispatcher(self._pollers, rate=settings.rate, until_idle=settings.until_idle)
        self._heartbeat = settings.heartbeat
        self._batcher = batcher_for(settings.threads)
        self._messages = messages
        self._running: dict[int, WorkerAttempt] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"pynamodb_tracker worker {number + 1}", daemon=True)
            for number in range(settings.threads)
        ]
        self._ended: list[None] = []

    def start(self) -> None:
        """Start to work."""
        for thread in self._threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether all threads have ended."""
        return len(self._ended) == len(self._threads)

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step."""
        return [poller.tally for poller in self._pollers]

    def stop(self) -> None:
        """Start no further task."""
        self._dispatcher.stop()

    def cut_short(self) -> None:
        """Give back what still runs; each on a thread of its own, because without a network that takes long."""
        helpers = [
            threading.Thread(target=attempt.give_back, args=(_GIVE_BACK_WITHIN,), daemon=True)
            for attempt in list(self._running.values())
        ]
        deadline = time.monotonic() + _GIVE_BACK_WITHIN
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def abandon(self) -> None:
        """Leave at once: the tasks that run stay locked until their locks expire."""
        self.stop()

    def print_status(self) -> None:
        """Print what each thread and each step is doing."""
        now, running = clock.now(), list(self._running.values())
        stopping = ", stopping" if self._dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {len(self._threads)} threads are busy{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.began).total_seconds():.1f} s" for attempt in running]
        for poller in self._pollers:
            wait = max(0.0, (poller.next_poll - now).total_seconds())
            lines.append(f"  {poller.name}: {poller.tally}; next poll {f'in {wait:.1f} s' if wait else 'now'}")
        print_to_stderr("\n".join([*lines, ""]))

    def _work(self) -> None:
        """Run tasks on one thread until there are no more."""
        try:
            while (taken := self._dispatcher.take()) is not None:
                self._try(*taken)
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self._dispatcher.stop()
            self._messages.put(Message.STOP)
        finally:
            self._ended.append(None)
            self._messages.put(Message.ENDED)

    def _try(self, poller: StepPoller, task_id: str) -> None:
        thread, stopped = threading.get_ident(), self._dispatcher.stopped
        attempt = WorkerAttempt(poller, task_id, heartbeat=self._heartbeat, stopped=stopped, batcher=self._batcher)
        self._running[thread] = attempt
        try:
            attempt.run(self._functions[poller.step])
        finally:
            del self._running[thread]
            self._dispatcher.note_end()
