"""One running server process: started, awaited, and stopped whatever happens to the tests."""

import atexit
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

WATCH = Path(__file__).with_name("watch.py")
START_TIMEOUT = 30.0
STOP_TIMEOUT = 10.0
PORT_TRIES = 3

PING_HEADERS = {
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "X-Amz-Date": "20260101T000000Z",
    "Content-Type": "application/x-amz-json-1.0",
    # dynoxide wants a date and a signature, and verifies neither.
    "Authorization": "AWS4-HMAC-SHA256 Credential=ping/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=ping",
}


class EngineUnavailable(Exception):  # noqa: N818 - it is a state of the machine, not an error of the code
    """There is no engine to run tests on; the message says why."""


@dataclass(frozen=True)
class Recipe:
    """How to run a server: in words, and as a foreground command for a port."""

    how: str
    command: Callable[[int], list[str]]


def answers(endpoint: str, timeout: float = 5.0) -> bool:
    """Return whether a DynamoDB answers ListTables at the endpoint within `timeout` seconds."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=timeout)
    try:
        connection.request("POST", "/", "{}", PING_HEADERS)
        return b"TableNames" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reserved() -> socket.socket:
    """Return a socket with a port that nobody else gets while it is open, except a server that reuses addresses."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so does dynoxide
    found.bind(("127.0.0.1", 0))
    return found


class Server:
    """A server process that ends with this process at the latest."""

    def __init__(self, recipe: Recipe) -> None:
        self._reserved = reserved()
        port: int = self._reserved.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        # A session of its own: Ctrl-C in the terminal must not end the server before the tests have cleaned up.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCH), *recipe.command(port)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        # A forked worker that outlives the tests must not hold the pipe, or the server would outlive them too.
        os.register_at_fork(after_in_child=self._let_go)
        atexit.register(self.stop)

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def wait_until_it_answers(self) -> bool:
        """Return True once it answers, False if it ended or did not answer in time."""
        deadline = time.monotonic() + START_TIMEOUT
        with self._reserved:
            while self.running and time.monotonic() < deadline:
                if answers(self.endpoint):
                    return self.running
                time.sleep(0.02)
        return False

    def last_words(self) -> str:
        """Return the end of what it printed."""
        self._output.seek(0)
        return self._output.read().decode(errors="replace").strip()[-500:]

    def stop(self) -> None:
        """End the process; harmless when done twice."""
        atexit.unregister(self.stop)
        self._let_go()
        self._reserved.close()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


def serve(recipe: Recipe) -> Server:
    """Start a server and wait for it; another port is tried if somebody was faster to take the first."""
    said = ""
    for _ in range(PORT_TRIES):
        server = Server(recipe)
        try:
            if server.wait_until_it_answers():
                return server
            said = server.last_words()
            timed_out = server.running
        except BaseException:
            server.stop()
            raise
        server.stop()
        if timed_out:
            break
    raise EngineUnavailable(f"{recipe.how} did not come up; it said: {said or 'nothing'}")
