"""What becomes of requests on their way: no answer, an engine that cannot do it now, or a rival in between."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from pynamodb.connection.base import Connection
from pynamodb.exceptions import CancellationReason, VerboseClientError

Request = dict[str, Any]
Answer = dict[str, Any]
Rule = Callable[[str, Request, Callable[[], Answer]], Answer]
"""Called with the operation, the request, and the means to send it."""

SKIPPED_OCCURRENCES = 6
"""How often a request that is throttled is sent, all in all."""


def passing(_operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
    """Let every request through."""
    return send()


class Network:
    """Between all clients of this process and the engine, the hurried ones included; it does what its `rule` says."""

    def __init__(self) -> None:
        self.rule: Rule = passing
        self.original = Connection.dispatch

    def dispatch(self, connection: Connection, operation: str, request: Request) -> Answer:
        """Send a request as the rule says."""
        return self.rule(operation, request, lambda: self.original(connection, operation, request))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Put a network between the library and the engine that lets everything through until its `rule` is set."""
    network = Network()

    def dispatch(connection: Connection, operation_name: str, operation_kwargs: Any) -> Any:
        return network.dispatch(connection, operation_name, operation_kwargs)

    monkeypatch.setattr(Connection, "dispatch", dispatch)
    return network


@contextmanager
def unreached() -> Iterator[None]:
    """Fail the test if anything is sent meanwhile."""

    def dispatch(_: Connection, operation: str, _request: Request) -> Answer:
        pytest.fail(f"{operation} was sent")

    with mock.patch.object(Connection, "dispatch", dispatch):
        yield


def unheard(*operations: str) -> Rule:
    """Carry these out, each one once, and answer none of them."""
    done: list[str] = []

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation not in operations:
            return send()
        if operation not in done:
            done.append(operation)
            send()
        raise ReadTimeoutError(endpoint_url="of the test")

    return rule


def silent(*operations: str) -> Rule:
    """Carry none of these out, and answer none."""

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation in operations:
            raise ReadTimeoutError(endpoint_url="of the test")
        return send()

    return rule


def cancelled(*reasons: str) -> Rule:
    """Cancel all transactions for these reasons, one for each write."""

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "TransactWriteItems":
            answer = error(operation, "TransactionCanceledException").response
            codes = [None if code == "None" else CancellationReason(code) for code in reasons]
            raise VerboseClientError(answer, operation, cancellation_reasons=codes)
        return send()

    return rule


def throttled(operation: str, times: int = 1, *, of: str = "") -> Rule:
    """Throttle the first requests of an operation, or of those whose range key begins like that."""
    left = [operation] * times

    def rule(name: str, request: Request, send: Callable[[], Answer]) -> Answer:
        key = request.get("Key", {}).get("use_case_id", {}).get("S", "")
        if name in left and key.startswith(of):
            left.remove(name)
            raise error(name, "ThrottlingException")
        return send()

    return rule


def before(network: Network, operation: str, act: Callable[[], object], *, of: str = "") -> None:
    """Let something happen right before the next request of an operation: what is done then passes."""

    def rule(name: str, request: Request, send: Callable[[], Answer]) -> Answer:
        key = request.get("Key", {}).get("use_case_id", {}).get("S", "")
        if name == operation and key.startswith(of):
            network.rule = passing
            act()
        return send()

    network.rule = rule


def error(operation: str, code: str, *, repeats: int = 0) -> ClientError:
    """Return the engine's error, heard after so many repeats by the SDK."""
    about = {"HTTPStatusCode": 400, "RetryAttempts": repeats}
    return ClientError({"Error": {"Code": code, "Message": "of the test"}, "ResponseMetadata": about}, operation)
