"""How a run ended is recorded, whatever fails: a table of faults, ends and kinds of run, with more or less time left.

In each row, the block runs once if its end could have been recorded, what is said is true, and half a second of a
Lambda invocation is left.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, cycle
from typing import Any, Literal

import pytest

from pynamodb_tracker import RetryLater
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.dynamodb.write_batcher import batcher_for
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.work.attempt import Attempt
from pynamodb_tracker.work.threads import in_threads
from tests.aws_lambda.shop import Context
from tests.support.jobs import LOCK, Job, jobs
from tests.support.sdk_faults import FAULTS, ONE_OF_EACH_KIND, Fault, Sdk

SILENCE = timedelta(seconds=1)
"""How long the shortest request takes that nobody answers."""


class Broken(Exception):  # noqa: N818 - a user's own
    """The block fails."""


@pytest.fixture(scope="module")
def sdk(request: pytest.FixtureRequest) -> Iterator[Sdk]:
    with jobs(request, retries=0) as sdk:
        yield sdk


End = Callable[[Any, Callable[[], None]], None]
"""Ends the block, given its context, and what is called at its end: from then on, writes fail."""


def success(_ctx: Any, arm: Callable[[], None]) -> None:
    arm()


def success_with_a_follow_up(ctx: Any, arm: Callable[[], None]) -> None:
    ctx.create(Job, f"after {ctx.task.task_id}", due_time=timedelta(days=9))
    arm()


def success_in_a_transaction(ctx: Any, arm: Callable[[], None]) -> None:
    with ctx.transaction(succeed=True):
        arm()


def failure(_ctx: Any, arm: Callable[[], None]) -> None:
    arm()
    raise Broken


def postponement(_ctx: Any, arm: Callable[[], None]) -> None:
    arm()
    raise RetryLater(timedelta(days=9), use_attempt=False)


def release(_ctx: Any, arm: Callable[[], None]) -> None:
    arm()
    raise KeyboardInterrupt


def extension(ctx: Any, arm: Callable[[], None]) -> None:
    arm()
    ctx.extend_lock()


def transaction(ctx: Any, arm: Callable[[], None]) -> None:
    arm()
    with ctx.transaction():
        pass


ENDS: dict[End, str] = {
    success: "after pending",
    success_with_a_follow_up: "after pending",
    success_in_a_transaction: "after pending",
    failure: "work failed",
    postponement: "work failed",
    release: "work pending",
    extension: "after pending",
    transaction: "after pending",
}
"""How a block ends, and where that leads its task."""

READ_AFTERWARDS = {success_with_a_follow_up, success_in_a_transaction}
"""What is in a transaction: the row tells afterwards whether that was applied, and late copies of it are refused."""
BEFORE_END = {extension, transaction}
"""What a block sends itself, before its end."""
IN_BLOCK = {success_in_a_transaction, *BEFORE_END}
"""If that fails for good, the block does, and is recorded as failed if that can be."""

Run = Callable[[str, Callable[[Any], None], Context], None]


def blocking(task_id: str, block: Callable[[Any], None], _context: Context) -> None:
    Job.work.run(task_id, block)


def pool(task_id: str, block: Callable[[Any], None], _context: Context) -> None:
    batcher = batcher_for(2)

    def attempt(given: str) -> None:
        found = Attempt(Job.work._definition.codes, given)
        found.batcher = batcher
        found.execute(Job.work.start, block)

    in_threads(attempt, [task_id], 2)


def handler(task_id: str, block: Callable[[Any], None], context: Context) -> None:
    handles(Job.work, task_id="id")(lambda ctx, _: block(ctx))({"id": task_id}, context)


def on_a_loop(task_id: str, block: Callable[[Any], None], _context: Context) -> None:
    """Run the block within a coroutine; for what it sends itself, that of a thread is enough: see test_runs."""

    async def run() -> None:
        with suppress(KeyboardInterrupt):
            async with Job.work.astart(task_id) as ctx:
                block(ctx._blocking)

    asyncio.run(run())


LOCKED = (blocking, on_a_loop, pool)
"""What only the lock ends."""

Time = Literal["minutes", "seconds", "none"]

SOON: tuple[Time, bool] = ("minutes", True)
AT_LAST: tuple[Time, bool] = ("seconds", True)
NEVER: tuple[Time, bool] = ("seconds", False)
TOO_LATE: tuple[Time, bool] = ("none", True)
TIMES: tuple[tuple[Time, bool], ...] = (SOON, AT_LAST, NEVER, TOO_LATE, ("none", False))
"""NEVER has minutes in few rows: it is the same then, with many more tries."""


@dataclass
class Row:
    run: Run
    end: End
    fault: Fault
    time: Time
    passes: bool

    def __str__(self) -> str:
        how = "passes" if self.passes else "stays"
        return f"{self.run.__name__}, {self.end.__name__}, {self.fault}, {self.time} left, {how}"


numbers = count()


def check(row: Row, sdk: Sdk, clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    """Let a task fail as the row says; then let its lock expire, and run it again where that is possible."""
    task_id, blocks, armed_at, left_after = f"t-{next(numbers)}", list[Any](), list[Any](), list[int]()
    Job.create(task_id)
    caplog.clear()
    context = Context(clock, seconds=LOCK.total_seconds() - 1)  # the lock lasts a second longer
    left = {"minutes": LOCK - timedelta(seconds=9), "seconds": timedelta(seconds=6), "none": timedelta(seconds=-1)}

    def arm() -> None:
        armed_at.append(clock.now())
        sdk.fails(row.fault, {"minutes": 6, "seconds": 3, "none": 1}[row.time] if row.passes else 1_000)

    def block(ctx: Any) -> None:
        blocks.append(ctx.attempt)
        clock.advance(LOCK - left[row.time])
        try:
            row.end(ctx, arm)
        finally:
            left_after.append(context.get_remaining_time_in_millis())

    sdk.on_silence = lambda: clock.advance(SILENCE)
    with suppress(BaseException):
        row.run(task_id, block, context)
    failures = sdk.failures
    sdk.fails(None)

    state, expected = str(Job.get_task(task_id).state), ENDS[row.end]
    is_sent_again = row.passes and row.time != "none"
    is_unheard = row.fault.kind == "unheard"
    is_unsent = row.run is handler and row.end in BEFORE_END and left_after[0] < 1_500  # no time to record the failure
    is_applied = is_unheard and not is_unsent
    if row.end in IN_BLOCK and state == "work failed":  # by then, the writes pass, or are applied
        assert row.time == "none" or is_unheard, str(row)
        expected = state
    could_be = is_sent_again or is_applied or expected == "work failed" == state != ENDS[row.end]
    assert (state == expected) is could_be, f"{row}: {state} after {failures} failures"
    assert blocks == [1], str(row)
    check_time(row, failures, clock, context, armed_at[0])
    if is_applied and not is_sent_again:
        assert not any(" was not recorded:" in text for text in caplog.messages), str(row)
    else:
        is_over = row.run is handler and row.time == "none"
        is_read = row.end in READ_AFTERWARDS and row.passes and not is_over
        is_in_doubt = row.fault.may_be_applied and not is_unsent and not is_read
        check_texts(row, caplog, is_known=could_be, is_in_doubt=is_in_doubt)
    if row.end is success and expected == state:
        clock.advance(LOCK * 2)
        with suppress(Exception):
            Job.work.run(task_id, lambda ctx: blocks.append(ctx.attempt))
        assert blocks == [1], f"{row}: the work was done twice"


def check_time(row: Row, failures: int, clock: StoppedClock, context: Context, armed: Any) -> None:
    if row.time == "none":  # a write, one that keeps late copies of it out, and one of the failure
        assert failures <= (1 if row.run is handler else 3), f"{row}: {failures} requests"
    elif row.run is handler:
        assert context.get_remaining_time_in_millis() >= 500, str(row)
    assert clock.now() - armed <= LOCK, str(row)


def check_texts(row: Row, caplog: pytest.LogCaptureFixture, *, is_known: bool, is_in_doubt: bool) -> None:
    """Check that one warning names the reason, and that what is said of the end is true."""
    texts = [record.getMessage() for record in caplog.records if record.name == "pynamodb_tracker"]
    errors = [text for text in texts if " was not recorded:" in text or "may have been recorded" in text]
    if is_known:
        assert errors == [], f"{row}: {texts}"
    if is_known and row.time != "none":
        assert sum("could not be recorded yet" in text for text in texts) == 1, f"{row}: {texts}"
        assert sum(" was recorded after " in text for text in texts) == 1, f"{row}: {texts}"
    if not is_known:
        assert len(errors) == 1, f"{row}: {texts}"
        assert ("may have been recorded" in errors[0]) is is_in_doubt, f"{row}: {errors}"


def walk(rows: list[Row], sdk: Sdk, clock: StoppedClock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pynamodb_tracker"):
        for row in rows:
            check(row, sdk, clock, caplog)


def test_an_end_is_recorded_while_there_is_time_whatever_fails(
    sdk: Sdk, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [Row(blocking, success, fault, *time) for fault in FAULTS for time in (SOON, NEVER)]
    walk(rows, sdk, stopped_clock, caplog)


@pytest.mark.parametrize("fault", ONE_OF_EACH_KIND, ids=str)
def test_every_end_is_recorded_while_the_lock_lasts(
    fault: Fault, sdk: Sdk, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    soon = [Row(run, end, fault, *SOON) for run in LOCKED for end in ENDS]
    run = cycle(LOCKED)  # they share the other rows, in all pairs, because the same code ends their tries
    others = [Row(next(run), end, fault, *time) for time in TIMES if time != SOON for end in ENDS]
    walk([*soon, *others, Row(blocking, success, fault, "minutes", passes=False)], sdk, stopped_clock, caplog)


@pytest.mark.parametrize("fault", ONE_OF_EACH_KIND, ids=str)
def test_every_end_is_recorded_while_the_invocation_lasts(
    fault: Fault, sdk: Sdk, stopped_clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [Row(handler, end, fault, *time) for end in ENDS for time in TIMES]
    walk([*rows, Row(handler, success, fault, "minutes", passes=False)], sdk, stopped_clock, caplog)
