"""One run. It carries out its script, and records every relevant action before and after it."""

import os
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBConnectionError, PynamoDBException, TransactWriteError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TrackerError, clock
from tests.chaos.events import Log
from tests.chaos.forks import KINDS, fork
from tests.chaos.interrupts import Interrupts, comes_from_nowhere
from tests.chaos.ledger import PROGRESS, SUCCESS, Ledger, is_booked
from tests.chaos.outcomes import (
    Boom,
    end_after,
    end_of_interrupted,
    is_announced,
    is_of_the_network,
    notes_of,
    of_write,
    outcome,
)
from tests.chaos.pipeline import STEPS, is_diverted
from tests.chaos.records import append, is_whole, records
from tests.chaos.script import PARTS, Deed, Script

AFTER_A_FAILURE = 1.0
"""Seconds for which a block waits for late copies of a failed transaction."""


def lateness(ctx: Any) -> float:
    """Return how many seconds ago the lock expired by the worker's clock, or a negative number."""
    return float((clock.now() - ctx.lock_expire_time).total_seconds())


@dataclass
class Block:
    log: Log
    number: int
    step: Any
    task_id: str
    script: Script
    ledger: Ledger
    records: int = 0
    commits: int = 0
    """Transactions begun before the end."""
    ending: str = ""
    """succeed, fail, postpone, give_up or release, once it has ended."""
    unbooked: PynamoDBException | None = None
    """The error of the transaction that was to record the success."""
    claimed: bool = False
    """Whether the block began."""
    interrupted: str = ""
    """How an unexpected exception ends the block: fail or release."""
    forked: bool = False
    """Whether this is a forked child, which must not record its parent's run."""

    def run(self, interrupts: Interrupts) -> None:
        self.tell("claim", step=self.step.name)
        if self.script.ending == "die":
            self._die()
            return
        try:
            with interrupts.during(self.script.interrupt), self._start() as ctx:
                self.inside(ctx)
        except BaseException as error:  # noqa: BLE001 - the checker judges it
            if not self.forked:
                self.left(error, interrupts)
        else:
            if not self.forked:
                self.ended("ok")
        finally:
            if self.forked:
                os._exit(0)

    def tell(self, kind: str, **facts: Any) -> None:
        self.log.tell(kind, self.task_id, self.number, **facts)

    def _start(self) -> AbstractContextManager[Any]:
        script = self.script
        run: AbstractContextManager[Any] = self.step.start(
            self.task_id, detailed_error=script.detailed, skip_error=script.skip_error, heartbeat=script.heartbeat
        )
        return run

    def _die(self) -> None:
        try:
            self.begun(self._start().__enter__())
        except BaseException as error:  # noqa: BLE001 - as above
            self.left(error)

    def begun(self, ctx: Any) -> None:
        """Record that the block has begun, before anything reads its data."""
        late = lateness(ctx)
        self.claimed = True
        self.tell("claimed", step=self.step.name, fence=ctx.task.fence, attempt=ctx.attempt, late=late)

    def inside(self, ctx: Any) -> None:
        self.begun(ctx)
        try:
            self.tell("seen", seen=records(ctx.task), whole=is_whole(ctx.task))
            for deed in self.script.deeds:
                self._do(ctx, deed)
                if self.forked:
                    return
            self._end(ctx)
        except BaseException as error:
            if not self.forked:
                self._raised(error)
            raise

    def _raised(self, error: BaseException) -> None:
        if comes_from_nowhere(error):
            self.interrupted = "release" if isinstance(error, KeyboardInterrupt) else "fail"
        if not self.ending:
            self._ends(self.interrupted or "fail")

    def _do(self, ctx: Any, deed: Deed) -> None:
        match deed.kind:
            case "rest":
                time.sleep(deed.amount)
            case "record":
                self._record(ctx, int(deed.amount))
            case "save":
                self._write("save", ctx.save)
            case "extend":
                self._write("extend", lambda: ctx.extend_lock(timedelta(seconds=deed.amount)))
            case "commit":
                self._commit(ctx)
            case "part":
                self._part(ctx, PARTS[int(deed.amount)])
            case "fork":
                self._fork(ctx, KINDS[int(deed.amount)])
            case other:
                raise ValueError(f"a script has no {other}")

    def _fork(self, ctx: Any, kind: str) -> None:
        self.tell("fork", what=kind)
        parent = os.getpid()
        try:
            fork(self.log, ctx, self.task_id, self.number, kind)
        finally:
            self.forked = os.getpid() != parent

    def _record(self, ctx: Any, size: int) -> None:
        self.records += 1
        append(ctx.task, ctx.task.fence, self.records, size)
        at = time.monotonic()
        held = clock.now() < ctx.lock_expire_time  # looked at after `at`: what is held now was held then
        self.log.tell("effect", self.task_id, self.number, at=at, held=held)

    def _part(self, ctx: Any, name: str) -> None:
        self.got_part(ctx, name, ctx.checkpoint(name, lambda: self.call_part(ctx, name)))

    def call_part(self, ctx: Any, name: str) -> int:
        self.tell("call", name=name, key=ctx.key(name))
        fence: int = ctx.task.fence
        return fence

    def got_part(self, ctx: Any, name: str, result: int) -> None:
        """Record whose result it got, and whether that is known to be stored."""
        self.tell("got", name=name, result=result, stored=not ctx._journal.additions["checkpoints"].is_unsaved)

    def _write(self, what: str, write: Callable[[], object]) -> None:
        self.tell("write", what=what, records=self.records)
        try:
            write()
        except (LockLostError, PynamoDBConnectionError, TransactWriteError) as error:
            self.tell("written", outcome=of_write(what, error))
            raise
        self.tell("written", outcome="ok")

    def _commit(self, ctx: Any) -> None:
        """Commit the progress. After a failure, keep the lock for a while, so that late copies find it."""
        self.commits += 1
        mark = ctx.task.fence, self.commits

        def write() -> None:
            with ctx.transaction() as transaction:
                self.ledger.mark(transaction, self.task_id, PROGRESS, mark)

        try:
            self._write("commit", write)
        except (PynamoDBConnectionError, TransactWriteError) as error:
            if not is_of_the_network(error):
                raise
            for deed in (Deed("extend", AFTER_A_FAILURE), Deed("rest", AFTER_A_FAILURE)):
                self._do(ctx, deed)

    def _end(self, ctx: Any) -> None:
        match self.script.ending:
            case "boom":
                self._ends("fail")
                raise Boom("the block failed")
            case "later":
                self._ends("fail")
                raise RetryLater(timedelta(seconds=0.5))
            case "postpone":
                self._ends("postpone")
                raise RetryLater(timedelta(seconds=0.3), use_attempt=False)
            case "give_up":
                self._ends("give_up")
                raise GiveUp("no use")
            case "interrupt":
                self._ends("release")
                raise KeyboardInterrupt
            case "exit":
                self._ends("fail")
                raise SystemExit(3)
            case _:
                if self.is_diverted:
                    ctx.go_to(self.step.model.send_back)
                self._ends("succeed")
                if is_booked(self.task_id, self.step.name):
                    self._book(ctx)

    @property
    def is_diverted(self) -> bool:
        """Return whether a success of this run leads to the branch step."""
        return self.step.name == STEPS[0].name and is_diverted(self.task_id)

    def _book(self, ctx: Any) -> None:
        try:
            with ctx.transaction(succeed=True) as transaction:
                self.ledger.mark(transaction, self.task_id, self.step.name, (ctx.task.fence, SUCCESS))
        except (PynamoDBConnectionError, TransactWriteError) as error:
            if is_of_the_network(error):
                self.unbooked = error
            raise

    def _ends(self, what: str, *, at: float | None = None) -> None:
        self.ending = what
        self.log.tell(
            "write", self.task_id, self.number, at=at, what=what, records=self.records if what == "succeed" else 0
        )

    def left(self, error: BaseException, interrupts: Interrupts | None = None) -> None:
        """Record what an error of the run says about it."""
        struck_at = None if interrupts is None else interrupts.struck_at
        if interrupts and struck_at and comes_from_nowhere(error) and not isinstance(error, TrackerError):
            self._interrupted(error, interrupts, struck_at)
            return
        came = outcome(error)
        if came == "ok" and not self.claimed:  # the worker was stopped after the claim, and has released the task
            came = "unknown"
        if came == "crash":
            self.tell("crash", trace="".join(traceback.format_exception(error))[-2000:])
        else:
            why, notes = type(getattr(error, "cause", None) or error).__name__, [*notes_of(error)]
            self.ended(came, why=why, announced=is_announced(error), notes=notes)

    def _interrupted(self, error: BaseException, interrupts: Interrupts, at: float) -> None:
        kind = type(error).__name__
        if not self.claimed:
            self.tell("refused", outcome="unknown", announced=is_announced(error), interrupt=kind)
            return
        if any(frame.f_code is Block.inside.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
            self._raised(error)
        if not self.ending:
            self._ends("fail", at=at)
        logged = interrupts.was_logged(self.task_id)
        what, came = end_of_interrupted(error, self.interrupted or self.ending, logged=logged)
        self.tell("written", outcome=came, what=what, interrupt=kind)

    def ended(self, came: str, **facts: Any) -> None:
        """Record the result of the end, or for a run that never began, of its claim."""
        if self.claimed and not self.ending:  # interrupted before its first deed, and skipped once that was recorded
            self._ends("fail")
        if self.interrupted:  # and the exception was skipped, once it was recorded
            facts["what"] = self.interrupted
        if self.unbooked is not None:
            what, came = end_after(self.unbooked)
            facts["what"] = what
        self.tell("written" if self.ending else "refused", outcome=came, **facts)
