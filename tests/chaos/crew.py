"""The worker processes of a run: started, killed, frozen and resumed, and always ended."""

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Iterator
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path

from tests.chaos.events import Log
from tests.chaos.settings import Settings
from tests.support.processes import FORKS

GRACE = 30.0
"""Seconds within which a worker has begun, and within which a dismissed worker has ended."""


class Process:
    """A worker process. The end of its input tells it to end."""

    def __init__(self, *arguments: str) -> None:
        stdin, self._input = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_be_worker, args=(stdin, *arguments))
        self._process.start()
        stdin.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.exitcode is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int | None:
        """Return its exit code, or None if it has not ended after that many seconds."""
        self._process.join(timeout)
        return self.exitcode

    def dismiss(self) -> None:
        self._input.close()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._input.close()


def _be_worker(stdin: Connection, *arguments: str) -> None:
    # In a group of its own, a stopped worker is woken and ended by the kernel when the process that forks them is gone.
    os.setpgid(0, 0)
    importlib.import_module("tests.chaos.worker").main(stdin, *arguments)


class Crew:
    """Workers by number. Each has one life at a time."""

    def __init__(self, settings: Settings, endpoint: str, folder: Path) -> None:
        self.settings = settings
        self.endpoint = endpoint
        self.folder = folder
        self.lives: dict[int, int] = {}
        self.processes: dict[int, Process] = {}
        self.leaving: list[tuple[Process, Path]] = []
        """Workers that got SIGTERM, with their histories."""
        self.died: list[str] = []
        """Workers that ended unasked."""

    def start(self, number: int, *, calm: bool = False) -> None:
        self.lives[number] = self.lives.get(number, 0) + 1
        name = self._name(number, calm=calm)
        kind = "calm" if calm else self.settings.kind_of(number)
        self.processes[number] = Process(self.settings.to_json(), self.endpoint, str(self.folder), name, kind)

    def gather(self) -> None:
        """Wait until all have begun, so that a slow machine does not lose time."""
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and len([*self.folder.glob("worker-*")]) < len(self.processes):
            time.sleep(0.02)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        if process.exitcode is not None:
            self.died.append(f"worker {number} ended by itself with {process.exitcode}")
        process.end()

    def terminate(self, number: int) -> None:
        process = self.processes.pop(number)
        process.send_signal(signal.SIGTERM)
        self.leaving.append((process, self.folder / f"{self._name(number)}.jsonl"))

    def freeze(self, number: int) -> None:
        self._log.tell("freeze", self._name(number))
        self.processes[number].send_signal(signal.SIGSTOP)

    def wake(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGCONT)
        self._log.tell("wake", self._name(number))

    @cached_property
    def _log(self) -> Log:
        return Log(self.folder, "crew")

    @property
    def anybody(self) -> bool:
        return any(process.exitcode is None for process in self.processes.values())

    def dismiss(self) -> None:
        for process in self.processes.values():
            process.dismiss()
        for number, process in list(self.processes.items()):
            if (exitcode := process.wait(GRACE)) is not None:
                if exitcode != 0:
                    self.died.append(f"worker {number} ended with {exitcode}")
                del self.processes[number]

    def end(self) -> None:
        """End all remaining workers, even frozen ones, but wait for those that are ending."""
        for process, history in self.leaving:
            exitcode = process.wait(GRACE)
            # Before its first claim, it may not have set the handler of the signal, which then ends it.
            has_begun = history.exists() and b'"claim"' in history.read_bytes()
            if exitcode not in ({0} if has_begun else {0, -signal.SIGTERM}):
                self.died.append(f"a worker that got SIGTERM ended with {exitcode}")
            process.end()
        self.leaving.clear()
        for number in list(self.processes):
            self.kill(number)

    def _name(self, number: int, *, calm: bool = False) -> str:
        return f"{'calm' if calm else 'worker'}-{number}-{self.lives[number]}"


@contextlib.contextmanager
def crew(settings: Settings, endpoint: str, folder: Path) -> Iterator[Crew]:
    workers = Crew(settings, endpoint, folder)
    try:
        yield workers
    finally:
        workers.end()
