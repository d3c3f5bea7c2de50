"""Cancels at random moments: python -m tests.chaos.cancellations --count N --seed N; ends with 1 on a violation.

Many asyncio tasks of one process run through a proxy that delays each request and loses some answers. Each of them is
cancelled, some of them again and again. Afterwards, once the last request has arrived, each run is compared with its
row:

- a finished block is recorded as a success, or a note or a line of the log says that it is not;
- a cancelled run that has not finished is released: its task is pending, and no attempt is spent;
- a task is in progress only if a note or a line of the log says that it may be locked;
- a cancel is never swallowed, and none leaves from where nobody was cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.interruptions import notes_of
from tests.conftest import prepare_process
from tests.engine.actions import Action, Delay, DropResponse
from tests.engine.engine import start
from tests.engine.proxy import Proxy
from tests.support.operations import Boom
from tests.support.orders import close, orders

__all__ = [
    "BLOCKS",
    "ENDED",
    "Attempt",
    "Found",
    "cancel_at_random",
    "create",
    "found",
    "logged",
    "perform",
    "problems",
]

LONGEST_DELAY = 0.06
"""Seconds by which the proxy delays a request at most."""

LONGEST_RUN = 0.3
"""Seconds within which half of the runs end; a cancel comes at any time until then."""

AT_ONCE = 20
"""How many runs are on their way at the same time."""

ENDED = {
    "fail": "Boom",
    "child": "CancelledError",
    "child after a cancel": "CancelledError",
    "timeout": "TimeoutError",
    "refused": "TaskAlreadySucceededError",
}
"""By block: what it ends with if nobody cancels it; all others succeed."""

HELD = "confirm in_progress"
FAILED = "confirm failed"
DONE = "ship pending"


@dataclass
class Attempt:
    """What is known about one run, apart from its row."""

    task_id: str
    block: str
    before: str = "confirm pending"
    """The state of the task before the run."""
    cancels: int = 0
    """How many cancels were delivered to the task before it ended."""
    entered: bool = False
    finished: bool = False
    raised: str = ""
    """The type of the exception that the block raised by itself, and the run recorded or was about to record."""
    error: str = ""
    """The type of the exception that left, nothing if none did."""
    notes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What the log says about the task, from warnings on."""


@dataclass(frozen=True)
class Found:
    """What the row says in the end."""

    state: str
    attempt: int
    errors: list[str]


# The blocks.


async def plain(_ctx: Any) -> None:
    await asyncio.sleep(0)


async def saving(ctx: Any) -> None:
    ctx.task.note = "half way"
    await ctx.save()
    ctx.task.note = "done"


async def extending(ctx: Any) -> None:
    await ctx.extend_lock()


async def booking(ctx: Any) -> None:
    async with ctx.transaction(succeed=True):
        ctx.task.note = "booked"


async def checking(ctx: Any) -> None:
    async with ctx.transaction():
        await asyncio.sleep(0)


async def large(ctx: Any) -> None:
    ctx.task.data["scan"] = "page " * 10_000


async def failing(_ctx: Any) -> None:
    raise Boom("it broke")


async def tidying(ctx: Any) -> None:
    """Tidy up when cancelled, which takes a request, and let the cancel leave."""
    try:
        await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        ctx.task.note = "cancelled"
        await ctx.save()
        raise


async def losing_a_child(_ctx: Any) -> None:
    """End by a cancel that is the block's own affair."""
    child = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    child.cancel()
    await child


async def timing_out(_ctx: Any) -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


BLOCKS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "plain": plain,
    "save": saving,
    "extend": extending,
    "transaction": booking,
    "check": checking,
    "large": large,
    "fail": failing,
    "tidy": tidying,
    "child": losing_a_child,
    "child after a cancel": losing_a_child,
    "timeout": timing_out,
    "heartbeat": plain,
    "run": plain,
    "refused": plain,
}


def create(order: Any, attempt: Attempt) -> None:
    """Create the task of an attempt."""
    if attempt.block == "refused":
        attempt.before = DONE
    order.create(attempt.task_id, state=order.ship.pending if attempt.before == DONE else None)


async def perform(order: Any, attempt: Attempt) -> None:
    """Run the block on the task."""
    task = asyncio.current_task()
    assert task is not None
    if attempt.block == "child after a cancel":  # which the program has caught, and not taken back
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if attempt.cancels:
            raise asyncio.CancelledError
    before = task.cancelling()

    async def function(ctx: Any) -> None:
        attempt.entered = True
        try:
            await BLOCKS[attempt.block](ctx)
        except BaseException as error:
            if not (isinstance(error, asyncio.CancelledError) and task.cancelling() > before):
                attempt.raised = type(error).__name__
            raise
        attempt.finished = True

    if attempt.block == "run":
        await order.confirm.arun(attempt.task_id, function)
        return
    async with order.confirm.astart(attempt.task_id, heartbeat=attempt.block == "heartbeat") as ctx:
        await function(ctx)


async def ended(task: asyncio.Task[None], attempt: Attempt) -> None:
    """Wait for the end of a run, and keep what left."""
    try:
        await asyncio.shield(task)
    except BaseException as error:  # noqa: BLE001 - whatever it is
        attempt.error = type(error).__name__
        attempt.notes = list(notes_of(error))


class Lines(logging.Handler):
    """Keeps what the log says about the task of each attempt."""

    def __init__(self, attempts: list[Attempt]) -> None:
        super().__init__(logging.WARNING)
        self._attempts = attempts

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        for attempt in self._attempts:
            if repr(attempt.task_id) in record.getMessage() or getattr(record, "task_id", "") == attempt.task_id:
                attempt.lines.append(record.getMessage())


