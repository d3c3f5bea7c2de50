"""Network faults: lost responses, throttling, or a rival between two requests."""

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
"""Called with the operation, the request, and a function that sends it."""

SKIPPED_OCCURRENCES = 6
"""How often a throttled request is sent in total."""


def passing(_operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
    return send()


class Network:
    """Stands between this process's clients and the engine, and applies its `rule`."""

    def __init__(self) -> None:
        self.rule: Rule = passing
        self.original = Connection.dispatch

    def dispatch(self, connection: Connection, operation: str, request: Request) -> Answer:
        return self.rule(operation, request, lambda: self.original(connection, operation, request))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Insert a network that lets everything through until its `rule` is set."""
    network = Network()

    def dispatch(connection: Connection, operation_name: str, operation_kwargs: Any) -> Any:
        return network.dispatch(connection, operation_name, operation_kwargs)

    monkeypatch.setattr(Connection, "dispatch", dispatch)
    return network


@contextmanager
def unreached() -> Iterator[None]:
    """Fail the test if this block sends anything."""

    def dispatch(_: Connection, operation: str, _request: Request) -> Answer:
        pytest.fail(f"{operation} was sent")

    with mock.patch.object(Connection, "dispatch", dispatch):
        yield


def unheard(*operations: str) -> Rule:
    """Apply each of these operations once, but lose their responses."""
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

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation in operations:
            raise ReadTimeoutError(endpoint_url="of the test")
        return send()

    return rule


def cancelled(*reasons: str) -> Rule:
    """Cancel all transactions for these reasons, one per write."""

    def rule(operation: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        if operation == "TransactWriteItems":
            answer = error(operation, "TransactionCanceledException").response
            codes = [None if code == "None" else CancellationReason(code) for code in reasons]
            raise VerboseClientError(answer, operation, cancellation_reasons=codes)
        return send()

    return rule


def throttled(operation: str, times: int = 1, *, of: str = "") -> Rule:
    """Throttle the first requests with this operation, optionally only for range keys with this prefix."""
    left = [operation] * times

    def rule(name: str, request: Request, send: Callable[[], Answer]) -> Answer:
        key = request.get("Key", {}).get("use_case_id", {}).get("S", "")
        if name in left and key.startswith(of):
            left.remove(name)
            raise error(name, "ThrottlingException")
        return send()

    return rule


def before(network: Network, operation: str, act: Callable[[], object], *, of: str = "") -> None:
    """Call `act` right before the next request with this operation, without affecting its own requests."""

    def rule(name: str, request: Request, send: Callable[[], Answer]) -> Answer:
        key = request.get("Key", {}).get("use_case_id", {}).get("S", "")
        if name == operation and key.startswith(of):
            network.rule = passing
            act()
        return send()

    network.rule = rule


def lose_response(network: Network, operation: str, then: Callable[[], object] = lambda: None) -> None:
    """Apply the next request with this operation, call `then`, and answer with a server error."""

    def rule(name: str, _request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        if name == operation:
            network.rule = passing
            then()
            raise error(operation, "InternalServerError")
        return answer

    network.rule = rule


def error(operation: str, code: str, *, repeats: int = 0) -> ClientError:
    about = {"HTTPStatusCode": 400, "RetryAttempts": repeats}
    return ClientError({"Error": {"Code": code, "Message": "of the test"}, "ResponseMetadata": about}, operation)
