"""Limits under fire: worker processes that are killed each second, and a bank that counts how many call it at once.

    python -m tests.chaos.limits [--seconds 60] [--lifetime 30] [kills two rate]

kills  8 processes of 4 threads, a limit of 3: never more than 3, and all 3 again once what the dead have held is free.
two    two limits of 3 and 2, and two steps: both go on all the time.
rate   four threads, a limit of 500 and none: tasks a second, and requests a task.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from pynamodb_tracker import ConcurrencyLimit, Step, UseCase, Worker
from pynamodb_tracker.control import limit, slots
from pynamodb_tracker.dynamodb.connection import SharedConnection
from tests.conftest import prepare_process
from tests.engine.engine import start
from tests.support.orders import table_at

__all__ = ["Bank", "Storm", "calls", "order_at"]

LOST = "its slot of the limit"
MARGIN = 0.5


def order_at(endpoint: str, table: str, at_once: dict[str, int | None]) -> Any:
    """Return a use case with a step for each of these limits; None for none."""
    at: Any = table_at(endpoint, table, timedelta(seconds=MARGIN))
    limits = {name: None if most is None else ConcurrencyLimit(name, most) for name, most in at_once.items()}

    class Order(at):  # type: ignore[misc]  # a class of this call
        use_case_id = UseCase("order")
        pay = Step(100, max_attempts=1000, lock_for=timedelta(seconds=5), concurrency_limit=limits.get("pay"))
        ship = Step(200, max_attempts=1000, lock_for=timedelta(seconds=5), concurrency_limit=limits.get("ship"))

    return Order


@dataclass
class Bank:
    """Notes in a file when each call begins and ends; a line is written at once, whoever dies then."""

    file: Path

    def note(self, *words: object) -> None:
        """Write a line, with the time that all processes of the machine share."""
        line = json.dumps([time.monotonic(), os.getpid(), *words]) + "\n"
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)

    def lines(self) -> list[list[Any]]:
        """Return what was noted, in the order of time."""
        text = self.file.read_text() if self.file.exists() else ""
        return sorted(json.loads(line) for line in text.splitlines())


def work(settings: dict[str, Any]) -> None:
    """Be a worker process, until it is killed."""
    prepare_process()
    _live_for(settings["lifetime"])
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="%(message)s")
    bank = Bank(Path(settings["file"]))
    order = order_at(settings["endpoint"], settings["table"], settings["limits"])

    def call(step: str) -> Any:
        def run(ctx: Any) -> None:
            bank.note("begin", step, threading.get_ident(), ctx.task.task_id)
            time.sleep(settings["call"])
            bank.note("end", step, threading.get_ident(), ctx.task.task_id)

        return run

    bank.note("ready")
    while not Path(settings["go"]).exists():
        time.sleep(0.1)
    threading.Thread(target=_end_without, args=(os.getppid(),), daemon=True).start()
    steps = {getattr(order, name): call(name) for name in settings["limits"]}
    Worker(steps, threads=settings["threads"], max_poll_interval=timedelta(seconds=1)).run()


def _end_without(parent: int) -> None:
    """End as soon as the program that started this process is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _live_for(seconds: float) -> None:
    """Let slots live that long."""
    limit.LIFETIME = lifetime = timedelta(seconds=seconds)
    vars(slots).update(LIFETIME=lifetime, USED_FOR=lifetime / 3)


