"""The worker processes of a run: started, killed, frozen and resumed, and always ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from tests.chaos.events import Log
from tests.chaos.settings import Settings

__all__ = ["Crew", "crew"]

ROOT = Path(__file__).parents[2]
GRACE = 30.0
"""Seconds within which a worker has begun, and one that was told to end has ended."""


class Crew:
    """Workers by number; each has one life at a time."""

    def __init__(self, settings: Settings, endpoint: str, folder: Path) -> None:
        self.settings = settings
        self.endpoint = endpoint
        self.folder = folder
        self.lives: dict[int, int] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.leaving: list[tuple[subprocess.Popen[bytes], Path]] = []
        """Workers that were told to end by SIGTERM, with their histories."""
        self.died: list[str] = []
        """Workers that ended without being told to."""

    def start(self, number: int, *, calm: bool = False) -> None:
        """Start the next life of a worker."""
        self.lives[number] = self.lives.get(number, 0) + 1
        name = self._name(number, calm=calm)
        kind = "calm" if calm else self.settings.kind_of(number)
        command = [sys.executable, "-m", "tests.chaos.worker", self.settings.to_json(), self.endpoint]
        # In the background group of its own, a stopped worker is woken and ended by the kernel when its parent is gone.
        self.processes[number] = subprocess.Popen(  # noqa: S603 - this Python, with arguments of our own
            [*command, str(self.folder), name, kind],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            process_group=0,
        )

    def gather(self) -> None:
        """Wait until each has begun its history, so that a slow machine does not take the time of its start off."""
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and len([*self.folder.glob("worker-*")]) < len(self.processes):
            time.sleep(0.02)

    def kill(self, number: int) -> None:
        """End a worker in the middle of whatever it does."""
        process = self.processes.pop(number)
        if process.poll() is not None:
            self.died.append(f"worker {number} ended by itself with {process.returncode}")
        process.kill()
        process.wait()
        self._close(process)

    def terminate(self, number: int) -> None:
        """Tell a worker by SIGTERM to end what it does."""
        process = self.processes.pop(number)
        process.terminate()
        self.leaving.append((process, self.folder / f"{self._name(number)}.jsonl"))

    def freeze(self, number: int) -> None:
        """Stop a worker's time."""
        self._log.tell("freeze", self._name(number))
        self.processes[number].send_signal(signal.SIGSTOP)

    def wake(self, number: int) -> None:
        """Let it go on as if nothing had happened."""
        self.processes[number].send_signal(signal.SIGCONT)
        self._log.tell("wake", self._name(number))

    @cached_property
    def _log(self) -> Log:
        return Log(self.folder, "crew")

    @property
    def anybody(self) -> bool:
        """Whether a worker is left that has not ended by itself."""
        return any(process.poll() is None for process in self.processes.values())

    def dismiss(self) -> None:
        """Let everybody end what they are at, and wait for it."""
        for process in self.processes.values():
            self._close(process)
        for number, process in list(self.processes.items()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                if process.wait(GRACE) != 0:
                    self.died.append(f"worker {number} ended with {process.returncode}")
                del self.processes[number]

    def end(self) -> None:
        """End everybody who is left, frozen or not, but wait for those that end by themselves."""
        for process, history in self.leaving:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            has_begun = history.exists() and history.stat().st_size > 0  # until then, the signal itself may end it
            if process.returncode not in ({0} if has_begun else {0, -signal.SIGTERM}):
                self.died.append(f"a worker that got SIGTERM ended with {process.returncode}")
                process.kill()
                process.wait()
            self._close(process)
        self.leaving.clear()
        for number in list(self.processes):
            self.kill(number)

    def _name(self, number: int, *, calm: bool = False) -> str:
        return f"{'calm' if calm else 'worker'}-{number}-{self.lives[number]}"

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()


@contextlib.contextmanager
def crew(settings: Settings, endpoint: str, folder: Path) -> Iterator[Crew]:
    """Yield a crew that ends with it."""
    workers = Crew(settings, endpoint, folder)
    try:
        yield workers
    finally:
        workers.end()
