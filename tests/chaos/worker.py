"""A worker process: draws its scripts from the seed, runs them on due tasks, and writes its history."""

import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import TaskNotStartableError, clock
from pynamodb_tracker.control import watch
from pynamodb_tracker.control.item import read
from pynamodb_tracker.writes import lock as lock_module
from tests.chaos.batch import Batch
from tests.chaos.block import Block
from tests.chaos.events import Log
from tests.chaos.faults import fail_before_sending
from tests.chaos.interrupts import Interrupts
from tests.chaos.ledger import Ledger
from tests.chaos.outcomes import is_of_the_network
from tests.chaos.people import cancel, release
from tests.chaos.pipeline import OFTEN, URGENT, parcels
from tests.chaos.queue_moves import QueueMoves
from tests.chaos.records import is_in_its_shard, is_whole
from tests.chaos.script import fated, healthy, script
from tests.chaos.settings import Settings
from tests.chaos.slots import telling_slots

REMEMBERED = 40
"""Recent tasks that a worker may try again, whatever the index says."""
LOOKED_AT = 8
"""Tasks that a worker reads at once. All read the same ones, so they meet. Calm ones read many more."""
KEPT = 4
"""How many of them it tries before it reads again."""
BATCHES = 0.25
"""One in this many actions is a batch."""
LIMITED = 0.7
"""The same for the step with a limit, which only holds for tasks that the library starts."""
ORDERS = 0.03
"""One in this many actions is a person's."""
RELEASES = 0.3
"""One in this many frees a task although its worker may be running it."""
CANCELS = 0.5
"""One in this many tasks that a person ignores is ignored even if it runs."""


class SkewedClock(clock.Clock):
    def __init__(self, skew: timedelta) -> None:
        self._skew = skew

    def now(self) -> datetime:
        return super().now() + self._skew