@dataclass
class Storm:
    """Processes that work, and are killed."""

    endpoint: str
    limits: dict[str, int | None]
    folder: Path
    lifetime: float = 30.0
    processes: int = 8
    threads: int = 4
    call: float = 0.2
    table: str = field(default_factory=lambda: f"limits-{time.time_ns()}")

    def __post_init__(self) -> None:
        """Make the table, and begin."""
        self.bank = Bank(self.folder / "bank.jsonl")
        self.order = order_at(self.endpoint, self.table, self.limits)
        self.order.create_table(wait=True)
        self.kills = 0
        self._running: list[subprocess.Popen[bytes]] = []
        self._errors = (self.folder / "errors.txt").open("ab")

    def fill(self, tasks: int) -> None:
        """Create that many tasks at each step."""
        for name in self.limits:
            state = getattr(self.order, name).pending
            self.order.create_many(({"task_id": f"{name}-{n}", "state": state} for n in range(tasks)), threads=16)

    def start(self, go: Path | None = None) -> None:
        """Start as many processes as are missing; they work as soon as the file is there."""
        go = go or self.folder
        given = {name: getattr(self, name) for name in ("endpoint", "table", "limits", "lifetime", "threads", "call")}
        given |= {"file": str(self.bank.file), "go": str(go)}
        command = [sys.executable, "-m", "tests.chaos.limits", json.dumps(given)]
        while len(self._running) < self.processes:
            self._running.append(subprocess.Popen(command, stderr=self._errors))  # noqa: S603 - this module

    def others(self) -> Storm:
        """Return other processes, on the same table and with the same bank."""
        others = copy(self)
        others._running = []
        return others

    def wait_until_ready(self) -> None:
        """Wait until all have begun: starting Python takes long on a busy machine."""
        left = {process.pid for process in self._running}
        while left - {pid for _, pid, kind, *_ in self.bank.lines() if kind == "ready"}:
            time.sleep(0.5)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process, and note when it was gone."""
        process.kill()
        process.wait()
        self._running.remove(process)
        self.bank.note("gone", process.pid)

    def blow(self, seconds: float, every: float = 1.0) -> None:
        """Kill one process after the other, and start another one in its place, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(every)
            begun = {pid for _, pid, kind, *_ in self.bank.lines() if kind == "ready"}
            if ready := [process for process in self._running if process.pid in begun]:
                self.kill(random.choice(ready))
                self.kills += 1
            self.start()

    def end(self) -> None:
        """Kill all."""
        for process in list(self._running):
            self.kill(process)
        self._errors.flush()

    @property
    def outlived(self) -> int:
        """How many blocks have outlived their slots, by the log."""
        return (self.folder / "errors.txt").read_text().count(LOST)


def calls(lines: list[list[Any]]) -> list[tuple[float, float, str]]:
    """Return when each call began and ended, or its process was gone at the latest, and its step."""
    running: dict[tuple[int, int], tuple[float, str]] = {}
    found = []
    for at, pid, kind, *rest in lines:
        if kind == "begin":
            running[pid, rest[1]] = at, rest[0]
        elif kind == "end":
            began, step = running.pop((pid, rest[1]))
            found.append((began, at, step))
        elif kind == "gone":
            gone = [each for each in running if each[0] == rest[0]]
            found += [(*_with_end(running.pop(each), at),) for each in gone]
    return sorted(found)


def _with_end(began: tuple[float, str], end: float) -> tuple[float, float, str]:
    return began[0], end, began[1]


def most_at_once(found: list[tuple[float, float, str]], step: str) -> int:
    """Return how many calls of a step overlapped at most."""
    times = [(begin, 1) for begin, _, name in found if name == step]
    times += [(end, -1) for _, end, name in found if name == step]
    now = most = 0
    for _, change in sorted(times):
        now += change
        most = max(most, now)
    return most


