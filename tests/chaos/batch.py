"""A batch: `run_all` on threads. Each task has its own script and history."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from pynamodb_tracker.dynamodb import batch_execute, write_batcher
from tests.chaos.block import Block
from tests.chaos.events import Log
from tests.chaos.ledger import Ledger
from tests.chaos.script import Script, fated, script
from tests.chaos.settings import Settings

MOST = 10
"""Tasks in a batch. Run numbers of the next batch are ten higher."""
THREADS = 5
FROZEN = 0.15
"""One batch in this many stops after one of its first responses for longer than a lock lasts."""


class Batch:
    def __init__(self, settings: Settings, log: Log, first: int, step: Any, ledger: Ledger) -> None:
        self.settings = settings
        self.log = log
        self.step = step
        self.ledger = ledger
        self.heartbeat = first % 20 == 0  # numbers of batches end in 0
        self.blocks: dict[str, Block] = {}
        self._first = first
        self._numbers = itertools.count(first)
        self._guard = threading.Lock()

    def run(self) -> None:
        """Run the due tasks, and record what the report says about each."""
        kind, start = type(self.step), type(self.step).start

        def told(step: Any, task_id: str, **options: Any) -> Any:
            self._tell(task_id)
            return start(step, task_id, **options)

        with mock.patch.object(kind, "start", told), self._freezing():
            report = self.step.run_all(self._one, threads=THREADS, limit=MOST, heartbeat=self.heartbeat)
        for task_id, block in self.blocks.items():
            if task_id in report.refused:
                block.left(report.refused[task_id])
            elif block.ending:
                block.ended("ok")
            elif task_id in report.succeeded:
                block.tell("crash", trace="reported as succeeded, although its block has not ended")
            else:  # ignored since it was found, or claimed so slowly that it was released before its block
                block.ended("refused" if task_id in report.ignored else "unknown")

    @contextmanager
    def _freezing(self) -> Iterator[None]:
        """Freeze some batches once, after a request that no thread has seen the response of."""
        draw, settings = self.settings.drawn("frozen", self.log.worker, self._first), self.settings
        if draw.random() >= FROZEN:
            yield
            return
        longer = settings.lock_seconds + settings.margin_seconds + draw.uniform(0.1, 1)
        pauses = [longer, *[0.0] * draw.randrange(3)]
        execute = batch_execute.execute

        def late(writes: Sequence[Any]) -> None:
            execute(writes)
            if pauses:
                time.sleep(pauses.pop())

        with mock.patch.object(write_batcher, "execute", late):
            yield

    def _tell(self, task_id: str) -> None:
        """Record that the task will be claimed, because the worker may be killed before the report."""
        with self._guard:
            number = next(self._numbers)
            plan = fated(self._script(number), task_id, dies=False)
            block = Block(self.log, number, self.step, task_id, plan, self.ledger)
            self.blocks[task_id] = block
        block.tell("claim", step=self.step.name, controlled=True)

    def _one(self, ctx: Any) -> None:
        self.blocks[ctx.task.task_id].inside(ctx)

    def _script(self, number: int) -> Script:
        """Draw scripts until one does not end the whole batch."""
        draw = self.settings.drawn("script", self.log.worker, number)
        while (drawn := script(self.settings, draw)).ending in {"interrupt", "exit"}:
            continue
        # The child of a fork would continue the batch.
        return replace(drawn, interrupt=None, deeds=tuple(deed for deed in drawn.deeds if deed.kind != "fork"))
