"""The block of one run: carries out its script, and tells the history before and after everything that counts."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import GiveUp, LockLostError, RetryLater, TaskNotStartableError, clock
from tests.chaos.events import Log
from tests.chaos.pipeline import EXACTLY_ONCE
from tests.chaos.records import append, is_whole, records
from tests.chaos.script import Deed, Script

__all__ = ["Block", "Boom"]

UNRECORDED = "could not record"
"""What the library notes on an exception of the block that it could not put on record."""


class Boom(Exception):  # noqa: N818 - what users raise has any name
    """The block failed."""


@dataclass
class Block:
    """One run of one step of one task."""

    log: Log
    number: int
    step: Any
    task_id: str
    script: Script
    effect: type[Any] | None
    """The model of the effects, where there are transactions."""
    records: int = 0
    """How many records the block has added."""
    ending: str = ""
    """How the block ended: succeed, fail, give_up or release; nothing until it does."""

    def run(self) -> None:
        """Claim the task, carry out the script, and tell what became of it."""
        self.tell("claim", step=self.step.name)
        try:
            with self._start() as ctx:
                self.inside(ctx)
        except TaskNotStartableError as refusal:
            self.ended("refused", why=type(refusal).__name__)
        except LockLostError:
            self.ended("lost")
        except PynamoDBConnectionError as error:
            self.ended("unknown", why=type(error.cause).__name__)
        except (Boom, GiveUp, RetryLater, KeyboardInterrupt, SystemExit) as error:
            noted = any(UNRECORDED in note for note in getattr(error, "__notes__", ()))
            self.ended("unknown" if noted else "ok")
        except Exception:  # noqa: BLE001 - whatever it is, it should not have left: the checker says so
            self.tell("crash", trace=traceback.format_exc()[-2000:])
        else:
            self.ended("ok")

    def tell(self, kind: str, **facts: Any) -> None:
        """Add a line about this run."""
        self.log.tell(kind, self.task_id, self.number, **facts)

    def _start(self) -> AbstractContextManager[Any]:
        options: dict[str, Any] = {"detailed_error": self.script.detailed, "skip_error": self.script.skip_error}
        if self.script.heartbeat:
            options["heartbeat"] = True
        run: AbstractContextManager[Any] = self.step.start(self.task_id, **options)
        return run

    def inside(self, ctx: Any) -> None:
        """Carry the script out while the lock is held."""
        # Before the row is looked into: pieces of its data may have to be fetched, and that may go wrong.
        self.tell("claimed", step=self.step.name, fence=ctx.fence, attempt=ctx.attempt)
        try:
            self.tell("seen", seen=records(ctx.task), whole=is_whole(ctx.task))
            for deed in self.script.deeds:
                self._do(ctx, deed)
            self._end(ctx)
        except BaseException:
            if not self.ending:
                self._ends("fail")
            raise

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
            case "transact" if self.step.name != EXACTLY_ONCE:
                self._write("transact", lambda: self._transact(ctx))

    def _record(self, ctx: Any, size: int) -> None:
        self.records += 1
        append(ctx.task, ctx.fence, self.records, size)
        at = time.monotonic()
        held = clock.now() < ctx.lock_expire_time  # looked at after `at`: what is held now was held then
        self.log.tell("effect", self.task_id, self.number, at=at, held=held)

    def _write(self, what: str, write: Callable[[], object]) -> None:
        self.tell("write", what=what, records=self.records)
        try:
            write()
        except LockLostError:
            self.tell("written", outcome="lost")
            raise
        except PynamoDBConnectionError:
            self.tell("written", outcome="unknown")
            raise
        self.tell("written", outcome="ok")

    def _transact(self, ctx: Any) -> None:
        assert self.effect is not None
        with ctx.transaction() as transaction:
            transaction.save(self.effect(self.task_id, self.step.name, fence=ctx.fence))

    def _end(self, ctx: Any) -> None:
        match self.script.ending:
            case "boom":
                self._ends("fail")
                raise Boom("the block failed")
            case "later":
                self._ends("fail")
                raise RetryLater(timedelta(seconds=0.5))
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
                self._succeed(ctx)

    def _succeed(self, ctx: Any) -> None:
        self._ends("succeed")
        if self.effect is not None and self.step.name == EXACTLY_ONCE:
            effect = self.effect(self.task_id, self.step.name, fence=ctx.fence)
            with ctx.transaction(succeed=True) as transaction:
                transaction.save(effect, condition=self.effect.task_id.does_not_exist())

    def _ends(self, what: str) -> None:
        """Tell that the end is about to be recorded."""
        self.ending = what
        self.tell("write", what=what, records=self.records if what == "succeed" else 0)

    def ended(self, outcome: str, **facts: str) -> None:
        """Tell what came of the end; of a run that never began, that its claim is not known to have been taken."""
        self.tell("written" if self.ending else "refused", outcome=outcome, **facts)
