"""Starts a worker's processes, replaces them when they die, and stops them."""

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from pynamodb_tracker.instrumentation import log
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.work.outcomes import Tally
from pynamodb_tracker.work.polling import Backoff
from pynamodb_tracker.worker.shutdown import (
    AT_ONCE,
    Message,
    Messages,
    block_signals,
    handle_signals,
    message_handlers,
    print_to_stderr,
    unblock_signals,
)
from pynamodb_tracker.worker.team import SILENCE, ThreadTeam, WorkerSettings, give_signs_of_life

_TIME_TO_END = timedelta(seconds=15)  # for a process to release its tasks after its grace time
_TIME_TO_DIE = 5.0  # seconds to wait for a killed process
_GLANCE = 0.5  # seconds between two checks that the other process still exists
_LONGEST_PAUSE = timedelta(minutes=1)  # before a process is replaced, unless it lived longer than this
_KILLED_AT_ONCE = 3  # give up if so many processes are killed before they begin to work

READY = "ready"  # a process sends this when it begins to work, and then as a sign of life

_spawn = get_context("spawn")  # in a fork, locks that other threads hold would never be released


@dataclass(frozen=True, slots=True)
class Ended:
    tallies: list[Tally]
    error: BaseException | None  # KeyboardInterrupt or SystemExit from a function


class _ParentPipe:
    """The pipe to the worker that started this process, if any. Every thread may send."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._steps: list[object] = []
        self._guard = threading.Lock()

    def open(self, pipe: Connection, steps: Iterable[object]) -> None:
        self._pipe, self._steps = pipe, list(steps)

    def leads_to_worker_of(self, steps: Iterable[object]) -> bool:
        return self._pipe is not None and self._steps == list(steps)

    def send(self, message: object) -> None:
        with self._guard, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(message)


parent_pipe = _ParentPipe()


def run_process(settings: WorkerSettings, pipe: Connection, parent: int) -> None:
    messages: Messages = Messages()
    team = ThreadTeam(settings, messages)
    own = message_handlers(messages, SIGTERM=Message.STOP, SIGUSR1=Message.PRINT_STATUS)
    # A terminal sends Ctrl-C to all processes, and the parent tells this one what to do.
    with handle_signals({**own, "SIGINT": signal.SIG_IGN}):
        unblock_signals()
        threading.Thread(target=_listen, args=(pipe, messages, parent), daemon=True).start()
        parent_pipe.open(pipe, (step for step, _ in settings.functions))
        with give_signs_of_life(lambda: team.is_alive, partial(parent_pipe.send, READY)):
            run_to_the_end(team, messages)
        parent_pipe.send(Ended(team.tallies, _picklable(team.errors[0]) if team.errors else None))


def _listen(pipe: Connection, messages: Messages, parent: int) -> None:
    try:
        while os.getppid() == parent:
            if pipe.poll(_GLANCE):
                messages.put(pipe.recv())
    except (EOFError, OSError):
        pass
    messages.put(Message.STOP)


def _picklable(error: BaseException) -> BaseException:
    """Return the error, or one with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - from this process
    except Exception:  # noqa: BLE001 - users' exceptions may raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Supervisor:
    def __init__(self, settings: WorkerSettings, number: int, messages: Messages) -> None:
        self.tallies = [Tally() for _ in settings.functions]
        self.errors: list[BaseException] = []
        self.has_ended = False
        self.pid: int | None = None
        self._settings = settings
        self._messages = messages
        self._name = f"pynamodb_tracker worker process {number + 1}"
        self.thread = threading.Thread(target=self._supervise, name=f"supervisor of {self._name}", daemon=True)
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._was_ready = False
        self._last_sign = time.monotonic()  # when the process started or last gave a sign of life
        self._killed = 0
        self._last_message: Ended | None = None

    @property
    def is_alive(self) -> bool:
        return self._stopped.is_set() or time.monotonic() - self._last_sign <= SILENCE.total_seconds()

    def send(self, message: Message) -> None:
        """Pass a message on, and start no new process after STOP."""
        if message is Message.STOP:
            self._stopped.set()
        with self._guard, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(message)

    def kill(self) -> None:
        self._stopped.set()
        with self._guard:
            if self._process is not None:
                self._process.kill()

    def _supervise(self) -> None:
        backoff = Backoff(_LONGEST_PAUSE)
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                self._run_one()
                if self.errors or (self._settings.until_idle and self._last_message is not None):
                    return
                if time.monotonic() - began > _LONGEST_PAUSE.total_seconds():
                    backoff.reset()
                self._stopped.wait(backoff.draw().total_seconds())
        except BaseException as error:  # noqa: BLE001 - raised again by the worker
            self.errors.append(error)
        finally:
            self.pid, self.has_ended = None, True
            if self.errors:
                self._messages.put(Message.STOP)
            self._messages.put(Message.ENDED)

    def _run_one(self) -> None:
        self._last_message = None
        process, pipe = self._start_one()
        try:
            while process.exitcode is None:
                if pipe.poll(_GLANCE):
                    self._receive(pipe.recv())
            while pipe.poll():  # messages since the last check
                self._receive(pipe.recv())
        except (EOFError, OSError):
            process.join()
        finally:
            with self._guard:
                self._process = self._pipe = None
                pipe.close()
        self._check_end(process)
        process.close()

    def _start_one(self) -> tuple[SpawnProcess, Connection]:
        """Return a new process, which blocks signals until it handles them, and the pipe to it."""
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=run_process, args=(self._settings, theirs, os.getpid()), name=self._name)
        resource_tracker.ensure_running()  # starting it later would unblock signals in this thread
        with self._guard:
            with block_signals("SIGINT", "SIGTERM", "SIGUSR1"):
                process.start()
            theirs.close()
            self._process, self._pipe, self.pid = process, ours, process.pid
            self._last_sign = time.monotonic()
        if self._stopped.is_set():
            self.send(Message.STOP)
        return process, ours

    def _receive(self, message: object) -> None:
        if message == READY:
            self._was_ready, self._last_sign = True, time.monotonic()
        elif message is Message.STOP:  # a function has called `stop` there
            self._messages.put(Message.STOP)
        elif isinstance(message, Ended):
            self._last_message = message
            self.tallies = [mine + other for mine, other in zip(self.tallies, message.tallies, strict=True)]
            if message.error is not None:
                self.errors.append(message.error)

    def _check_end(self, process: SpawnProcess) -> None:
        """Log a process that ended by itself. Give up if it did not work, or the third time that one was killed."""
        last = self._last_message
        if self._stopped.is_set() or (last is not None and (last.error is not None or self._settings.until_idle)):
            return
        event = f"process {process.pid} of the worker ended by itself, with exit code {process.exitcode}"
        was_killed = (process.exitcode or 0) < 0
        self._killed += was_killed
        if not self._was_ready and not (was_killed and self._killed < _KILLED_AT_ONCE):
            raise RuntimeError(f"{event}, before it began to work: check its output")
        log.error("%s: a new process takes over its tasks when their locks expire", event)


