"""Runs that are interrupted or cancelled, and the promises about them.

tests/contract/runs/test_interrupts.py interrupts blocking runs at any line. tests/aio/test_every_await.py cancels runs
on an event loop at every await, and tests/race/test_cancels.py at random moments behind a slow network. All of them
compare each run with its row:

- a finished block is recorded as a success, or a note or a log line says that it is not
- a task is in progress only if a note or a log line says that it may be locked
- no attempt is lost: the row shows the run's end, or a note or a log line says otherwise
- a cancelled run that has not finished is released: its task is pending, and no attempt is used
- a cancel is never swallowed, and a run that nobody cancelled never raises one
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pynamodb_tracker.work import attempt as attempts
from tests.chaos.outcomes import notes_of
from tests.engine.actions import Action, Delay, DropResponse
from tests.support.operations import Boom

LONGEST_DELAY = 0.06
"""Seconds by which the proxy delays a request at most."""

LONGEST_ASYNC_RUN = 0.3
"""Seconds within which half of the asyncio runs end, and a cancel comes."""

AT_ONCE = 20
"""How many asyncio runs there are at a time."""

ENDED = {
    "fail": "Boom",
    "child": "CancelledError",
    "child after a cancel": "CancelledError",
    "timeout": "TimeoutError",
    "refused": "TaskAlreadySucceededError",
}
"""By block, its end if nobody cancels it. All others succeed."""

HELD = "confirm in_progress"
FAILED = "confirm failed"
DONE = "ship pending"


class Interrupted(Exception):  # noqa: N818 - a user's own
    """A time limit's exception, raised by a signal handler."""


@dataclass
class Attempt:
    """The facts about one run, apart from its row."""

    task_id: str
    block: str
    kind: str
    """ctrl-c, handler, or cancel."""
    before: str = "confirm pending"
    """The task's state before the run."""
    strikes: int = 0
    """Interrupts or cancels that arrived before the end."""
    entered: bool = False
    finished: bool = False
    raised: str = ""
    """The type of an exception that a coroutine raised by itself, and the run recorded or was about to record."""
    error: str = ""
    """The type of the exception that left."""
    notes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Log lines about the task, from warnings on."""


@dataclass(frozen=True)
class Found:
    state: str
    attempt: int
    errors: list[str]


def found(order: Any, task_id: str) -> Found:
    row = order.get_task(task_id)
    return Found(str(row.state), row.attempt, [failure.type for failure in row.errors])


def create(order: Any, attempt: Attempt) -> None:
    if attempt.block == "refused":
        attempt.before = DONE
    order.create(attempt.task_id, state=order.ship.pending if attempt.before == DONE else None)


class Lines(logging.Handler):
    """Keeps the log lines about each attempt's task."""

    def __init__(self, attempts: list[Attempt]) -> None:
        super().__init__(logging.WARNING)
        self._attempts = attempts

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        for attempt in self._attempts:
            if repr(attempt.task_id) in line or getattr(record, "task_id", "") == attempt.task_id:
                attempt.lines.append(line)


@contextlib.contextmanager
def logged(attempts: list[Attempt]) -> Iterator[None]:
    log, lines = logging.getLogger("pynamodb_tracker"), Lines(attempts)
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)


def delayed(draw: random.Random) -> Callable[[str, object, int], Action]:
    """Return a network rule that delays every request, and loses one response in a hundred."""

    def rule(_target: str, _body: object, _ordinal: int) -> Action:
        return DropResponse() if draw.random() < 0.01 else Delay(draw.uniform(0, LONGEST_DELAY))

    return rule


def problems(attempt: Attempt, row: Found) -> Iterator[str]:
    told = [*attempt.notes, *attempt.lines]
    is_cancelled = attempt.kind == "cancel"
    if attempt.finished and row.state != DONE and not (told if is_cancelled else attempt.lines):
        yield "a finished block is not recorded, and nothing says so"
    if row.state == HELD and not any("locked" in line or "taken over" in line for line in told):
        yield "the task is locked, and nothing says so"
    if is_cancelled:
        yield from _swallowed(attempt)
    if not told:
        yield from (_untold_after_a_cancel if is_cancelled else _untold_after_an_interrupt)(attempt, row)


def _untold_after_an_interrupt(attempt: Attempt, row: Found) -> Iterator[str]:
    if not attempt.entered and (row.state, row.attempt) != ("confirm pending", 0):
        yield "the block was not entered, and the attempt was not given back"
    is_stop = attempt.kind == "ctrl-c"  # which releases the task
    if attempt.entered and not attempt.finished and row.state == "confirm pending" and not is_stop:
        yield "an attempt that ended with an exception was not counted"
    if row.state == FAILED and (row.attempt, len(row.errors)) != (1, 1):
        yield "a failure was recorded, and its attempt or its error is missing"
    if not attempt.strikes and attempt.block != "fail" and row.state != DONE:
        yield "nothing interrupted the run, and it did not succeed"


def _swallowed(attempt: Attempt) -> Iterator[str]:
    cleaned_up = attempt.block == "tidy" and attempt.error == attempt.raised  # which its own request kept it from
    if attempt.strikes and attempt.error != "CancelledError" and not cleaned_up:
        yield f"a cancel was swallowed: {attempt.error or 'nothing'} left"
    if not attempt.strikes and attempt.error == "CancelledError" and attempt.raised != "CancelledError":
        yield "a cancel left from a task that nobody cancelled"


