"""Runs attempts at the same time, on threads. `task_executor` runs them on an event loop.

dispatcher:   take ---- take ------------- take ---- None
                |         |                  |
threads:        attempt   attempt ------     attempt      each in a copy of the caller's context
"""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.write_batcher import batcher_for
from pynamodb_tracker.exceptions import TaskNotStartableError
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import Given

GIVE_BACK_WITHIN = 5.0  # seconds to release tasks before we leave them to their locks

GLANCE = 0.5  # seconds between pauses of a wait, because on Windows a signal does not interrupt it

OnEnded = Callable[[Attempt], object]  # called with each ended attempt, one at a time. If it raises, the work ends


class Executor:
    who_is_busy = "tasks run"  # in the status

    def __init__(
        self,
        dispatcher: Dispatcher,
        concurrency: int,
        on_ended: OnEnded,
        new_attempt: Callable[..., Attempt] = Attempt,
    ) -> None:
        self.dispatcher = dispatcher
        self.concurrency = concurrency
        self.errors: list[BaseException] = []  # the caller raises the first one, once all attempts have ended
        self.running: dict[Attempt, None] = {}
        self._on_ended = on_ended
        self._new_attempt = new_attempt
        self._batcher = batcher_for(concurrency)
        self._base = copy_context()
        self._reporting = threading.Lock()
        self._guard = threading.Lock()
        self._started = self._ended = 0  # threads
        self._changes = queue.SimpleQueue[None]()

    def begin(self, given: Given) -> Attempt:
        attempt = self._new_attempt(
            given.source.work.codes, given.task_id, given=given, dispatcher=self.dispatcher, batcher=self._batcher
        )
        attempt.on_loss = self.note_loss
        self.running[attempt] = None
        return attempt

    def end(self, attempt: Attempt) -> None:
        if self.dispatcher.is_foreign:  # in a forked process
            return
        try:
            attempt.settle()
            if attempt.was_begun:
                with self._reporting:
                    self._on_ended(attempt)
        finally:
            del self.running[attempt]
            was_refused = not attempt.was_begun or isinstance(attempt.claim_error, TaskNotStartableError)
            if attempt.given is not None:
                self.dispatcher.note_end(
                    attempt.given, attempt.made_due, was_refused=was_refused, again_alone=attempt.runs_again_alone
                )
            if not any(attempt.error is error for error in self.errors):
                attempt.forget()

    def note_loss(self) -> None:
        """Take note that a running attempt has lost its lock."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Keep an error that ends the work. Attempts that were given still run."""
        self.errors.append(error)
        self.dispatcher.close()

    def raise_errors(self) -> None:
        if self.errors:
            try:
                raise self.errors[0]
            finally:
                self.errors.clear()  # otherwise the traceback's frames would keep themselves alive

    def give_back(self) -> None:
        """Release the running tasks, each on its own thread, because that takes long without a network."""
        deadline, helpers = time.monotonic() + GIVE_BACK_WITHIN, list[threading.Thread]()
        for attempt in list(self.running):
            helpers.append(threading.Thread(target=attempt.give_back, args=(GIVE_BACK_WITHIN,), daemon=True))
            helpers[-1].start()
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def give_back_slots(self) -> None:
        for source in self.dispatcher.sources:
            if source.work.slots is not None and not self.dispatcher.is_foreign:
                source.work.slots.give_back()

    def status(self) -> str:
        now, running = clock.now(), list(self.running)
        stopping = ", stopping" if self.dispatcher.stopped.is_set() else ""
        lines = [f"worker {this_worker()}: {len(running)} of {self.concurrency} {self.who_is_busy}{stopping}"]
        lines += [f"  {attempt}: {(now - attempt.details.start_time).total_seconds():.1f} s" for attempt in running]
        for source in self.dispatcher.sources:
            wait = max(0.0, (source.next_look - now).total_seconds())
            when = f"in {wait:.1f} s" if wait else "now"
            then = f"{source.work.slots}; next look {when}" if source.waits_for_slot else f"next poll {when}"
            lines.append(f"  {source.work.name}: {replace(source.tally, paused=False)}; {source.pause or then}")
        return "\n".join([*lines, ""])


class ThreadExecutor(Executor):
    """Runs attempts on threads, or on the caller's own if there is one. Threads start when they are needed."""

    who_is_busy = "threads are busy"

    name = "pynamodb_tracker batch"
    daemon = False  # if True, the process may end while a function hangs
    deadly: type[BaseException] | tuple[type[BaseException], ...] = BaseException  # they end the work

    def run(self) -> None:
        """Run attempts until none is left. Raise the error that ended the work.

        Raise an interrupt once all attempts have ended, and a second one at once. Running functions continue then, but
        retry no requests.
        """
        if self.concurrency == 1:
            self._started = 1
            self._work()
        else:
            self.start()
            try:
                self._wait_for_end()
            except BaseException:
                self.dispatcher.stop()
                try:
                    self._wait_for_end()
                except BaseException:
                    self.abandon()
                    raise
                raise
        self.raise_errors()

    def _wait_for_end(self) -> None:
        while not self.has_ended:
            with suppress(queue.Empty):
                self._changes.get(timeout=GLANCE)

    def start(self) -> None:
        with self._guard:
            if self._started == self.concurrency or (self._started and self.dispatcher.stopped.is_set()):
                return
            self._started += 1
            name = f"{self.name} {self._started}"
        run = self._base.copy().run
        threading.Thread(target=run, args=(self._work,), name=name, daemon=self.daemon).start()

    def _work(self) -> None:
        try:
            while (given := self.dispatcher.take()) is not None:
                self.start()
                attempt = self.begin(given)
                try:
                    self._base.copy().run(attempt.run)
                except BaseException as error:  # noqa: BLE001 - others are kept with the attempt
                    if isinstance(error, self.deadly):
                        self.fail(error)
                finally:
                    self.end(attempt)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller, once all have ended
            self.fail(error)
        finally:
            if not self.dispatcher.is_foreign:
                self.give_back_slots()
                with self._guard:
                    self._ended += 1
                self.note_change()

    def note_change(self) -> None:
        self._changes.put(None)

    def note_loss(self) -> None:
        self.note_change()

    @property
    def has_ended(self) -> bool:
        """Whether all threads have ended. When stopping, a thread with a lost lock counts as ended."""
        left = self._started - self._ended
        lost = sum(attempt.has_lost_lock for attempt in list(self.running))
        return self._started > 0 and (not left or (self.dispatcher.stopped.is_set() and left == lost))

    def stop(self) -> None:
        self.dispatcher.stop()

    cut_short = Executor.give_back

    def abandon(self) -> None:
        """Leave at once. Running tasks stay locked until their locks expire."""
        self.stop()
        for attempt in list(self.running):
            attempt.cut_short.set()
