"""The threads of one process that run functions: the tasks that they are given, and the attempts that they make."""

import threading

from pynamodb_tracker.step.functions import for_threads
from pynamodb_tracker.worker.attempt import WorkerAttempt
from pynamodb_tracker.worker.poller import StepPoller, Tally
from pynamodb_tracker.worker.settings import WorkerSettings
from pynamodb_tracker.worker.shutdown import Message, Messages
from pynamodb_tracker.worker.work import Work


class ThreadTeam:
    """The threads; they are daemons, so that a function that hangs does not keep the process from ending."""

    def __init__(self, settings: WorkerSettings, messages: Messages) -> None:
        """`messages` gets ENDED for each thread that has ended, and STOP if a function stops the worker."""
        self.errors: list[BaseException] = []
        self.grace = settings.grace
        self._work = Work(settings)
        self._functions = {step: for_threads(function) for step, function in settings.functions}
        self._messages = messages
        self._threads = [
            threading.Thread(target=self._run, name=f"pynamodb_tracker worker {number + 1}", daemon=True)
            for number in range(settings.concurrency)
        ]
        self._ended: list[None] = []

    def start(self) -> None:
        """Start to work."""
        for thread in self._threads:
            thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether all threads have ended, apart from those that are to stop, and whose runs have lost their locks."""
        left = len(self._threads) - len(self._ended)
        return not left or (self._work.dispatcher.stopped.is_set() and left == self._work.lost)

    @property
    def tallies(self) -> list[Tally]:
        """What became of the tasks, by step."""
        return self._work.tallies

    def stop(self) -> None:
        """Start no further task."""
        self._work.dispatcher.stop()

    def cut_short(self) -> None:
        """Give back what still runs."""
        self._work.give_back()

    def abandon(self) -> None:
        """Leave at once: the tasks that run stay locked until their locks expire."""
        self.stop()

    def print_status(self) -> None:
        """Print what each thread and each step is doing."""
        self._work.print_status("threads are busy")

    def _run(self) -> None:
        """Run tasks on one thread until there are no more."""
        try:
            while (taken := self._work.dispatcher.take()) is not None:
                self._try(*taken)
        except BaseException as error:  # noqa: BLE001 - raised again by the worker, once all have ended
            self.errors.append(error)
            self.stop()
            self._messages.put(Message.STOP)
        finally:
            self._work.give_back_slots()
            self._ended.append(None)
            self._messages.put(Message.ENDED)

    def _try(self, poller: StepPoller, task_id: str) -> None:
        attempt = self._work.begin(WorkerAttempt, poller, task_id)
        attempt.on_loss = lambda: self._messages.put(Message.ENDED)
        try:
            attempt.run(self._functions[poller.step])
        finally:
            self._work.end(attempt)
