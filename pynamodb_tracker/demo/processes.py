"""Workers as processes of their own against a real server: those that die are gone at once, and others take over."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from pynamodb_tracker import BoundStep, GiveUp, LockLostError, State, TaskNotStartableError
from pynamodb_tracker.demo.accidents import Accidents
from pynamodb_tracker.demo.interrupt import interrupts_held_back
from pynamodb_tracker.demo.pipeline import Order, OutsideError, Worker, steps
from pynamodb_tracker.demo.server import TRANSPORT_ERRORS, ServerError, Setup, first_line

__all__ = ["Processes"]

_DIED = 75
"""The exit code of a worker that died as planned; before the end of the demo, any other one is a mistake."""

_PAGE = 50
_POLL = 0.2
"""Seconds between two looks at the table."""

_GRACE = 10.0
"""Seconds that a worker has for the order in its hands when it is told to stop."""

_spawn = get_context("spawn")


class Processes:
    """Worker processes, replaced when they die."""

    def __init__(self, count: int, accidents: Accidents, setup: Setup) -> None:
        self.died = 0
        self._worker = Worker(accidents, _die)
        self._setup = setup
        self._count = count
        self._running: list[tuple[SpawnProcess, Connection]] = []

    @contextmanager
    def at_work(self) -> Iterator[Processes]:
        """Start the workers, and end them all, however the block ends."""
        try:
            for _ in range(self._count):
                self._start()
            yield self
        finally:
            for _, stop in self._running:
                stop.close()
            for process, _ in self._running:
                process.join(_GRACE)
                if process.exitcode is None:
                    process.kill()
                    process.join()

    def work_off(self, show: Callable[[Mapping[State[Order], int]], None]) -> None:
        """Watch the table until nothing is left to do, neither now nor later."""
        before: Mapping[State[Order], int] = {}
        while True:
            counts = Order.counts()
            show(counts)
            self._replace_the_dead()
            if counts == before and not _is_anything_left(counts, self._worker) and Order.counts() == counts:
                return  # counted again, because an order may have been claimed behind the back of the look at it
            before = counts
            time.sleep(_POLL)

    def _start(self) -> None:
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=_work, args=(self._setup, self._worker, theirs), daemon=True)
        with interrupts_held_back():
            process.start()
        theirs.close()
        self._running.append((process, ours))

    def _replace_the_dead(self) -> None:
        for process, stop in [entry for entry in self._running if entry[0].exitcode is not None]:
            if process.exitcode != _DIED:
                raise ServerError(f"a worker process ended by itself, with exit code {process.exitcode}")
            self.died += 1
            self._running.remove((process, stop))
            stop.close()
            process.close()
            self._start()


def _is_anything_left(counts: Mapping[State[Order], int], worker: Worker) -> bool:
    unsettled = any(counts[state] for step in steps() for state in (step.failed, step.in_progress))
    return unsettled or any(next(worker.todo(step), None) for step in steps())


def _work(setup: Setup, worker: Worker, stop: Connection) -> None:
    """Work until told to stop, or until the process that started this one is gone."""
    with setup.connected():
        try:
            while not stop.poll():
                if not sum(_turn(worker, step, stop) for step in steps()):
                    stop.poll(_POLL)
        except TRANSPORT_ERRORS as error:
            raise SystemExit(f"worker {os.getpid()}: {first_line(error)}") from None


def _turn(worker: Worker, step: BoundStep[Order], stop: Connection) -> int:
    """Run a page of orders, shuffled, because the other workers see the same page; return how many were there."""
    page = list(islice(worker.todo(step), _PAGE))
    random.shuffle(page)
    for order in page:
        if stop.poll():
            break
        _go(worker, step, order)
    return len(page)


def _go(worker: Worker, step: BoundStep[Order], order: Order) -> None:
    """Take the order as far as it goes: what is left then, this worker or another one finds again."""
    for at in worker.way(step, order):
        try:
            with at.start(order.task_id) as ctx:
                worker.work(at, ctx)
        except TaskNotStartableError:
            return  # another worker was faster, or its attempts are used up
        except (OutsideError, GiveUp, LockLostError):
            return  # on record, or no longer this worker's


def _die() -> None:
    """End this process as a power cut does: nothing of Python runs any more, no `finally` either."""
    os._exit(_DIED)
