"""A small Lambda and a small SQS: environments that are frozen, killed and thrown away, and partial batches."""

import hashlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FUNCTION_SECONDS, SWEEP_SECONDS, SWEEP_EVERY, VISIBILITY = 12.0, 17.0, 20.0, 72.0
"""A queue's visibility timeout is six times that of its function, as in the pipeline."""

BATCH, WINDOW, AT_ONCE, RECEIVES = 10, 2.0, 4, 12
TWICE = 0.02
"""The share of messages that are delivered a second time."""
IDLE, INIT = 30.0, 60.0
"""Seconds after which an unused environment is thrown away, and that a new one may take to begin."""


@dataclass
class Message:
    """A message in a queue."""

    id: str
    body: str
    visible_at: float
    sent: float = field(default_factory=time.time)
    receives: int = 0


class Queue:
    """A queue with a visibility timeout, which delivers some messages twice."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: dict[str, Message] = {}
        self.dead: list[Message] = []
        self._changed = threading.Condition()
        self._luck = random.Random(name)

    def send(self, body: str, *, delay: float = 0) -> str:
        """Add a message."""
        message = Message(str(uuid.uuid4()), body, time.time() + delay)
        with self._changed:
            self.messages[message.id] = message
            self._changed.notify()
        return message.id

    def receive(self, ended: threading.Event) -> list[Message]:
        """Wait for messages, gather some more for a moment, and hide them; none once the emulator has ended."""
        first = 0.0
        with self._changed:
            while not ended.is_set():
                now = time.time()
                due = [each for each in self.messages.values() if each.visible_at <= now]
                first = first or (now if due else 0)
                if due and (len(due) >= BATCH or now - first >= WINDOW):
                    oldest = sorted(due, key=lambda each: each.visible_at)[:BATCH]
                    return [each for each in oldest if self._deliver(each, now)]
                self._changed.wait(0.1)
        return []

    def _deliver(self, message: Message, now: float) -> bool:
        message.receives += 1
        if message.receives > RECEIVES:
            self.dead.append(self.messages.pop(message.id))
            return False
        message.visible_at = now + VISIBILITY
        if self._luck.random() < TWICE:
            copy = Message(str(uuid.uuid4()), message.body, now + self._luck.uniform(0, 5))
            self.messages[copy.id] = copy
        return True

    def delete(self, message: Message) -> None:
        """Forget a message that was acknowledged."""
        with self._changed:
            self.messages.pop(message.id, None)


@dataclass
class Invocation:
    """What became of an invocation."""

    function: str
    request_id: str
    began: float
    ended: float
    how: str
    """answered, failed, timed out or died."""
    left: float
    """Seconds that it still had."""
    answer: Any = None


class Environment:
    """A process that is stopped between its invocations."""

    def __init__(self, parent: socket.socket, guard: threading.Lock, **settings: Any) -> None:
        own, its = socket.socketpair()
        with guard:
            socket.send_fds(parent, [json.dumps(settings).encode()], [its.fileno()])
        its.close()
        self._socket, self._text = own, b""
        self.used = time.time()
        self._pid = int((self._read(time.time() + INIT) or {})["pid"])

    def invoke(self, event: Any, request_id: str, deadline: float) -> tuple[str, Any]:
        """Let it run until it answers, dies or has no time left."""
        os.kill(self._pid, signal.SIGCONT)
        job = {"event": event, "request_id": request_id, "deadline": deadline}
        with suppress(BrokenPipeError):
            self._socket.sendall((json.dumps(job) + "\n").encode())
        found = self._read(deadline)
        while found and "freeze" in found:
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(found["freeze"])
            os.kill(self._pid, signal.SIGCONT)
            found = self._read(deadline)
        self.used = time.time()
        if not found:
            return ("died" if found == {} else "timed out"), None
        os.kill(self._pid, signal.SIGSTOP)
        return ("answered", found["answer"]) if "answer" in found else ("failed", None)

    def _read(self, deadline: float) -> dict[str, Any] | None:
        """Return the next line; None if it takes too long, and an empty one if the process is gone."""
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._socket], [], [], max(0, deadline - time.time()))
            if not ready:
                return None
            try:
                more = self._socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return {}
            self._text += more
        line, _, self._text = self._text.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """Kill the process, as Lambda does after a timeout."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._socket.close()


