"""One line of a history: what a process was about to do, or the result."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    time: float
    """Seconds of the machine's clock, which all processes share and nobody sets."""
    worker: str
    """The process and its life."""
    run: int
    """The process's run, from 1, or 0."""
    kind: str
    """claim, claimed, refused, seen, effect, call, got, write, written, crash, torn, create, created, reopen, ignore,
    release, released, kept, fork, child; of pauses: pause, paused, resume, unread; of
    slots, with the number in place of a run: take, renew, return; freeze, wake: of a worker in place
    of a task; of queues: ask, asked, make, made, try, began, denied, done, occurrence, collect, send, counted, settle,
    command, cancelled, stopped."""
    task: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.facts.items() if name != "seen")
        return f"{self.time:.3f} {self.worker}/{self.run} {self.kind} {self.task} {told}"


class Log:
    """One process's history, in its own file. It writes whole lines, so SIGKILL costs at most the last one."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.worker = worker
        self._file = os.open(folder / f"{worker}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(self, kind: str, task: str, run: int = 0, *, at: float | None = None, **facts: Any) -> None:
        """Add a line, about now or about a moment ago."""
        line = [time.monotonic() if at is None else at, self.worker, run, kind, task, facts]
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> list[Event]:
    """Return all processes' lines, each in its order, without torn last lines."""
    return [event for file in sorted(folder.glob("*.jsonl")) for event in _events(file.read_bytes())]


def _events(content: bytes) -> Iterator[Event]:
    whole, _, _ = content.rpartition(b"\n")
    for line in whole.splitlines():
        yield Event(*json.loads(line))
