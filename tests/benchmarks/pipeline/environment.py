"""Environments of the emulated Lambda, forked from one process that has imported the application.

Each serves one invocation at a time, of lines of JSON on a socket of its own, and logs as Lambda does in JSON.
"""

import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.pipeline import app

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class Context:
    """The context of an invocation."""

    def __init__(self, request_id: str, deadline: float) -> None:
        self.aws_request_id = request_id
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        """Return how many milliseconds are left."""
        return max(0, int((self._deadline - time.time()) * 1000))


class JsonLines(logging.Formatter):
    """What Lambda writes of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with its further fields."""
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        text = record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else "")
        return json.dumps({"time": record.created, "level": record.levelname, "message": text, **fields}, default=str)


def main() -> None:
    """Fork an environment for each message of the emulator, which has its settings and its socket."""
    emulator = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        message, descriptors, _, _ = socket.recv_fds(emulator, 4096, 1)
        if not message:
            return
        connection = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            emulator.close()
            try:
                _serve(connection, **json.loads(message))
            finally:
                os._exit(0)
        connection.close()


def _serve(connection: socket.socket, *, function: str, is_broken: bool, folder: str) -> None:
    os.environ["AWS_LAMBDA_FUNCTION_NAME"] = function
    log = (Path(folder) / f"{function}-{os.getpid()}.log").open("ab", buffering=0)
    os.dup2(log.fileno(), sys.stdout.fileno())
    os.dup2(log.fileno(), sys.stderr.fileno())
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.INFO)

    def send(**answer: Any) -> None:
        connection.sendall((json.dumps(answer, default=str) + "\n").encode())

    app.is_broken = is_broken

    def freeze(seconds: float) -> None:
        send(freeze=seconds)  # the emulator stops this process, and lets it continue
        time.sleep(0.1)

    app.freeze = freeze
    send(pid=os.getpid())
    for line in connection.makefile():
        job = json.loads(line)
        try:
            answer = app.HANDLERS[function](job["event"], Context(job["request_id"], job["deadline"]))
            send(answer=answer)
        except Exception as error:
            logging.getLogger("runtime").exception("the invocation ended with an error")
            send(error=repr(error))


if __name__ == "__main__":
    main()
