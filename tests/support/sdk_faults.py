"""Everything inside the SDK that may keep a request from being applied, or its response from arriving."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

from botocore.endpoint import Endpoint
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
    UnauthorizedSSOTokenError,
)

Kind = Literal["unsigned", "refused", "unreached", "lost", "unheard"]
"""Fails before it is sent, with a response, without a connection, before it is applied, or after it is applied."""

_URL = "https://dynamodb.us-east-1.amazonaws.com"


@dataclass(frozen=True)
class Fault:
    name: str
    kind: Kind
    make: Callable[[], Exception | tuple[int, str]]
    """Returns the exception that the SDK sees, or the status and code of an error response."""

    def __str__(self) -> str:
        return self.name

    @property
    def may_be_applied(self) -> bool:
        """Whether the response leaves open if the request was applied."""
        return self.kind in {"lost", "unheard"}


def _response(code: str, status: int = 400) -> Fault:
    return Fault(code, "lost" if status >= 500 else "refused", lambda: (status, code))


def _proxied(text: str) -> ProxyConnectionError:
    return ProxyConnectionError(proxy_url="http://proxy:3128", error=OSError(text))


FAULTS = (
    Fault(
        "credentials endpoint", "unsigned", lambda: CredentialRetrievalError(provider="container-role", error_msg="429")
    ),
    Fault("no credentials", "unsigned", NoCredentialsError),
    Fault("token of a login", "unsigned", UnauthorizedSSOTokenError),
    Fault("token file", "unsigned", lambda: FileNotFoundError(2, "No such file or directory", "/var/run/token")),
    Fault("output of a provider", "unsigned", lambda: ValueError("Expecting value: line 1 column 1 (char 0)")),
    _response("ExpiredTokenException"),
    _response("InvalidSignatureException"),
    _response("UnrecognizedClientException"),
    _response("AccessDeniedException"),
    _response("ThrottlingException"),
    _response("SomethingNewException"),
    _response("InternalServerError", 500),
    _response("ServiceUnavailable", 503),
    Fault("name of the host", "unreached", lambda: EndpointConnectionError(endpoint_url=_URL)),
    Fault("no connection in time", "unreached", lambda: ConnectTimeoutError(endpoint_url=_URL)),
    Fault("proxy", "unreached", lambda: _proxied("Unable to connect to proxy")),
    Fault("certificate", "unreached", lambda: SSLError(endpoint_url=_URL, error="CERTIFICATE_VERIFY_FAILED")),
    Fault("closed connection", "lost", lambda: ConnectionClosedError(endpoint_url=_URL)),
    Fault("no response in time", "lost", lambda: ReadTimeoutError(endpoint_url=_URL)),
    Fault("lost response", "unheard", lambda: ReadTimeoutError(endpoint_url=_URL)),
)
ONE_OF_EACH_KIND = tuple({fault.kind: fault for fault in FAULTS}.values())

_WRITES = {"UpdateItem", "PutItem", "TransactWriteItems", "BatchExecuteStatement"}


class Sdk:
    """This process's SDK, with writes that fail on demand."""

    def __init__(self, client: Any) -> None:
        self.failures = 0
        """How many writes have failed since the last call of `fails`."""
        self.on_silence: Callable[[], object] = lambda: None
        """Called for each request without a response."""
        self.headers: dict[str, str] = {}
        self._faults: list[Fault] = []
        self._original = Endpoint._do_get_response
        client.meta.events.register_first("before-sign.dynamodb", self._before_sign, "of the test")

    def fails(self, fault: Fault | None, times: int = 1_000) -> None:
        """Let that many writes fail from now on, or none."""
        self.fails_in_turn(*([fault] * times if fault else []))

    def fails_in_turn(self, *faults: Fault) -> None:
        """Let the next writes fail like this."""
        self._faults, self.failures = [*faults], 0

    def _take(self, operation: str, *, signed: bool) -> Fault | None:
        if not self._faults or operation not in _WRITES or signed is (self._faults[0].kind == "unsigned"):
            return None
        self.failures += 1
        return self._faults.pop(0)

    def _before_sign(self, operation_name: str, **_: object) -> None:
        fault = self._take(operation_name, signed=False)
        if fault is not None:
            raise fault.make()  # type: ignore[misc]  # an unsigned fault is an exception

    @contextmanager
    def in_use(self) -> Iterator["Sdk"]:
        """Stand between all clients and the network."""
        original = self._original

        def respond(endpoint: Endpoint, request: Any, model: Any, context: Any) -> Any:
            fault = self._take(model.name, signed=True)
            if fault is None:
                return original(endpoint, request, model, context)
            if fault.kind == "unheard":
                original(endpoint, request, model, context)
            met = fault.make()
            if isinstance(met, tuple):
                status, code = met
                parsed = {"Error": {"Code": code, "Message": "of the test"}, "ResponseMetadata": {}}
                return (SimpleNamespace(status_code=status, headers=self.headers, content=b""), parsed), None
            self.on_silence()
            return None, met

        with mock.patch.object(Endpoint, "_do_get_response", respond):
            yield self
