"""Lambda's runtime interface on loopback: gives events to the client that AWS ships, and hears its answers.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.forked import Forked

_ROOT = Path(__file__).parents[2]
_PATIENCE = 30.0


@dataclass(frozen=True)
class Answer:
    kind: str
    """response, or error."""
    body: Any


class Runtime:
    """A function that is deployed: one process of the client, with one handler. It is forked unless it `is_new`."""

    def __init__(
        self,
        handler: str,
        environment: Mapping[str, str],
        *,
        module: str = "tests.aws_lambda.program",
        is_new: bool = False,
    ) -> None:
        self.events: queue.Queue[tuple[str, float, Any]] = queue.Queue()
        self.deadline = 0.0
        """When the last invocation times out; its time begins when the function takes the event."""
        self.answers: queue.Queue[Answer] = queue.Queue()
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - it is open as long as the process
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        host, port = self._server.server_address[:2]
        program = [sys.executable, "-m"] if is_new else []
        self.process: subprocess.Popen[bytes] = (subprocess.Popen if is_new else Forked)(
            [*program, "awslambdaric", f"{module}.{handler}"],
            cwd=_ROOT,
            env={
                **os.environ,
                **environment,
                "AWS_LAMBDA_RUNTIME_API": f"{host!s}:{port}",
                "AWS_LAMBDA_FUNCTION_NAME": handler,
                "AWS_LAMBDA_LOG_FORMAT": "JSON",
                "AWS_LAMBDA_LOG_LEVEL": "INFO",
            },
            stdout=self._log,  # not a pipe: an unread pipe fills up
            stderr=subprocess.STDOUT,
        )

    def invoke(self, event: Any, *, seconds: float = 30, request_id: str = "r-1") -> Answer:
        self.events.put((request_id, seconds, event))
        return self.answers.get(timeout=_PATIENCE)

    def invoke_until_killed(self, event: Any, *, seconds: float, begun: Any) -> None:
        """Give the function an event, and end it at its time limit, as Lambda does."""
        patience_ends = time.time() + _PATIENCE
        self.events.put(("killed", seconds, event))
        while not begun():
            assert time.time() < patience_ends, "it did not begin"
            time.sleep(0.01)
        time.sleep(max(0.0, self.deadline - time.time()))
        self.process.kill()
        self.process.wait(_PATIENCE)

    def logged(self) -> list[dict[str, Any]]:
        text = os.pread(self._log.fileno(), 1_000_000, 0).decode()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(_PATIENCE)
        self._log.close()
        self._server.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a process that was killed while it waited for an event."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        while not self.server.over.is_set():
            try:
                request_id, seconds, event = self.server.runtime.events.get(timeout=0.05)
            except queue.Empty:
                continue
            self.server.runtime.deadline = time.time() + seconds
            headers = {
                "Content-Type": "application/json",  # the client crashes without
                "Lambda-Runtime-Aws-Request-Id": request_id,
                "Lambda-Runtime-Deadline-Ms": str(int(self.server.runtime.deadline * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:test",
                "Lambda-Runtime-Trace-Id": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700",
            }
            self._answer(200, json.dumps(event).encode(), headers)
            return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = self.path.rpartition("/")[2]
        self._answer(202, b"{}", {})
        self.server.runtime.answers.put(Answer(kind, body))

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...