class Function:
    """A function: its environments, each with one invocation at a time."""

    def __init__(self, emulator: "Emulator", name: str, seconds: float) -> None:
        self._emulator, self.name, self._seconds = emulator, name, seconds
        self._idle: list[Environment] = []
        self._version, self._is_broken = 0, False
        self._guard = threading.Lock()
        self.free = threading.Semaphore(AT_ONCE)

    def deploy(self, *, is_broken: bool) -> None:
        """Begin with new environments."""
        with self._guard:
            self._version, self._is_broken = self._version + 1, is_broken
            old, self._idle = self._idle, []
        for environment in old:
            environment.end()

    def invoke(self, event: Any) -> Any:
        """Return the answer; None if there is none."""
        with self._guard:
            version, environment = self._version, self._idle.pop() if self._idle else None
        environment = environment or self._emulator.environment(self.name, is_broken=self._is_broken)
        request_id, began = str(uuid.uuid4()), time.time()
        how, answer = environment.invoke(event, request_id, began + self._seconds)
        ended = time.time()
        left = began + self._seconds - ended
        self._emulator.invocations.append(Invocation(self.name, request_id, began, ended, how, left, answer))
        with self._guard:
            is_kept = how in {"answered", "failed"} and version == self._version
            if is_kept:
                self._idle.append(environment)
        if not is_kept:
            environment.end()
        return answer

    def forget(self, seconds: float) -> None:
        """Throw environments away that nobody has used for so long."""
        with self._guard:
            old = [each for each in self._idle if time.time() - each.used >= seconds]
            self._idle = [each for each in self._idle if each not in old]
        for environment in old:
            environment.end()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Emulator:
    """The functions and queues of the application, on loopback."""

    def __init__(self, steps: tuple[str, ...], folder: Path, table_host: str) -> None:
        self.queues = {name: Queue(name) for name in steps}
        self.functions = {name: Function(self, name, FUNCTION_SECONDS) for name in steps}
        self.functions |= {f"retry_{name}": Function(self, f"retry_{name}", SWEEP_SECONDS) for name in steps}
        self.invocations: list[Invocation] = []
        self.sends: list[tuple[float, str, str]] = []
        """The time, the queue and the order of each message that a function has sent."""
        self.folder = folder
        self._ended = threading.Event()
        self._forking = threading.Lock()
        self._table_host = table_host

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run in this block; its processes and threads end with it."""
        server = _Server(("127.0.0.1", 0), self._sqs())
        server.daemon_threads = True
        own, its = socket.socketpair()
        self._parent = own
        command = [sys.executable, "-m", "tests.benchmarks.pipeline.environment", str(its.fileno())]
        process = subprocess.Popen(command, env=self._settings(server.server_port), pass_fds=[its.fileno()])  # noqa: S603 - our own
        its.close()
        jobs = [server.serve_forever, self._throw_away, *(self._poller(name) for name in self.queues)]
        jobs += [self._schedule(name, at) for at, name in enumerate(self.queues)]
        threads = [threading.Thread(target=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            server.shutdown()
            for thread in threads:
                thread.join(SWEEP_SECONDS)
            for function in self.functions.values():
                function.forget(0)
            own.close()
            process.wait(INIT)
            server.server_close()

    def _settings(self, port: int) -> dict[str, str]:
        return {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_ENDPOINT_URL_SQS": f"http://127.0.0.1:{port}",
            "QUEUES": f"http://127.0.0.1:{port}/000000000000/",
            "TABLE_HOST": self._table_host,
            "BLOCKS": str(self.folder / "blocks.jsonl"),
        }

    def environment(self, function: str, *, is_broken: bool) -> Environment:
        """Return a new environment of a function."""
        return Environment(self._parent, self._forking, function=function, is_broken=is_broken, folder=str(self.folder))

    def deploy(self, step: str, *, is_broken: bool) -> None:
        """Replace both functions of a step."""
        for name in (step, f"retry_{step}"):
            self.functions[name].deploy(is_broken=is_broken)

    def announce(self, order: str) -> None:
        """Send the event of a new order."""
        event = {"detail-type": "OrderPlaced", "source": "shop", "detail": {"order_id": order}}
        next(iter(self.queues.values())).send(json.dumps(event))

    def _poller(self, name: str) -> Any:
        queue, function = self.queues[name], self.functions[name]

        def poll() -> None:
            while not self._ended.is_set():
                function.free.acquire()
                messages = queue.receive(self._ended)
                if messages:
                    threading.Thread(target=deliver, args=(messages,), daemon=True).start()
                else:
                    function.free.release()

        def deliver(messages: list[Message]) -> None:
            try:
                answer = function.invoke({"Records": [_record(name, each) for each in messages]})
            finally:
                function.free.release()
            if answer is not None:
                again = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
                for message in messages:
                    if message.id not in again:
                        queue.delete(message)

        return poll

    def _schedule(self, step: str, at: int) -> Any:
        function, offset = self.functions[f"retry_{step}"], SWEEP_EVERY * at / len(self.queues)

        def sweep() -> None:
            wait = offset
            while not self._ended.wait(wait):
                threading.Thread(target=function.invoke, args=({"source": "aws.events"},), daemon=True).start()
                wait = SWEEP_EVERY

        return sweep

    def _throw_away(self) -> None:
        while not self._ended.wait(5):
            for function in self.functions.values():
                function.forget(IDLE)

    def _sqs(self) -> type[BaseHTTPRequestHandler]:
        emulator = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                text = self.rfile.read(length)
                if len(text) < length:  # the function was killed in the middle of its request
                    self.close_connection = True
                    return
                given = json.loads(text)
                queue = emulator.queues[given["QueueUrl"].rpartition("/")[2]]
                sent = []
                for entry in given["Entries"]:
                    body = entry["MessageBody"]
                    emulator.sends.append((time.time(), queue.name, json.loads(body)["task_id"]))
                    digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
                    sent.append({"Id": entry["Id"], "MessageId": queue.send(body), "MD5OfMessageBody": digest})
                answer = json.dumps({"Successful": sent, "Failed": []}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        return Handler


def _record(queue: str, message: Message) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.id,
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives)},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
        "awsRegion": "us-east-1",
    }
