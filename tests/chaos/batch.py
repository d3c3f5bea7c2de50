"""A batch of runs: what `run_all` finds to do, on two threads, each task with a script and a history of its own."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

from tests.chaos.block import Block
from tests.chaos.events import Log
from tests.chaos.ledger import Ledger
from tests.chaos.script import Script, script
from tests.chaos.settings import Settings

__all__ = ["Batch"]

MOST = 5
"""Tasks in one batch."""


class Batch:
    """Runs of one step, started by the library."""

    def __init__(self, settings: Settings, log: Log, first: int, step: Any, ledger: Ledger) -> None:
        self.settings = settings
        self.log = log
        self.step = step
        self.ledger = ledger
        self.heartbeat = first % 20 == 0  # numbers of batches end in 0
        self.blocks: dict[str, Block] = {}
        self._numbers = itertools.count(first)
        self._guard = threading.Lock()

    def run(self) -> None:
        """Run what there is to do, and tell what the report says of each."""
        step = object.__new__(type(self.step))  # a copy of a step is that step
        vars(step).update(vars(self.step), start=self._start)
        report = step.run_all(self._one, threads=2, limit=MOST, heartbeat=self.heartbeat)
        for task_id, block in self.blocks.items():
            if task_id in report.refused:
                block.left(report.refused[task_id])
            else:
                block.ended("ok" if block.ending else "refused")

    def _start(self, task_id: str, **options: Any) -> Any:
        """Write that the task will be claimed, before it is: the worker may be killed before there is a report."""
        with self._guard:
            number = next(self._numbers)
            block = Block(self.log, number, self.step, task_id, self._script(number), self.ledger)
            self.blocks[task_id] = block
        block.tell("claim", step=self.step.name)
        return self.step.start(task_id, **options)

    def _one(self, ctx: Any) -> None:
        self.blocks[ctx.task.task_id].inside(ctx)

    def _script(self, number: int) -> Script:
        """Draw a script until it is none that would end the whole batch."""
        draw = self.settings.drawn("script", self.log.worker, number)
        while (drawn := script(self.settings, draw)).ending in {"interrupt", "exit"}:
            continue
        # The child of a fork would go on with the batch.
        return replace(drawn, interrupt=None, deeds=tuple(deed for deed in drawn.deeds if deed.kind != "fork"))
