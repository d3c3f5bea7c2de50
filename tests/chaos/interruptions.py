"""Interrupts at random moments: python -m tests.chaos.interruptions --count N --seed N; ends with 1 on a violation.

Processes run tasks through a proxy that delays each request, while a thread of each interrupts its main thread: by
Ctrl-C, by an exception or a SystemExit of a signal handler, and by one that is set for the thread. Afterwards, once the
last request has arrived, each run is compared with its row:

- a finished block is recorded as a success, or a line of the log says that it is not;
- a task is in progress only if the error has a note, or the log a line, that says that it may be locked;
- no attempt is lost: what the run did is what the row says, or a note or a line says otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import logging
import multiprocessing
import random
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from pynamodb_tracker.batch.batch import TaskAttempt
from tests.conftest import prepare_process
from tests.engine.actions import Action, Delay, DropResponse
from tests.engine.engine import start
from tests.engine.proxy import Proxy
from tests.support.operations import Boom
from tests.support.orders import close, orders

__all__ = ["KINDS", "SCENARIOS", "Attempt", "Interrupted", "problems"]

LONGEST_DELAY = 0.06
"""Seconds by which the proxy delays a request at most."""

SETTLED = 1.0
"""Seconds after which the last request of all has arrived."""

LONGEST_RUN = 0.15
"""Seconds within which most runs end; an interrupt comes at any time until then."""

HELD = "confirm in_progress"

AT_MOST = 900.0
"""Seconds after which a process that has not ended is ended."""


class Interrupted(Exception):  # noqa: N818 - a user's own
    """What a signal handler raises at a time limit."""


@dataclass
class Attempt:
    """What is known about one run, apart from its row."""

    task_id: str
    scenario: str
    kind: str
    shots: int = 0
    """How many interrupts have arrived."""
    entered: bool = False
    finished: bool = False
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


# The blocks. Each says when it has been entered, and when it has finished.


def plain(_ctx: Any) -> None:
    time.sleep(0.005)


def saving(ctx: Any) -> None:
    ctx.task.note = "half way"
    ctx.save()
    ctx.task.note = "done"


def extending(ctx: Any) -> None:
    ctx.extend_lock()


def booking(ctx: Any) -> None:
    with ctx.transaction(succeed=True):
        ctx.task.note = "booked"


def following(ctx: Any) -> None:
    ctx.create(type(ctx.task), f"{ctx.task.task_id}/next")


def large(ctx: Any) -> None:
    ctx.task.data["scan"] = "page " * 10_000


def failing(_ctx: Any) -> None:
    raise Boom("it broke")


Block = Callable[[Any], None]

SCENARIOS: dict[str, Block] = {
    "plain": plain,
    "save": saving,
    "extend": extending,
    "transaction": booking,
    "follow-up": following,
    "large": large,
    "fail": failing,
    "heartbeat": plain,
    "run": plain,
    "batch": plain,
}

KINDS = ("ctrl-c", "handler", "exit", "thread")


def perform(order: Any, attempt: Attempt, block: Block) -> None:
    """Run the block on the task, in the way of the scenario."""

    def function(ctx: Any) -> None:
        attempt.entered = True
        block(ctx)
        attempt.finished = True

    match attempt.scenario:
        case "run":
            order.confirm.run(attempt.task_id, function)
        case "batch":  # as batches, workers and handlers of Lambda do
            one: TaskAttempt[Any] = TaskAttempt(order.confirm._definition.codes, attempt.task_id)
            one.execute(order.confirm.start, function)
            if one.error is not None:
                raise one.error
        case scenario:
            with order.confirm.start(attempt.task_id, heartbeat=scenario == "heartbeat") as ctx:
                function(ctx)


class Gun(threading.Thread):
    """Interrupts the main thread once or twice, unless the run has ended before."""

    def __init__(self, attempt: Attempt, moments: list[float]) -> None:
        super().__init__(daemon=True)
        self._attempt = attempt
        self._moments = moments
        self._target = threading.get_ident()
        self._ended = threading.Event()
        self.is_armed = True

    def run(self) -> None:
        """Fire at these moments."""
        for moment in self._moments:
            if self._ended.wait(moment):
                return
            self._fire()

    def stop(self) -> None:
        """Fire no more; an interrupt that is on its way is ignored by `handle`, or raised here."""
        self._ended.set()
        self.join()
        for _ in range(3):
            time.sleep(0)  # an exception that was set for the thread is raised now

    def _fire(self) -> None:
        if self._attempt.kind == "thread":
            self._attempt.shots += 1
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), ctypes.py_object(Interrupted))
        else:
            signal.pthread_kill(self._target, SIGNALS[self._attempt.kind])


SIGNALS = {"ctrl-c": signal.SIGINT, "handler": signal.SIGALRM, "exit": signal.SIGTERM}
ERRORS = {signal.SIGINT: KeyboardInterrupt, signal.SIGALRM: Interrupted, signal.SIGTERM: SystemExit}


class Range:
    """Runs tasks in the main thread of a process, and interrupts each."""

    def __init__(self, endpoint: str, direct: str, table: str, seed: str) -> None:
        self.random = random.Random(seed)
        self.order = orders(endpoint, table)
        self.direct = orders(direct, table)
        self.attempts: list[Attempt] = []
        self.gun: Gun | None = None
        for number in ERRORS:
            signal.signal(number, self.handle)
        sys.unraisablehook = lambda _: None  # what is raised in the callback of a weak reference changes nothing
        log = logging.getLogger("pynamodb_tracker")
        log.propagate = False
        log.addHandler(Lines(self))

    def handle(self, number: int, _frame: object) -> None:
        """Raise what the signal means, if a run is to be interrupted."""
        if self.gun is not None and self.gun.is_armed:
            self.attempts[-1].shots += 1
            raise ERRORS[signal.Signals(number)]

    def interrupt(self, task_id: str) -> None:
        """Run a task, and interrupt it at a random moment, one time in ten twice."""
        scenario = self.random.choice(list(SCENARIOS))
        kind = self.random.choice(KINDS)
        if (scenario, kind) == ("heartbeat", "thread"):
            kind = "handler"  # a thread that starts has the id of the one that starts it, which then waits for ever
        attempt = Attempt(task_id, scenario, kind)
        self.attempts.append(attempt)
        self.direct.create(task_id)
        moments = [self.random.uniform(0, LONGEST_RUN)]
        if self.random.random() < 0.1:
            moments.append(self.random.uniform(0, 0.1))
        try:
            self._run(attempt, moments)
        except BaseException as late:
            if not isinstance(late, Interrupted):
                raise

    def _run(self, attempt: Attempt, moments: list[float]) -> None:
        gun = self.gun = Gun(attempt, moments)
        try:
            gun.start()
            perform(self.order, attempt, SCENARIOS[attempt.scenario])
        except BaseException as error:  # noqa: BLE001 - whatever it is
            gun.is_armed = False
            attempt.error = type(error).__name__
            attempt.notes = list(notes_of(error))
        finally:
            gun.is_armed = False
            gun.stop()


def notes_of(error: BaseException | None) -> Iterator[str]:
    """Yield the notes of an exception, and of those that it followed."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__


