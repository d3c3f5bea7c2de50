"""Workers that run several tasks at a time on an event loop, which sometimes hangs."""

import asyncio
import itertools
import sys
import threading
import time
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from unittest import mock

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import AsyncWorker, BoundStep
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from tests.chaos.async_block import AsyncBlock
from tests.chaos.outcomes import is_of_the_network
from tests.chaos.pipeline import OFTEN, STEPS
from tests.chaos.script import fated, script
from tests.chaos.worker import Worker

LANES = 4
"""How many tasks such a worker runs at a time."""
PAUSE = timedelta(seconds=0.2)
HEARTBEATS = 0.3
"""One batch in this many uses heartbeats."""


class OnLoop(Worker):
    def work(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        asyncio.run(self._main())

    async def _main(self) -> None:
        hangs = asyncio.create_task(self._hang())
        await self._work()
        hangs.cancel()

    async def _work(self) -> None:
        raise NotImplementedError

    async def _hang(self) -> None:
        """Block the loop now and then, sometimes for longer than a lock lasts."""
        draw = self.settings.drawn("hangs", self.log.worker)
        while True:
            await asyncio.sleep(draw.uniform(0.3, 3))
            time.sleep(self.settings.lock_seconds * draw.uniform(0.2, 2))  # noqa: ASYNC251 - that is the point


class ByStart(OnLoop):
    async def _work(self) -> None:
        looking = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            for lane in range(1, LANES + 1):
                group.create_task(self._lane(range(lane, sys.maxsize, LANES), looking))

    async def _lane(self, numbers: range, looking: asyncio.Lock) -> None:
        for number in numbers:
            if self.ending.is_set():
                return
            draw = self.settings.drawn("script", self.log.worker, number)
            step = getattr(self.order, draw.choice(OFTEN).name)
            try:
                async with looking:
                    task_id = await asyncio.to_thread(self._pick, step, draw)
            except PynamoDBConnectionError as error:
                if not is_of_the_network(error):
                    raise
                task_id = None
            if task_id is None:
                await asyncio.sleep(draw.uniform(0.02, 0.1))
                continue
            plan = fated(script(self.settings, draw), task_id, dies=False)
            await asyncio.create_task(AsyncBlock(self.log, number, step, task_id, plan, self.ledger).perform())


class ByLibrary(OnLoop):
    """A worker that lets the library choose the tasks."""

    def work(self) -> None:
        add_hook(Ends())
        numbers, start = itertools.count(1), BoundStep.astart

        def told(step: Any, task_id: str, **options: Any) -> Any:
            number = next(numbers)
            plan = script(self.settings, self.settings.drawn("script", self.log.worker, number))
            plan = fated(plan, task_id, dies=False)
            block = AsyncBlock(self.log, number, step, task_id, plan, self.ledger)
            BLOCK.set(block)
            block.announce(controlled=True)
            return start(step, task_id, **options)

        with mock.patch.object(BoundStep, "astart", told):
            super().work()


class ByArunAll(ByLibrary):
    async def _work(self) -> None:
        draw = self.settings.drawn("batches", self.log.worker)
        task = asyncio.current_task()
        while not self.ending.is_set():
            step = getattr(self.order, draw.choice(OFTEN).name)
            try:
                await step.arun_all(one, concurrency=LANES, limit=2 * LANES, heartbeat=draw.random() < HEARTBEATS)
            except PynamoDBConnectionError as error:
                if not is_of_the_network(error):
                    raise
            except asyncio.CancelledError:  # of one of its tasks, which ends the batch
                assert task is not None
                if task.cancelling():
                    raise
            await asyncio.sleep(draw.uniform(0.02, 0.1))


class ByAsyncWorker(ByLibrary):
    """A worker that ends gracefully on SIGTERM."""

    async def _work(self) -> None:
        functions = {getattr(self.order, rule.name): one for rule in STEPS}
        worker = AsyncWorker(functions, concurrency=LANES, heartbeat=True, grace=PAUSE, max_poll_interval=PAUSE)
        ends = asyncio.create_task(asyncio.to_thread(self.ending.wait))
        ends.add_done_callback(lambda _: worker.stop())
        await worker.run()
        self.ending.set()
        await ends


BLOCK: ContextVar[AsyncBlock] = ContextVar("BLOCK")


async def one(ctx: Any) -> None:
    await BLOCK.get().inside_loop(ctx)


class Ends(Hook):
    def on_refuse(self, run: RunDetails) -> None:
        assert run.error is not None
        BLOCK.get().left_by(run.error)

    def on_end(self, run: RunDetails) -> None:
        if run.error is None:
            BLOCK.get().ended("ok")
        else:
            BLOCK.get().left_by(run.error)


BY_KIND: dict[str, type[Worker]] = {"astart": ByStart, "arun_all": ByArunAll, "AsyncWorker": ByAsyncWorker}