def _untold_after_a_cancel(attempt: Attempt, row: Found) -> Iterator[str]:
    if row.state == FAILED and (row.attempt, row.errors) != (1, [attempt.raised]):
        yield "a failure was recorded that is not the block's own"
    if attempt.raised and row.state != FAILED:
        yield "the block failed by itself, and that is not recorded"
    is_committed = attempt.block == "transaction" and row.state == DONE  # before the cancel took effect
    is_as_before = (row.state, row.attempt, row.errors) == (attempt.before, 0, [])
    if not (attempt.finished or attempt.raised or is_committed or is_as_before):
        yield "a cancelled run was not released"
    if not attempt.strikes and attempt.error != (attempt.raised or ENDED.get(attempt.block, "")):
        yield f"nobody cancelled the run, and {attempt.error or 'nothing'} left"


# Blocking runs, which are interrupted.


def plain(_ctx: Any) -> None:
    time.sleep(0.005)


def saving(ctx: Any) -> None:
    ctx.task.note = "half way"
    ctx.save()
    ctx.task.note = "done"


def booking(ctx: Any) -> None:
    with ctx.transaction(succeed=True):
        ctx.task.note = "booked"


def large(ctx: Any) -> None:
    ctx.task.data["scan"] = "page " * 10_000


def failing(_ctx: Any) -> None:
    raise Boom("it broke")


BLOCKS: dict[str, Callable[[Any], None]] = {
    "plain": plain,
    "save": saving,
    "extend": lambda ctx: ctx.extend_lock(),
    "transaction": booking,
    "follow-up": lambda ctx: ctx.create(type(ctx.task), f"{ctx.task.task_id}/next"),
    "large": large,
    "fail": failing,
    "heartbeat": plain,
    "run": plain,
    "batch": plain,
}


def perform(order: Any, attempt: Attempt) -> None:

    def function(ctx: Any) -> None:
        attempt.entered = True
        BLOCKS[attempt.block](ctx)
        attempt.finished = True

    match attempt.block:
        case "run":
            order.confirm.run(attempt.task_id, function)
        case "batch":  # as batches, workers and handlers of Lambda do
            one = attempts.Attempt(order.confirm._definition.codes, attempt.task_id)
            one.execute(order.confirm.start, function)
            if one.error is not None:
                raise one.error
        case block:
            with order.confirm.start(attempt.task_id, heartbeat=block == "heartbeat") as ctx:
                function(ctx)


# Runs on an event loop, which are cancelled.


async def aplain(_ctx: Any) -> None:
    await asyncio.sleep(0)


async def asaving(ctx: Any) -> None:
    ctx.task.note = "half way"
    await ctx.save()
    ctx.task.note = "done"


async def aextending(ctx: Any) -> None:
    await ctx.extend_lock()


async def abooking(ctx: Any) -> None:
    async with ctx.transaction(succeed=True):
        ctx.task.note = "booked"


async def checking(ctx: Any) -> None:
    async with ctx.transaction():
        await asyncio.sleep(0)


async def alarge(ctx: Any) -> None:
    ctx.task.data["scan"] = "page " * 10_000


async def afailing(_ctx: Any) -> None:
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
    """End by a cancel inside the block."""
    child = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    child.cancel()
    await child


async def timing_out(_ctx: Any) -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


ASYNC_BLOCKS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "plain": aplain,
    "save": asaving,
    "extend": aextending,
    "transaction": abooking,
    "check": checking,
    "large": alarge,
    "fail": afailing,
    "tidy": tidying,
    "child": losing_a_child,
    "child after a cancel": losing_a_child,
    "timeout": timing_out,
    "heartbeat": aplain,
    "run": aplain,
    "refused": aplain,
}


async def aperform(order: Any, attempt: Attempt) -> None:
    task = asyncio.current_task()
    assert task is not None
    if attempt.block == "child after a cancel":  # which the program has caught, and not taken back
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if attempt.strikes:
            raise asyncio.CancelledError
    before = task.cancelling()

    async def function(ctx: Any) -> None:
        attempt.entered = True
        try:
            await ASYNC_BLOCKS[attempt.block](ctx)
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
    try:
        await asyncio.shield(task)
    except BaseException as error:  # noqa: BLE001 - kept for the check
        attempt.error = type(error).__name__
        attempt.notes = list(notes_of(error))


async def _cancelled(order: Any, attempt: Attempt, moments: list[float]) -> None:
    task = asyncio.ensure_future(aperform(order, attempt))
    for moment in moments:
        await asyncio.wait([task], timeout=moment)
        attempt.strikes += task.cancel()
    await ended(task, attempt)


async def cancel_at_random(order: Any, direct: Any, count: int, draw: random.Random) -> list[Attempt]:
    """Run many tasks at a time until that many were cancelled at a random moment, one in five up to three times."""
    attempts: list[Attempt] = []

    async def work() -> None:
        while sum(attempt.strikes > 0 for attempt in attempts) < count:
            attempt = Attempt(f"{count}-{len(attempts)}", draw.choice(list(ASYNC_BLOCKS)), "cancel")
            attempts.append(attempt)
            again = [draw.uniform(0, 0.1) for _ in range(draw.choice((0,) * 8 + (1, 2)))]
            await asyncio.to_thread(create, direct, attempt)
            await _cancelled(order, attempt, [draw.uniform(0, LONGEST_ASYNC_RUN), *again])

    with logged(attempts):
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, count)):
                group.create_task(work())
    return attempts