@contextlib.contextmanager
def logged(attempts: list[Attempt]) -> Iterator[None]:
    """Keep what the log says about these attempts meanwhile."""
    log, lines = logging.getLogger("pynamodb_tracker"), Lines(attempts)
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)


def found(order: Any, task_id: str) -> Found:
    """Read the row."""
    row = order.get_task(task_id)
    return Found(str(row.state), row.attempt, [failure.type for failure in row.errors])


def problems(attempt: Attempt, row: Found) -> Iterator[str]:
    """Yield what a run and its row, taken together, break."""
    told = [*attempt.notes, *attempt.lines]
    if attempt.finished and row.state != DONE and not told:
        yield "a finished block is not recorded, and nothing says so"
    if row.state == HELD and not any("locked" in line or "taken over" in line for line in told):
        yield "the task is locked, and nothing says so"
    cleaned_up = attempt.block == "tidy" and attempt.error == attempt.raised  # which its own request kept it from
    if attempt.cancels and attempt.error != "CancelledError" and not cleaned_up:
        yield f"a cancel was swallowed: {attempt.error or 'nothing'} left"
    if not attempt.cancels and attempt.error == "CancelledError" and attempt.raised != "CancelledError":
        yield "a cancel left from a task that nobody cancelled"
    if told:
        return
    if row.state == FAILED and (row.attempt, row.errors) != (1, [attempt.raised]):
        yield "a failure was recorded that is not the block's own"
    if attempt.raised and row.state != FAILED:
        yield "the block failed by itself, and that is not recorded"
    is_committed = attempt.block == "transaction" and row.state == DONE  # before the cancel took effect
    is_as_before = (row.state, row.attempt, row.errors) == (attempt.before, 0, [])
    if not (attempt.finished or attempt.raised or is_committed or is_as_before):
        yield "a cancelled run was not released"
    if not attempt.cancels and attempt.error != (attempt.raised or ENDED.get(attempt.block, "")):
        yield f"nobody cancelled the run, and {attempt.error or 'nothing'} left"


async def _cancelled(order: Any, attempt: Attempt, moments: list[float]) -> None:
    """Run a task, and cancel it at these moments."""
    task = asyncio.ensure_future(perform(order, attempt))
    for moment in moments:
        await asyncio.wait([task], timeout=moment)
        attempt.cancels += task.cancel()
    await ended(task, attempt)


async def cancel_at_random(order: Any, direct: Any, count: int, draw: random.Random) -> list[Attempt]:
    """Run tasks, many at a time, until that many were cancelled at a random moment, one in five up to three times."""
    attempts: list[Attempt] = []

    async def work() -> None:
        while sum(attempt.cancels > 0 for attempt in attempts) < count:
            attempt = Attempt(f"{count}-{len(attempts)}", draw.choice(list(BLOCKS)))
            attempts.append(attempt)
            again = [draw.uniform(0, 0.1) for _ in range(draw.choice((0,) * 8 + (1, 2)))]
            await asyncio.to_thread(create, direct, attempt)
            await _cancelled(order, attempt, [draw.uniform(0, LONGEST_RUN), *again])

    with logged(attempts):
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, count)):
                group.create_task(work())
    return attempts


def delayed(draw: random.Random) -> Callable[[str, object, int], Action]:
    """Return the rule of a network that delays every request, and loses one answer in a hundred."""

    def rule(_target: str, _body: object, _ordinal: int) -> Action:
        return DropResponse() if draw.random() < 0.01 else Delay(draw.uniform(0, LONGEST_DELAY))

    return rule


def run(count: int, seed: int) -> tuple[list[tuple[Attempt, Found]], list[str]]:
    """Have that many runs cancelled; return what is known about each, and what was broken."""
    engine, draw = start(), random.Random(seed)
    try:
        order = orders(engine.endpoint, f"cancels-{seed}")
        order.create_table(wait=True)
        with Proxy(engine.endpoint) as proxy:
            proxy.rule = delayed(draw)
            behind = orders(proxy.endpoint, f"cancels-{seed}")
            attempts = asyncio.run(cancel_at_random(behind, order, count, draw))
            close(behind)
        rows = [(attempt, found(order, attempt.task_id)) for attempt in attempts]
        close(order)
    finally:
        engine.stop()
    return rows, [f"{problem}\n    {attempt}\n    {row}" for attempt, row in rows for problem in problems(attempt, row)]


def main() -> int:
    """Run once, and print what happened."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.cancellations", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("--count", type=int, default=500, help="how many runs are cancelled")
    parser.add_argument("--seed", type=int, default=0, help="drawn unless given")
    told = parser.parse_args()
    prepare_process()
    logging.lastResort = None
    seed = told.seed or secrets.randbelow(10**9) + 1
    sys.stdout.write(f"seed {seed}\n")
    begun = time.monotonic()
    rows, broken = run(told.count, seed)
    states = Counter(row.state for _, row in rows)
    sys.stdout.write(
        f"{len(rows)} runs in {time.monotonic() - begun:.0f} s; cancelled: "
        f"{sum(attempt.cancels > 0 for attempt, _ in rows)}; finished blocks: "
        f"{sum(attempt.finished for attempt, _ in rows)}; with a note or a line: "
        f"{sum(bool(attempt.lines or attempt.notes) for attempt, _ in rows)}\nstates: {dict(states)}\n"
    )
    for problem in broken:
        sys.stdout.write(f"VIOLATION: {problem}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
