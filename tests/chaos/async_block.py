"""One run on an event loop. It carries out its script like `Block`, and may be cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import LockLostError, TrackerError
from tests.chaos.block import AFTER_A_FAILURE, Block
from tests.chaos.ledger import PROGRESS, SUCCESS, is_booked
from tests.chaos.outcomes import claim_of_cancelled, end_of_cancelled, is_of_the_network, notes_of, of_write, outcome
from tests.chaos.records import is_whole, records
from tests.chaos.script import PARTS, Deed


class AsyncBlock(Block):
    async def perform(self) -> None:
        script = self.script
        self.announce()
        try:
            async with self.step.astart(
                self.task_id, detailed_error=script.detailed, skip_error=script.skip_error, heartbeat=script.heartbeat
            ) as ctx:
                await self.inside_loop(ctx)
        except BaseException as error:  # noqa: BLE001 - the checker judges it
            self.left_by(error)
        else:
            self.ended("ok")

    def announce(self, **facts: Any) -> None:
        """Record that the task will be claimed, and cancel the asyncio task if the script says so."""
        task, interrupt = asyncio.current_task(), self.script.interrupt
        assert task is not None
        self.tell("claim", step=self.step.name, **facts)
        if interrupt is not None:
            asyncio.get_running_loop().call_later(interrupt.after, task.cancel)

    def left_by(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._left_cancelled(error)
        else:
            self.left(error)

    async def inside_loop(self, ctx: Any) -> None:
        self.begun(ctx)
        try:
            self.tell("seen", seen=records(ctx.task), whole=is_whole(ctx.task))
            for deed in self.script.deeds:
                await self._carry_out(ctx, deed)
            await self._finish(ctx)
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                self.interrupted = "release"
            if not self.ending:
                self._ends(self.interrupted or "fail")
            raise

    async def _carry_out(self, ctx: Any, deed: Deed) -> None:
        match deed.kind:
            case "rest":
                await asyncio.sleep(deed.amount)
            case "record":
                self._record(ctx, int(deed.amount))
            case "save":
                await self._awaited("save", ctx.save)
            case "extend":
                await self._awaited("extend", lambda: ctx.extend_lock(timedelta(seconds=deed.amount)))
            case "commit":
                await self._commit_progress(ctx)
            case "part":
                await self._await_part(ctx, PARTS[int(deed.amount)])
            case "fork":
                pass  # of a process with an event loop: nobody does that
            case other:
                raise ValueError(f"a script has no {other}")

    async def _await_part(self, ctx: Any, name: str) -> None:
        async def part() -> int:
            await asyncio.sleep(0)
            return self.call_part(ctx, name)

        self.got_part(ctx, name, await ctx.checkpoint(name, part))

    async def _awaited(self, what: str, write: Callable[[], Awaitable[object]]) -> None:
        self.tell("write", what=what, records=self.records)
        try:
            await write()
        except (LockLostError, PynamoDBConnectionError, TransactWriteError) as error:
            self.tell("written", outcome=of_write(what, error))
            raise
        self.tell("written", outcome="ok")  # a cancelled one gets no such line, and stays unknown

    async def _commit_progress(self, ctx: Any) -> None:
        self.commits += 1
        mark = ctx.task.fence, self.commits

        async def write() -> None:
            async with ctx.transaction() as transaction:
                self.ledger.mark(transaction, self.task_id, PROGRESS, mark)

        try:
            await self._awaited("commit", write)
        except (PynamoDBConnectionError, TransactWriteError) as error:
            if not is_of_the_network(error):
                raise
            for deed in (Deed("extend", AFTER_A_FAILURE), Deed("rest", AFTER_A_FAILURE)):
                await self._carry_out(ctx, deed)

    async def _finish(self, ctx: Any) -> None:
        match self.script.ending:
            case "interrupt":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case "exit":  # which would end the loop with all other runs
                self._ends("fail")
                raise asyncio.CancelledError("the block's own affair")
            case "succeed":
                if self.is_diverted:
                    await ctx.go_to(self.step.model.send_back)
                self._ends("succeed")
                if is_booked(self.task_id, self.step.name):
                    await self._book_success(ctx)
            case _:
                self._end(ctx)

    async def _book_success(self, ctx: Any) -> None:
        try:
            async with ctx.transaction(succeed=True) as transaction:
                self.ledger.mark(transaction, self.task_id, self.step.name, (ctx.task.fence, SUCCESS))
        except (PynamoDBConnectionError, TransactWriteError) as error:
            if is_of_the_network(error):
                self.unbooked = error
            raise

    def _left_cancelled(self, error: asyncio.CancelledError) -> None:
        """Record what a cancel says about the run, and the error of the request that it interrupted."""
        came_upon = error.__cause__
        if isinstance(came_upon, TrackerError | PynamoDBException) and outcome(came_upon) == "crash":
            self.left(came_upon)
        elif not self.claimed:
            (came, announced), notes = claim_of_cancelled(error), [*notes_of(error)]
            self.tell("refused", outcome=came, announced=announced, interrupt="CancelledError", notes=notes)
        else:
            what, came = end_of_cancelled(
                error, self.interrupted or self.ending, self.unbooked, booking=self.ending == "succeed"
            )
            or_released = self.interrupted == "release"
            self.tell("written", outcome=came, what=what, interrupt="CancelledError", or_released=or_released)
