"""A batch of runs: what `run_all` finds to do, on two threads, each task with a script and a history of its own."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from pynamodb_tracker import LockLostError, TaskNotStartableError
from tests.chaos.block import Block
from tests.chaos.events import Log
from tests.chaos.script import Script, script
from tests.chaos.settings import Settings

__all__ = ["Batch"]

MOST = 5
"""Tasks in one batch."""


class Batch:
    """Runs of one step, started by the library."""

    def __init__(self, settings: Settings, log: Log, first: int, step: Any, effect: type[Any] | None) -> None:
        self.settings = settings
        self.log = log
        self.step = step
        self.effect = effect
        self.blocks: dict[str, Block] = {}
        self._numbers = itertools.count(first)
        self._guard = threading.Lock()

    def run(self) -> None:
        """Run what there is to do, and tell what the report says of each."""
        heartbeat = {"heartbeat": True} if self.settings.heartbeats else {}
        report = self.step.run_all(self._one, threads=2, limit=MOST, **heartbeat)
        for task_id, error in report.refused.items():
            block = self.blocks.get(task_id)
            if block is not None:
                block.ended("lost" if isinstance(error, LockLostError) else "unknown", why=type(error).__name__)
            elif not isinstance(error, TaskNotStartableError):
                # Its block never began: nobody knows whether its claim was taken.
                block = self._block(task_id)
                block.tell("claim", step=self.step.name)
                block.ended("unknown", why=type(error).__name__)
        for task_id in (*report.succeeded, *report.failed, *report.ignored):
            if task_id in self.blocks:
                self.blocks[task_id].ended("ok")

    def _one(self, ctx: Any) -> None:
        block = self._block(ctx.task.task_id)
        block.tell("claim", step=self.step.name)
        block.inside(ctx)

    def _block(self, task_id: str) -> Block:
        with self._guard:
            number = next(self._numbers)
            block = Block(self.log, number, self.step, task_id, self._script(number), self.effect)
            self.blocks[task_id] = block
            return block

    def _script(self, number: int) -> Script:
        """Draw a script until it is none that would end the whole batch."""
        draw = self.settings.drawn("script", self.log.worker, number)
        while (drawn := script(self.settings, draw)).ending in {"interrupt", "exit"}:
            continue
        return drawn
