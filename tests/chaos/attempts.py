"""One run of a queue task. It leaves a mark with its success, and reports the outcome."""

import random
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from pynamodb_tracker import GiveUp, RetryLater, TaskNotStartableError
from tests.chaos.events import Log
from tests.chaos.interrupts import Interrupts, comes_from_nowhere
from tests.chaos.outcomes import Boom, outcome
from tests.chaos.script import Script

LARGE = 10_000
"""Half the characters of a text that does not fit into the row."""

_ERRORS: dict[str, Callable[[], BaseException]] = {
    "boom": lambda: Boom("the block failed"),
    "later": lambda: RetryLater(timedelta(seconds=0.2)),
    "postpone": lambda: RetryLater(timedelta(seconds=0.2), use_attempt=False),
    "give_up": lambda: GiveUp("no use"),
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
}
"""What a block raises, by its script's ending."""

Mark = tuple[int, int]
"""The step number, and the successful run's fence."""


def marks(task: Any) -> list[Mark]:
    """Return the successes that its runs have left in a task."""
    return [(step, fence) for step, fence in task.data.get("marks", [])]


def report_crash(log: Log, error: BaseException, task_id: str, number: int) -> None:
    if outcome(error) == "crash" and not comes_from_nowhere(error):
        log.tell("crash", task_id, number, trace="".join(traceback.format_exception(error))[-3000:])


class Attempt:
    """A run of one task's step. `work` is its block."""

    def __init__(self, log: Log, number: int, step: Any, script: Script) -> None:
        self.log = log
        self.number = number
        self.step = step
        self.script = script

    def run(
        self, task_id: str, work: Callable[[Any], None], interrupts: Interrupts, *, also_from: Sequence[Any] = ()
    ) -> None:
        """Claim the task, perhaps from other states, and carry out the script."""
        script, succeeds = self.script, self.script.ending == "succeed"
        options = {"detailed_error": script.detailed, "heartbeat": script.heartbeat, "also_from": also_from}
        named = f"{self.step.model.tracker.use_case.name}/{task_id}"
        facts: dict[str, Any] = {"step": self.step.pending.code}
        self.log.tell("try", named, self.number, **facts)
        try:
            with (
                interrupts.during(script.interrupt),
                self.step.start(task_id, skip_error=script.skip_error and not succeeds, **options) as ctx,
            ):
                facts |= {"fence": ctx.task.fence, "attempt": ctx.attempt, "ending": script.ending}
                self.log.tell("began", named, self.number, **facts)
                self._inside(ctx, work)
        except TaskNotStartableError:
            self.log.tell("denied", named, self.number)
        except BaseException as error:  # noqa: BLE001 - the checker judges it
            report_crash(self.log, error, named, self.number)
        else:
            if succeeds:
                self.log.tell("done", named, self.number, **facts)

    def _inside(self, ctx: Any, work: Callable[[Any], None]) -> None:
        for deed in self.script.deeds:
            if deed.kind == "rest":
                time.sleep(deed.amount)
            elif deed.kind == "extend":
                ctx.extend_lock(timedelta(seconds=deed.amount))
        work(ctx)
        ctx.task.data.setdefault("marks", []).append([self.step.pending.code, ctx.task.fence])
        if self.script.has_large_record:
            ctx.task.data["text"] = [ctx.task.fence, random.Random(ctx.task.fence).randbytes(LARGE).hex()]
        if (error := _ERRORS.get(self.script.ending)) is not None:
            raise error()