class Worker:
    def __init__(self, settings: Settings, log: Log, endpoint: str, *, calm: bool) -> None:
        self.settings = settings
        self.log = log
        self.calm = calm
        """Whether its scripts never fail."""
        self.order = parcels(endpoint, settings)
        self.ledger = Ledger(endpoint, settings)
        self.met: deque[str] = deque(maxlen=REMEMBERED)
        self.due: dict[str, list[str]] = {}
        """By step, the due tasks when this worker last looked."""
        self.ending = threading.Event()
        self.interrupts = Interrupts()
        self.interrupts.begin()
        self.queues = QueueMoves(settings, log, self.order, self.interrupts, calm=calm)

    def work(self) -> None:
        """Run scripts until nobody holds the other end of standard input."""
        threading.Thread(target=self._listen, daemon=True).start()
        if self.settings.queues:
            self.queues.begin()
        for number in range(10, sys.maxsize, 10):  # a batch has several runs
            if self.ending.is_set():
                return
            draw = self.settings.drawn("script", self.log.worker, number)
            try:
                self._one(number, draw)
            except TaskNotStartableError:
                continue  # of a person's order: somebody was faster
            except PynamoDBConnectionError as error:  # of reading: next time, then
                if not is_of_the_network(error):
                    raise
                time.sleep(0.1)

    def _one(self, number: int, draw: random.Random) -> None:
        if draw.random() < self.settings.queues and self.queues.one(number, draw):
            return
        rule = draw.choice(OFTEN)
        step = getattr(self.order, rule.name)
        if not self.calm and draw.random() < ORDERS:
            self._order(number, step, draw)
            return
        if not self.calm and draw.random() < (LIMITED if rule.name == "weigh" else BATCHES):
            Batch(self.settings, self.log, number, step, self.ledger).run()
            return
        task_id = self._pick(step, draw)
        if task_id is None:
            self.ending.wait(draw.uniform(0.02, 0.1) * (3 if self.calm else 1))
            return
        plan = fated(healthy(draw) if self.calm else script(self.settings, draw), task_id, dies=True)
        Block(self.log, number, step, task_id, plan, self.ledger).run(self.interrupts)

    def _pick(self, step: Any, draw: random.Random) -> str | None:
        """Return a due task or, sometimes, one that is not due."""
        guess, guesses = 1.0 if self.calm else draw.random(), self.settings.guesses
        if guess < guesses and self.met:
            return draw.choice(self.met)
        if guess < 2 * guesses:
            held: list[str] = [task.task_id for task in step.in_progress.query(limit=LOOKED_AT)]
            return draw.choice(held) if held else None
        todo = self.due.setdefault(step.name, [])
        if not todo:
            found = self._look(step)
            todo += draw.sample(found, min(KEPT, len(found)))
            self.met.extend(todo)
        return todo.pop() if todo else None

    def _look(self, step: Any) -> list[str]:
        """Return the due tasks, and report torn rows."""
        if self.calm:
            return [task.task_id for task in step.due(limit=LOOKED_AT * 8, with_data=False)]
        found = list(step.due(limit=LOOKED_AT))
        for task in found:
            if not (is_whole(task) and is_in_its_shard(task)):
                self.log.tell("torn", task.task_id)
        return [task.task_id for task in found]

    def _order(self, number: int, step: Any, draw: random.Random) -> None:
        """Do what a person does: reopen a task, ignore one, or free one."""
        order = draw.random()
        if order < RELEASES:
            held = [*step.in_progress.query(limit=LOOKED_AT)]
            if held:
                task = draw.choice(held)
                release(self.log, number, step, task.task_id, fencing_token=task.lock)
        elif order < RELEASES + 0.5:
            given_up = [task.task_id for task in step.ignored.query(limit=LOOKED_AT)]
            if given_up:
                task_id = draw.choice(given_up)
                self.log.tell("reopen", task_id, number, step=step.name)
                step.reopen(task_id, urgent=draw.random() < URGENT)
        elif self.met:
            task_id = draw.choice(self.met)
            if draw.random() < CANCELS:
                cancel(self.log, number, step, task_id)
                return
            self.log.tell("ignore", task_id, number, step=step.name)
            step.ignore(task_id, reason="a person said so")

    def _listen(self) -> None:
        sys.stdin.read()
        self.ending.set()


def telling(log: Log, read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a read of the control item that reports failures. After a failure, the known state still holds."""

    def told(model: Any, **options: Any) -> Any:
        try:
            return read(model, **options)
        except Exception:
            log.tell("unread", "")
            raise

    return told


def kind_of(kind: str) -> type[Worker]:
    """Return the class of workers of that kind: calm, wild, or one of LOOPS."""
    if kind in {"calm", "wild"}:
        return Worker
    from tests.chaos.workers_on_loops import BY_KIND  # noqa: PLC0415 - these are workers, too

    return BY_KIND[kind]


def start(settings: Settings, endpoint: str, folder: str, name: str, kind: str) -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    if settings.without:
        import pytest  # noqa: PLC0415 - other workers do without it

        from tests.chaos.guards import remove_guard  # noqa: PLC0415 - as above

        remove_guard(settings.without, pytest.MonkeyPatch())
    if kind != "calm":
        fail_before_sending(settings, name)
    skew = settings.skew_of(name)
    clock.use(SkewedClock(skew))
    # Tokens are made of the machine's clock, too, which no setting of the library reaches.
    skewed = SimpleNamespace(time_ns=lambda: time.time_ns() + skew // timedelta(microseconds=1) * 1000)
    log = Log(Path(folder), name)
    with (
        mock.patch.object(lock_module, "time", skewed),
        mock.patch.object(watch, "read", telling(log, read)),
        telling_slots(log),
    ):
        kind_of(kind)(settings, log, endpoint, calm=kind == "calm").work()
    log.close()


def main(stdin: Connection, settings: str, *arguments: str) -> None:
    # It stays open: to close it would wait for the thread that reads it.
    sys.stdin = os.fdopen(os.dup(stdin.fileno()))
    start(Settings.from_json(settings), *arguments)