class Lines(logging.Handler):
    """Keeps what the log says, with the last attempt."""

    def __init__(self, of: Range) -> None:
        super().__init__(logging.WARNING)
        self._range = of

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        for attempt in self._range.attempts[-3:]:
            if repr(attempt.task_id) in record.getMessage() or getattr(record, "task_id", "") == attempt.task_id:
                attempt.lines.append(record.getMessage())


def problems(attempt: Attempt, found: Found) -> Iterator[str]:
    """Yield what a run and its row, taken together, break."""
    told = [*attempt.notes, *attempt.lines]
    is_done, is_held = found.state == "ship pending", found.state == HELD
    if attempt.finished and not is_done and not attempt.lines:
        yield "a finished block is not recorded, and no line of the log says so"
    if is_held and not any("locked" in line or "taken over" in line for line in told):
        yield "the task is locked, and nothing says so"
    if told:
        return
    counted = found.attempt
    if not attempt.entered and (found.state, counted) != ("confirm pending", 0):
        yield "the block was not entered, and the attempt was not given back"
    if attempt.entered and not attempt.finished and found.state == "confirm pending" and attempt.kind != "ctrl-c":
        yield "an attempt that ended with an exception was not counted"
    if found.state == "confirm failed" and (counted, len(found.errors)) != (1, 1):
        yield "a failure was recorded, and its attempt or its error is missing"
    if not attempt.shots and attempt.scenario != "fail" and not is_done:
        yield "nothing interrupted the run, and it did not succeed"


