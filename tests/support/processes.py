"""Starts worker processes, releases them together, and ends them whatever happens to the test."""

import contextlib
import importlib
import json
import multiprocessing
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

W = TypeVar("W", bound="Worker")

TIMEOUT = 120.0
"""Seconds after which a silent worker fails the test."""


FORKS = multiprocessing.get_context("forkserver")
# Forking from a process with all imports takes a moment. A new process takes half a second.
FORKS.set_forkserver_preload(["pytest", "tests.support.warm"])


class Worker:
    """A process that runs tests.support.worker_process, and exchanges lines with the test."""

    main = "tests.support.worker_process"

    def __init__(self, settings: dict[str, Any], *command: str) -> None:
        stdin, to_worker = FORKS.Pipe(duplex=False)
        from_worker, stdout = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_serve, args=(self.main, stdin, stdout, settings, command))
        self._process.start()
        stdin.close()
        stdout.close()
        self.stdin = os.fdopen(os.dup(to_worker.fileno()), "w")
        self.stdout = os.fdopen(os.dup(from_worker.fileno()))
        to_worker.close()
        from_worker.close()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float = TIMEOUT) -> int | None:
        """Return the exit code, or None if the process has not ended within `timeout` seconds."""
        self._process.join(timeout)
        return self._process.exitcode

    def hear(self) -> str:
        ready, _, _ = select.select([self.stdout], [], [], TIMEOUT)
        assert ready, f"worker {self._process.pid} says nothing"
        return self.stdout.readline().strip()

    def go(self) -> None:
        self.stdin.write("go\n")
        self.stdin.flush()

    def report(self) -> Any:
        told = json.loads(self.hear())
        assert self.wait() == 0
        return told

    def end(self) -> None:
        """Kill the process if necessary, and close its pipes."""
        self.kill()
        self.wait()
        self.stdin.close()
        self.stdout.close()


def _serve(
    main: str, stdin: Connection, stdout: Connection, settings: dict[str, Any], command: tuple[str, ...]
) -> None:
    """Run a worker that uses these pipes."""
    with os.fdopen(os.dup(stdin.fileno())) as sys.stdin, os.fdopen(os.dup(stdout.fileno()), "w") as sys.stdout:
        importlib.import_module(main).main(settings, *command)


class Crew:
    def __init__(self, endpoint: str, table: str, name: str, lock_for: timedelta, margin: timedelta) -> None:
        times = {"lock_for": lock_for.total_seconds(), "margin": margin.total_seconds()}
        self.settings = {"endpoint": endpoint, "table": table, "name": name, **times}
        self.workers: list[Worker] = []

    def start(self, *command: str) -> Worker:
        self.workers.append(Worker(self.settings, *command))
        return self.workers[-1]

    def race(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """Start a worker per command, release them together, and return their reports."""
        racers = [self.start(*command) for command in commands]
        for racer in racers:
            assert racer.hear() == "ready"
        for racer in racers:
            racer.go()
        return [racer.report() for racer in racers]


@contextlib.contextmanager
def crew(*settings: Any) -> Iterator[Crew]:
    workers = Crew(*settings)
    try:
        yield workers
    finally:
        for worker in workers.workers:
            worker.end()


def until(happened: Any, timeout: float = TIMEOUT) -> Any:
    """Poll until the result is true, and return it. Fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (answer := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return answer


def has_ended(pid: int) -> bool:
    return bool(until(lambda: not is_running(pid)))


def is_running(pid: int) -> bool:
    """Return whether a process is running. A zombie, as in a container without init, does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@contextlib.contextmanager
def started_together(kind: type[W], settings: dict[str, Any], commands: Sequence[list[str]]) -> Iterator[list[W]]:
    """Start a process per command, release them together, and end them after the block."""
    with contextlib.ExitStack() as stack:
        started = [kind(settings, *command) for command in commands]
        for each in started:
            stack.callback(each.end)
        for each in started:
            assert each.hear() == "ready"
        for each in started:
            each.go()
        yield started
