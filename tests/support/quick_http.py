"""Sends botocore's requests to the engine without urllib3, which takes a third of the CPU time of most tests.

Requests to any other address, such as a proxy that makes faults, go through urllib3 as they do for users.
"""

import socket
import weakref
from collections import deque
from select import poll
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

_ports: dict[str, int] = {}
_idle: weakref.WeakKeyDictionary[URLLib3Session, deque[socket.socket]] = weakref.WeakKeyDictionary()
"""The open connections of each client."""
_send = URLLib3Session.send
_close = URLLib3Session.close


def send_quickly_to(endpoint: str) -> None:
    """Send requests to this endpoint, such as "http://127.0.0.1:8000", without urllib3 from now on."""
    _ports[f"{endpoint}/"] = int(endpoint.rpartition(":")[2])
    URLLib3Session.send = _quick_send
    URLLib3Session.close = _quick_close


def _quick_send(session: URLLib3Session, request: Any) -> AWSResponse:
    port = _ports.get(request.url)
    if port is None:
        return _send(session, request)
    idle = _idle.get(session)
    if idle is None:
        idle = _idle.setdefault(session, deque())
        weakref.finalize(session, _close_all, idle)  # for a client that nobody closes
    connection = _alive(idle) or _connect(session, request, port)
    try:
        connection.settimeout(_timeout(session, "read_timeout"))
        connection.sendall(_bytes_of(request))
        response = _read_response(connection, request.url)
    except TimeoutError as error:
        connection.close()
        raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
    except OSError as error:
        connection.close()
        raise ConnectionClosedError(error=error, request=request, endpoint_url=request.url) from error
    except BaseException:
        connection.close()
        raise
    idle.append(connection)
    return response


def _quick_close(session: URLLib3Session) -> None:
    _close_all(_idle.pop(session, deque()))
    _close(session)


def _close_all(connections: deque[socket.socket]) -> None:
    for connection in connections:
        connection.close()


def _alive(idle: deque[socket.socket]) -> socket.socket | None:
    """Return an idle connection that the engine has not closed."""
    while idle:
        try:
            connection = idle.pop()
        except IndexError:  # another thread took it
            return None
        events = poll()
        events.register(connection, 1)
        if not events.poll(0):
            return connection
        connection.close()
    return None


def _connect(session: URLLib3Session, request: Any, port: int) -> socket.socket:
    try:
        connection = socket.create_connection(("127.0.0.1", port), _timeout(session, "connect_timeout"))
    except TimeoutError as error:
        raise ConnectTimeoutError(endpoint_url=request.url, error=error) from error
    except OSError as error:
        raise EndpointConnectionError(endpoint_url=request.url, error=error) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _timeout(session: URLLib3Session, which: str) -> Any:
    return getattr(session._timeout, which, session._timeout)


def _bytes_of(request: Any) -> bytes:
    lines = [f"{request.method} / HTTP/1.1"]
    for name, value in request.headers._dict.items():
        lines.append(f"{name}: {value.decode('latin-1') if isinstance(value, bytes) else value}")
    body = request.body or b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body.encode() if isinstance(body, str) else body)


def _read_response(connection: socket.socket, url: str) -> AWSResponse:
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _some_of(connection)
    status, *lines = received[:end].decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    size = end + 4 + int(next(value for name, value in headers.items() if name.lower() == "content-length"))
    while len(received) < size:
        received += _some_of(connection)
    response = AWSResponse(url, int(status.split(" ")[1]), headers, None)
    response._content = bytes(received[end + 4 :])
    return response


def _some_of(connection: socket.socket) -> bytes:
    some = connection.recv(65_536)
    if not some:
        raise ConnectionResetError("the engine closed the connection before its response")
    return some