def kills(endpoint: str, folder: Path, seconds: float, lifetime: float) -> Iterator[str]:
    """Kill one process each second; then all, and start others."""
    storm = Storm(endpoint, {"pay": 3}, folder, lifetime)
    storm.fill(int(30 * seconds) + 1000)
    storm.start()
    storm.wait_until_ready()
    storm.blow(seconds)
    found = calls(storm.bank.lines())
    most = most_at_once(found, "pay")
    yield f"kills: {storm.kills} kills in {seconds:.0f} s, {len(found)} calls, at most {most} at once, a limit of 3"
    others, go = storm.others(), folder / "go"
    others.start(go)
    others.wait_until_ready()
    storm.end()
    all_dead = time.monotonic()
    go.touch()
    full = None
    while full is None and time.monotonic() < all_dead + lifetime + 30:
        time.sleep(0.5)
        full = next(_when_full(storm.bank.lines(), all_dead, 3), None)
    others.end()
    after = "never" if full is None else f"{full - all_dead:.1f} s"
    yield f"kills: all 3 are used again {after} after all had died; a slot lives for {lifetime:.0f} s"
    found = calls(storm.bank.lines())
    yield f"kills: in all at most {most_at_once(found, 'pay')}, and {storm.outlived} calls outlived their slots"


def _when_full(lines: list[list[Any]], since: float, number: int) -> Iterator[float]:
    running = 0
    for at, _, kind, *_ in lines:
        if at > since:
            running += {"begin": 1, "end": -1}.get(kind, 0)
            if running >= number:
                yield at


def two(endpoint: str, folder: Path, seconds: float, lifetime: float) -> Iterator[str]:
    """Kill one process each second while all work at two steps, each with its limit."""
    storm = Storm(endpoint, {"pay": 3, "ship": 2}, folder, lifetime)
    storm.fill(int(20 * seconds) + 500)
    storm.start()
    storm.wait_until_ready()
    storm.blow(seconds)
    storm.end()
    found = calls(storm.bank.lines())
    for step, number in storm.limits.items():
        begins = [begin for begin, _, name in found if name == step]
        longest = max((later - earlier for earlier, later in pairwise(begins)), default=seconds)
        most = most_at_once(found, step)
        yield f"two: {step} {len(begins)} calls, at most {most} of {number} at once, longest wait {longest:.1f} s"
    yield f"two: {storm.kills} kills, {storm.outlived} calls outlived their slots"


def rate(endpoint: str, folder: Path, seconds: float, lifetime: float) -> Iterator[str]:  # noqa: ARG001 - as the others
    """Run tasks of 20 ms on four threads with a limit far above the need, and without one, in turns."""
    best = Counter[str]()
    for turn in range(3):
        for name, most in (("with", 500), ("without", None)):
            order = order_at(endpoint, f"rate-{name}-{turn}-{time.time_ns()}", {"pay": most})
            order.create_table(wait=True)
            order.create_many((f"o-{number}" for number in range(600)), threads=8)
            sent, began = list[str](), time.monotonic()
            with _noting(sent):
                Worker({order.pay: lambda _: time.sleep(0.02)}, threads=4).run(until_idle=True)
            took = time.monotonic() - began
            best[name] = max(best[name], int(1000 * 600 / took))
            about = sum('"#limit"' in request for request in sent)
            each = f"{len(sent) / 600:.3f} requests a task, {about / 600:.3f} of them about slots"
            yield f"rate: {name} a limit {600 / took:.0f} tasks/s, {each}"
    yield f"rate: the best with a limit is {100 * best['with'] / best['without']:.0f} % of the best without"


@contextmanager
def _noting(sent: list[str]) -> Iterator[None]:
    """Note each request of this process."""
    real = SharedConnection._make_api_call

    def noting(connection: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        sent.append(json.dumps(request, default=str))
        return real(connection, operation, request)

    with mock.patch.object(SharedConnection, "_make_api_call", noting):
        yield


def main() -> int:
    """Run what is named, and print what was found."""
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        work(json.loads(sys.argv[1]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.limits", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["kills", "two", "rate"], choices=["kills", "two", "rate"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--lifetime", type=float, default=30.0)
    given = parser.parse_args()
    prepare_process()
    engine = start()
    try:
        for part in given.parts:
            with tempfile.TemporaryDirectory() as folder:
                for line in globals()[part](engine.endpoint, Path(folder), given.seconds, given.lifetime):
                    print(line, flush=True)  # noqa: T201 - its purpose
    finally:
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
