"""A call of another system carries its key, and distinguishes a refusal from what is worth another attempt."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType
from typing import Any
from urllib.error import HTTPError, URLError

import pytest


class Gateway(HTTPServer):
    """Answers with the status that it is told to, and keeps what it got."""

    status = 200
    got: tuple[str, str | None, Any] | None = None


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got = (self.path, self.headers["Idempotency-Key"], body)
        answer = json.dumps({"receipt": "r-1"}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with Gateway(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("GATEWAY_URL", f"http://127.0.0.1:{server.server_port}/v1")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def services(app: ModuleType) -> Any:
    assert app.__name__ == "pipeline.app", "it is imported with its environment"
    return sys.modules["pipeline.services"]


def test_a_call_has_its_key_and_its_body(services: Any, gateway: Gateway) -> None:
    assert services.post("GATEWAY_URL", "charges", "fa6f330b", {"amount": "42.50"}) == {"receipt": "r-1"}
    assert gateway.got == ("/v1/charges", "fa6f330b", {"amount": "42.50"})


@pytest.mark.parametrize("status", [400, 402, 410, 422])
def test_a_refusal_is_for_good(services: Any, gateway: Gateway, status: int) -> None:
    gateway.status = status
    with pytest.raises(services.RefusedError, match=f"GATEWAY_URL refused charges: HTTP {status}"):
        services.post("GATEWAY_URL", "charges", "o-1", {})


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 425, 429, 500, 503])
def test_what_may_pass_is_tried_again(services: Any, gateway: Gateway, status: int) -> None:
    gateway.status = status
    with pytest.raises(HTTPError, match=str(status)):
        services.post("GATEWAY_URL", "charges", "o-1", {})


def test_no_answer_is_tried_again(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_URL", "http://127.0.0.1:1")
    with pytest.raises(URLError):
        services.post("GATEWAY_URL", "charges", "o-1", {})
