"""The DynamoDB that tests run on: the endpoint in `TRACKER_TEST_ENDPOINT`, or a dynoxide of this process."""

import http.client
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pynamodb_tracker.testing.server import LocalServerError
from tests.engine import dynoxide
from tests.engine.dynoxide import EngineUnavailable
from tests.engine.server import Server
from tests.support.quick_http import send_quickly_to

__all__ = ["AWS", "HOW_TO_GET_ONE", "VARIABLE", "Engine", "EngineUnavailable", "find", "start"]

VARIABLE = "TRACKER_TEST_ENDPOINT"
AWS = "aws"
"""A value of the variable, for `make assumptions` alone."""
HOW_TO_GET_ONE = f"{dynoxide.HOW_TO_GET_IT}, or set {VARIABLE} to the address of a running DynamoDB"


@dataclass
class Engine:
    endpoint: str
    how: str
    server: Server | None = None
    """The process of a dynoxide, which tests may kill; None for an endpoint that was given."""

    def stop(self) -> None:
        """Stop it, unless it was given by its address."""
        if self.server is not None:
            self.server.stop()


def find() -> str:
    """Return a description of what `start` would start, building dynoxide if necessary.

    A built or found binary is remembered in `DYNOXIDE`, for this process and those that it starts.

    Raises:
        EngineUnavailable: there is none, and the message says why.
    """
    if endpoint := os.environ.get(VARIABLE):
        return _given(endpoint).how
    binary = dynoxide.find_or_build()
    os.environ[dynoxide.PATH_VARIABLE] = str(binary)
    return _describe(str(binary))


def start(path: Path | None = None) -> Engine:
    """Start a dynoxide with tables of its own, in memory or in the file at `path`, or return the given endpoint.

    Raises:
        EngineUnavailable: there is none, and the message says why.
    """
    if endpoint := os.environ.get(VARIABLE):
        return _given(endpoint)
    binary = str(dynoxide.find_or_build())
    try:
        server = Server(binary, path=path)
    except LocalServerError as error:
        raise EngineUnavailable(str(error)) from error
    send_quickly_to(server.endpoint)
    return Engine(server.endpoint, _describe(binary), server)


def _describe(binary: str) -> str:
    return f"dynoxide {dynoxide.CRATE} ({binary})"


def _given(endpoint: str) -> Engine:
    if endpoint == AWS:
        raise EngineUnavailable(f"{VARIABLE}={AWS} is for `make assumptions` only")
    if not answers(endpoint):
        raise EngineUnavailable(f"nothing answers ListTables at {VARIABLE}={endpoint}")
    return Engine(endpoint, f"{VARIABLE}={endpoint}")


_PING_HEADERS = {
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "X-Amz-Date": "20260101T000000Z",
    "Content-Type": "application/x-amz-json-1.0",
    # dynoxide wants a date and a signature, and verifies neither.
    "Authorization": "AWS4-HMAC-SHA256 Credential=ping/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=ping",
}


def answers(endpoint: str, timeout: float = 5.0) -> bool:
    """Return whether a DynamoDB answers ListTables at the endpoint within `timeout` seconds."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=timeout)
    try:
        connection.request("POST", "/", "{}", _PING_HEADERS)
        return b"TableNames" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
