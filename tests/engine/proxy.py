"""A proxy in front of dynoxide that loses, repeats, delays and refuses requests as a test says."""

import contextlib
import http.client
import json
import socket
import socketserver
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tests.engine.actions import (
    After,
    Answer,
    Crash,
    Delay,
    DropRequest,
    DropResponse,
    Duplicate,
    Exchange,
    Fail,
    FailEverySecond,
    Hold,
    Pass,
    Rule,
    pass_everything,
)
from tests.engine.server import Server

UPSTREAM_TIMEOUT = 30.0
IDLE_TIMEOUT = 60.0
"""Seconds; a busy machine needs far less."""
OWN_HEADERS = {"accept-encoding", "connection", "content-length", "transfer-encoding"}


class Reply(NamedTuple):
    """An answer of the server, as bytes."""

    status: int
    headers: list[tuple[str, str]]
    payload: bytes


class Proxy:
    """A server on a free port of 127.0.0.1 that forwards to `upstream` unless its `rule` says otherwise.

    An exception of the rule cuts the client off, and leaves again from `close`.
    """

    def __init__(self, upstream: str) -> None:
        self.rule: Rule = pass_everything
        self.log: list[Exchange] = []
        self._upstream = urlsplit(upstream).netloc
        self._lock = threading.Lock()
        self._transactions: dict[str, Reply | None] = {}
        """Successes by the tokens of transactions, or None without one. Those from before a crash are in `_earlier`."""
        self._earlier: dict[str, Reply | None] = {}
        self._tokens = threading.Lock()  # a rule may wait, under the other lock, until a transaction has been applied
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="proxy")
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Cut everybody off, forget what is held, and end all threads."""
        self._server.end()
        self._thread.join()
        if self._server.errors:
            raise self._server.errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, target: str, payload: bytes) -> Exchange:
        body = json.loads(payload)
        with self._lock:
            exchange = Exchange(target, body, self.rule(target, body, len(self.log) + 1))
            self.log.append(exchange)
        return exchange

    def wait_until_idle(self) -> None:
        """Wait until the server has answered every request that has arrived, whoever still waits for the answer.

        A client that was killed, or gave up, may have left a request that is not even in the log yet.
        """
        with self._lock:  # in which a request is decided on and logged
            exchanges = list(self.log)
        assert all(exchange.done.wait(IDLE_TIMEOUT) for exchange in exchanges)

    def kill(self, server: Server) -> None:
        """Kill the server. Until its `restart`, no request gets an answer.

        DynamoDB knows the token of a transaction for ten minutes, but dynoxide forgets it in a crash and would apply a
        repeat. After a crash, the proxy answers repeats of earlier transactions, or loses them if it has no answer.
        """
        server.kill()
        with self._tokens:
            self._earlier |= self._transactions
            self._transactions.clear()

    def forward(self, path: str, headers: dict[str, str], payload: bytes, token: str = "") -> Reply:
        """Have the server answer a request; `token` is that of a transaction.

        Raises:
            ConnectionError: the server is down, or was killed before it had answered.
        """
        if not token:
            return self._send(path, headers, payload)
        with self._tokens:
            if token in self._earlier:
                known = self._earlier[token]
                if known is None:
                    raise ConnectionAbortedError("the server has forgotten this transaction")
                return known
            self._transactions.setdefault(token, None)
        reply = self._send(path, headers, payload)
        with self._tokens:
            if reply.status == HTTPStatus.OK:
                transactions = self._earlier if token in self._earlier else self._transactions
                transactions[token] = reply
        return reply

    def _send(self, path: str, headers: dict[str, str], payload: bytes) -> Reply:
        # A connection each: one kept alive may be closed by the server while idle, and a repeat would be a duplicate.
        connection = http.client.HTTPConnection(self._upstream, timeout=UPSTREAM_TIMEOUT)
        try:
            connection.request("POST", path, payload, headers)
            response = connection.getresponse()
            return Reply(response.status, response.getheaders(), response.read())
        except http.client.HTTPException as error:  # killed in the middle of its answer
            raise ConnectionAbortedError("the answer has no end") from error
        finally:
            connection.close()


class _Server(socketserver.ThreadingTCPServer):
    request_queue_size = 128

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.errors: list[BaseException] = []
        self.ending = threading.Event()
        self.clients: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def end(self) -> None:
        self.ending.set()
        self.shutdown()
        for client in self.clients.copy():
            hang_up(client)
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's names
        error = sys.exception()
        # A client that went away is what this proxy is for.
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one packet
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.clients.add(self.connection)
        if self.server.ending.is_set():
            hang_up(self.connection)

    def finish(self) -> None:
        self.server.clients.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        payload = self.rfile.read(length)
        if len(payload) < length:  # the client went away in the middle of its request
            self._cut_off()
            return
        target = self.headers["X-Amz-Target"].rpartition(".")[2]
        exchange = self.server.proxy.begin(target, payload)
        try:
            self._carry_out(exchange, payload)
        finally:
            exchange.done.set()

    def _carry_out(self, exchange: Exchange, payload: bytes) -> None:  # noqa: C901 - one line for each action
        match exchange.action:
            case Pass():
                self._answer(self._forward(exchange, payload))
            case DropRequest():
                self._cut_off()
            case DropResponse():
                self._forward(exchange, payload)
                self._cut_off()
            case Crash(server, applied):
                if applied:
                    self._forward(exchange, payload)
                self.server.proxy.kill(server)
                server.restart()
                self._cut_off()
            case Duplicate(answer):
                replies = {"first": self._forward(exchange, payload), "second": self._forward(exchange, payload)}
                self._answer(replies[answer])
            case Hold(event):
                self._cut_off()
                if self._wait(event):
                    self._forward(exchange, payload)
            case Delay(seconds):
                self._forward_if(exchange, payload, still=not self.server.ending.wait(seconds))
            case After(event):
                self._forward_if(exchange, payload, still=self._wait(event))
            case Fail() as error:
                self._answer(self._refuse(exchange, error))
            case FailEverySecond() as fault:
                self._answer(self._forward_some(exchange, fault))

    def _forward_if(self, exchange: Exchange, payload: bytes, *, still: bool) -> None:
        if still:
            self._answer(self._forward(exchange, payload))
        else:
            self._cut_off()

    def _wait(self, event: threading.Event) -> bool:
        while not self.server.ending.is_set():
            if event.wait(0.02):
                return True
        return False

    def _forward(self, exchange: Exchange, payload: bytes) -> Reply:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN_HEADERS}
        token = exchange.body.get("ClientRequestToken", "")
        reply = self.server.proxy.forward(self.path, headers | {"Accept-Encoding": "identity"}, payload, token)
        exchange.answers.append(Answer(reply.status, json.loads(reply.payload)))
        return reply

    def _forward_some(self, exchange: Exchange, fault: FailEverySecond) -> Reply:
        statements = exchange.body["Statements"]
        sent = statements if fault.applied else statements[::2]
        reply = self._forward(exchange, json.dumps({**exchange.body, "Statements": sent}).encode())
        body = json.loads(reply.payload)
        if "Responses" not in body:
            return reply
        answered = iter(body["Responses"][:: 2 if fault.applied else 1])
        failed = {"Error": {"Code": fault.code, "Message": "made to fail by a test"}}
        body["Responses"] = [failed if number % 2 else next(answered) for number in range(len(statements))]
        return reply._replace(payload=json.dumps(body).encode())

    def _refuse(self, exchange: Exchange, error: Fail) -> Reply:
        exchange.answers.append(Answer(error.status, error.body))
        return Reply(error.status, [("Content-Type", "application/x-amz-json-1.0")], json.dumps(error.body).encode())

    def _answer(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            if name.lower() not in OWN_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.payload)))
        self.end_headers()
        self.wfile.write(reply.payload)

    def _cut_off(self) -> None:
        self.close_connection = True
        hang_up(self.connection)


def hang_up(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
