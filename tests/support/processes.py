"""Worker processes: started, awaited, let go at once, and ended whatever happens to the test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

__all__ = ["Crew", "Worker", "crew", "until"]

ROOT = Path(__file__).parents[2]
TIMEOUT = 120.0
"""Seconds after which a worker that says nothing fails the test."""


class Worker:
    """One process of tests.support.worker_process."""

    def __init__(self, settings: dict[str, Any], *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - this Python, with arguments of the test's own
            [sys.executable, "-m", "tests.support.worker_process", json.dumps(settings), *command],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        """Return the next line that it says."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        assert ready, f"worker {self.process.pid} says nothing"
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def report(self) -> Any:
        """Return what it did, once it has ended."""
        told = json.loads(self.hear())
        assert self.process.wait(TIMEOUT) == 0
        return told

    def end(self) -> None:
        """End it if it has not ended, and close its pipes."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Crew:
    """Workers on one use case."""

    def __init__(self, endpoint: str, table: str, name: str, lock_for: timedelta, margin: timedelta) -> None:
        times = {"lock_for": lock_for.total_seconds(), "margin": margin.total_seconds()}
        self.settings = {"endpoint": endpoint, "table": table, "name": name, **times}
        self.workers: list[Worker] = []

    def start(self, *command: str, **environment: str) -> Worker:
        """Start one worker, which waits to be let go."""
        self.workers.append(Worker(self.settings, *command, **environment))
        return self.workers[-1]

    def race(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """Start a worker for each command, let all go at once, and return what they report."""
        racers = [self.start(*command) for command in commands]
        for racer in racers:
            assert racer.hear() == "ready"
        for racer in racers:
            racer.go()
        return [racer.report() for racer in racers]


@contextlib.contextmanager
def crew(*settings: Any) -> Iterator[Crew]:
    """Yield a crew whose processes all end with it."""
    workers = Crew(*settings)
    try:
        yield workers
    finally:
        for worker in workers.workers:
            worker.end()


def until(happened: Any, timeout: float = TIMEOUT) -> Any:
    """Ask again and again until the answer is true, and return it; fail after some seconds."""
    deadline = time.monotonic() + timeout
    while not (answer := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return answer