class ProcessTeam:
    def __init__(self, settings: WorkerSettings, processes: int, messages: Messages) -> None:
        """`messages` gets ENDED per process that ended for good, and STOP if a function stops the worker."""
        self.grace = settings.grace + _TIME_TO_END
        settings = replace(settings, rate=settings.rate and settings.rate / processes)
        self._supervisors = [_Supervisor(settings, number, messages) for number in range(processes)]

    def start(self) -> None:
        for each in self._supervisors:
            each.thread.start()

    @property
    def has_ended(self) -> bool:
        return all(each.has_ended for each in self._supervisors)

    @property
    def is_alive(self) -> bool:
        return all(each.is_alive for each in self._supervisors)

    @property
    def tallies(self) -> list[Tally]:
        return [sum(each, Tally()) for each in zip(*(each.tallies for each in self._supervisors), strict=True)]

    @property
    def errors(self) -> list[BaseException]:
        return [error for each in self._supervisors for error in each.errors]

    def stop(self) -> None:
        for each in self._supervisors:
            each.send(Message.STOP)

    def abandon(self) -> None:
        for each in self._supervisors:
            each.kill()
        for each in self._supervisors:
            if each.thread.ident is not None:
                each.thread.join(_TIME_TO_DIE)

    cut_short = abandon

    def print_status(self) -> None:
        pids = ", ".join(str(each.pid) for each in self._supervisors if each.pid is not None)
        print_to_stderr(f"worker {this_worker()} with the processes {pids}\n")
        for each in self._supervisors:
            each.send(Message.PRINT_STATUS)


def run_to_the_end(team: ThreadTeam | ProcessTeam, messages: Messages) -> None:
    """Run a team until it ends or is stopped. Raise KeyboardInterrupt at a second Ctrl-C."""
    deadline: float | None = None
    interrupts = 0
    try:
        team.start()
        while not team.has_ended:
            match messages.wait(deadline):
                case None:
                    team.cut_short()
                    return
                case Message.PRINT_STATUS:
                    team.print_status()
                case Message.INTERRUPT if interrupts:
                    raise KeyboardInterrupt(AT_ONCE)
                case Message.STOP | Message.INTERRUPT as message:
                    interrupts += message is Message.INTERRUPT
                    if deadline is not None:
                        continue
                    deadline = time.monotonic() + team.grace.total_seconds()
                    log.info("stopping: starting no new tasks, waiting for the running ones to finish")
                    team.stop()
                case _:
                    pass
    finally:
        if not team.has_ended:
            team.abandon()