def shoot(endpoints: tuple[str, str], table: str, seed: str, count: int, answer: Connection) -> None:
    """Be one process: run tasks until that many were interrupted, and send what is known about each."""
    prepare_process()
    of, struck, number = Range(*endpoints, table, seed), 0, 0
    while struck < count:
        of.interrupt(f"{seed}-{number}")
        struck += of.attempts[-1].shots > 0
        number += 1
    of.gun = None
    answer.send(of.attempts)


def run(count: int, seed: int, processes: int) -> tuple[list[tuple[Attempt, Found]], list[str]]:
    """Have that many runs interrupted; return what is known about each, and what was broken."""
    engine, spawn = start(), multiprocessing.get_context("spawn")
    delays = random.Random(seed)

    def delayed(_target: str, _body: object, _ordinal: int) -> Action:
        return DropResponse() if delays.random() < 0.01 else Delay(delays.uniform(0, LONGEST_DELAY))

    try:
        table = f"interrupts-{seed}"
        order = orders(engine.endpoint, table)
        order.create_table(wait=True)
        with Proxy(engine.endpoint) as proxy, contextlib.ExitStack() as stack:
            proxy.rule = delayed
            answers = []
            for number in range(processes):
                answer, sender = spawn.Pipe(duplex=False)
                share = count // processes + (number < count % processes)
                own = ((proxy.endpoint, engine.endpoint), table, f"{seed}-{number}", share, sender)
                process = spawn.Process(target=shoot, args=own, daemon=True)
                process.start()
                sender.close()
                stack.callback(process.kill)
                answers.append(answer)
            attempts = [attempt for answer in answers for attempt in _received(answer)]
            time.sleep(SETTLED)
            rows = [(attempt, _found(order, attempt.task_id)) for attempt in attempts]
        close(order)
    finally:
        engine.stop()
    broken = [
        f"{problem}\n    {attempt}\n    {found}" for attempt, found in rows for problem in problems(attempt, found)
    ]
    if sum(attempt.shots > 0 for attempt in attempts) < count:
        broken.append(f"fewer than {count} runs were interrupted: a process has not answered")
    return rows, broken


def _received(answer: Connection) -> list[Attempt]:
    try:
        return list(answer.recv()) if answer.poll(AT_MOST) else []
    except EOFError:
        return []


def _found(order: Any, task_id: str) -> Found:
    row = order.get_task(task_id)
    return Found(str(row.state), row.attempt, [failure.type for failure in row.errors])


def main() -> int:
    """Run once, and print what happened."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.interruptions", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("--count", type=int, default=2000, help="how many runs are interrupted")
    parser.add_argument("--seed", type=int, default=0, help="drawn unless given")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--verbose", action="store_true", help="print what is said about tasks that stay locked")
    told = parser.parse_args()
    prepare_process()
    seed = told.seed or secrets.randbelow(10**9) + 1
    sys.stdout.write(f"seed {seed}\n")
    begun = time.monotonic()
    rows, broken = run(told.count, seed, told.processes)
    states = Counter(found.state for _, found in rows)
    struck = Counter(attempt.kind for attempt, _ in rows if attempt.shots)
    silent = sum(1 for attempt, _ in rows if attempt.lines or attempt.notes)
    sys.stdout.write(
        f"{len(rows)} runs in {time.monotonic() - begun:.0f} s; interrupted: {dict(struck)}; "
        f"finished blocks: {sum(attempt.finished for attempt, _ in rows)}; with a note or a line: {silent}\n"
        f"states: {dict(states)}\n"
    )
    for attempt, found in rows if told.verbose else ():
        if found.state == HELD:
            sys.stdout.write(f"{attempt}\n")
    for problem in broken:
        sys.stdout.write(f"VIOLATION: {problem}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
