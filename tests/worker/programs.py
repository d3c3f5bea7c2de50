"""Programs such as tests/worker/program.py: started, heard, sent signals, and ended whatever happens to the test."""

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.forked import Forked

ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0


class Program:
    """One program, in a process group of its own, so that all of its processes can be ended."""

    def __init__(self, environment: Mapping[str, str], main: str, **options: Any) -> None:
        self._process = Forked(
            [main, json.dumps(options)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.err: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._lines.put)),
            threading.Thread(target=self._read, args=(self._process.stderr, self.err.append)),
        ]
        for reader in self._readers:
            reader.start()

    def hear(self) -> tuple[str, str]:
        """Return the two parts of the next line that it says: a task and the process that runs it, say."""
        deadline = time.monotonic() + TIMEOUT
        while self._lines.empty():
            ended = self._process.poll() is not None and not self._readers[0].is_alive()
            assert not ended, f"the program ended; it printed {self.err}"
            assert time.monotonic() < deadline, f"the program says nothing; it printed {self.err}"
            time.sleep(0.01)
        first, _, rest = self._lines.get().partition(" ")
        return first, rest

    def send(self, number: int, pid: int | None = None) -> None:
        os.kill(pid or self.pid, number)

    def wait(self) -> int:
        return self._process.wait(TIMEOUT)

    def said_at_the_end(self) -> list[tuple[str, str]]:
        """Return all that it said and was not heard yet, once it has ended."""
        for reader in self._readers:
            reader.join(TIMEOUT)
        lines = []
        while not self._lines.empty():
            lines.append(self.hear())
        return lines

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, 9)
        self._process.wait()
        for reader in self._readers:
            reader.join(TIMEOUT)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self, pipe: Any, put: Any) -> None:
        for line in pipe:
            put(line.rstrip("\n"))


class Programs:
    def __init__(self, endpoint: str, table: str) -> None:
        self._environment = {"SHOP_ENDPOINT": endpoint, "SHOP_TABLE": table}
        self._started: list[Program] = []

    def start(
        self, *, lock: float = 300, main: str = "tests.worker.program", limited: bool = False, **options: Any
    ) -> Program:
        given = {"SHOP_LOCK": str(lock), "SHOP_MARGIN": "0.2", "SHOP_RETRY_DELAY": "3600"}
        given |= {"SHOP_LIMIT": "2"} if limited else {}
        self._started.append(Program(self._environment | given, main, **options))
        return self._started[-1]

    def end(self) -> None:
        for program in self._started:
            program.end()


@contextlib.contextmanager
def programs(endpoint: str, table: str) -> Iterator[Programs]:
    started = Programs(endpoint, table)
    try:
        yield started
    finally:
        started.end()
