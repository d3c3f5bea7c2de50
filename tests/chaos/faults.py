"""The network of a run: the seed and a request's number decide its fate."""

import errno
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from botocore.endpoint import Endpoint
from botocore.exceptions import CredentialRetrievalError, EndpointConnectionError, SSLError

from tests.chaos.settings import Rates, Settings
from tests.engine.actions import (
    PASS,
    THROTTLED,
    Action,
    Delay,
    DropRequest,
    DropResponse,
    Duplicate,
    Exchange,
    Fail,
    FailEverySecond,
    Hold,
)
from tests.engine.proxy import Proxy, Reply

KINDS = frozenset(asdict(Rates()))
"""Everything that can happen to a request."""
READS = {"GetItem", "BatchGetItem", "Query", "Scan"}
TRANSACTION = "TransactWriteItems"
ERROR_500, CONFLICT = Fail(), Fail(400, "TransactionConflictException")
REFUSED = ("ExpiredTokenException", "InvalidSignatureException", "UnrecognizedClientException")
"""Refusals for temporarily wrong credentials or signatures."""
CODES = {ERROR_500.code, CONFLICT.code, THROTTLED.code, *REFUSED}
"""Errors that DynamoDB can return here. A transaction may also be cancelled."""


def _cancelled(*reasons: str) -> Fail:
    """Return how a transaction fails because of the task's write or another one."""
    more = {"CancellationReasons": [{"Code": reason} for reason in reasons]}
    return Fail(400, "TransactionCanceledException", more=more)


def _fitted(action: Action, writes: int) -> Action:
    """Return the action for a transaction with that many writes, because the response has a reason for each."""
    if not isinstance(action, Fail) or "CancellationReasons" not in action.more:
        return action
    one, other = (reason["Code"] for reason in action.more["CancellationReasons"])
    if writes == 1:
        return _cancelled(other if one == "None" else one)
    return _cancelled(one, *["None"] * (writes - 2), other)


THROTTLED_IN = (THROTTLED, _cancelled("ThrottlingError", "None"), _cancelled("None", "ThrottlingError"))
CONFLICT_IN = (_cancelled("TransactionConflict", "None"), _cancelled("None", "TransactionConflict"))
BATCH = "BatchExecuteStatement"
SERVER_ERROR_IN_BATCH: Sequence[Action] = (
    ERROR_500,
    *(FailEverySecond(ERROR_500.code, applied=applied) for applied in (False, True)),
)
THROTTLED_IN_BATCH = (THROTTLED, FailEverySecond("ThrottlingError"))
CONFLICT_IN_BATCH = (
    *(FailEverySecond("TransactionConflict"), FailEverySecond("ValidationError")),
    Fail(400, "ValidationException"),
)
THROTTLED_IN_BY: dict[str, Sequence[Action]] = {TRANSACTION: THROTTLED_IN, BATCH: THROTTLED_IN_BATCH}
CONFLICT_IN_BY: dict[str, Sequence[Action]] = {TRANSACTION: CONFLICT_IN, BATCH: CONFLICT_IN_BATCH}
FIRST = {"": len(KINDS), TRANSACTION: 2, BATCH: 1}
"""How many kinds of faults strike the first requests of a target, or all other writes."""
EVERY = 3
"""One in this many writes is struck, so that most repeats get through. Rare kinds are always struck."""
FEWER = {TRANSACTION: 0.5, BATCH: 0.3}
"""Divides the rates for rare requests."""
STUBBORN = 0.5
"""One in this many faults of transactions strikes all their repeats, because otherwise one soon gets through."""


class Wire(Proxy):
    """A proxy without a log, which would fill the memory. It knows the requests on their way."""

    requests = 0
    lost = 0
    """Requests that met a database that was down, or was killed while working on them."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._held: list[Exchange] = []

    def begin(self, target: str, payload: bytes) -> Exchange:
        try:
            body = json.loads(payload)
        except ValueError:
            raise ConnectionResetError("the client was killed while it sent a request") from None
        with self._lock:
            self.requests += 1
            exchange = Exchange(target, body, self.rule(target, body, self.requests))
            if isinstance(exchange.action, Hold | Delay):
                self._held = [exchange, *(each for each in self._held if not each.done.is_set())]
            return exchange

    def forward(self, path: str, headers: dict[str, str], payload: bytes, token: str = "") -> Reply:
        try:
            return super().forward(path, headers, payload, token)
        except ConnectionError:
            with self._lock:
                self.lost += 1
            raise

    @property
    def holds_any(self) -> bool:
        """Whether an abandoned request may still arrive."""
        return any(not exchange.done.is_set() for exchange in self._held)


class After(threading.Event):
    """An event that sets itself after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._due = time.monotonic() + seconds

    def wait(self, timeout: float | None = None) -> bool:
        return time.monotonic() >= self._due or super().wait(timeout)


class Faults:
    """A proxy rule: requests fail at the given rates until it stops.

    Some of the first requests meet each fault once, so that no run has to wait for chance.
    """

    def __init__(self, settings: Settings) -> None:
        self.counts: Counter[str] = Counter()
        self.in_transactions: Counter[str] = Counter()
        self.in_batches: Counter[str] = Counter()
        """Faults of requests with several statements."""
        self._settings = settings
        self._stopped = False
        self._stubborn: dict[str, int] = {}
        """By token, the number of the first request of a transaction with repeats that must fail in the same way."""
        draw = settings.drawn("first faults")
        kinds = sorted(kind for kind, rate in asdict(settings.rates).items() if rate)
        self._first = {of: draw.sample(kinds, min(number, len(kinds))) for of, number in FIRST.items()}
        """Faults that the first writes, transactions and batches still have to meet."""
        self._seen: Counter[str] = Counter()

    def stop(self) -> None:
        """Let everything pass from now on. Held requests still arrive."""
        self._stopped = True

    @property
    def all_struck(self) -> bool:
        """Whether each kind of fault has struck, two kinds a transaction, and one a batch."""
        return self.counts.keys() >= KINDS and len(self.in_transactions) > 1 and bool(self.in_batches)

    def __call__(self, target: str, body: dict[str, Any], ordinal: int) -> Action:
        if self._stopped:
            return PASS
        first = self._next_first(target if target in FIRST else "", target, body)
        number = self._stubborn.get(body.get("ClientRequestToken", ""), ordinal)
        kind, action = drawn(self._settings, target, number, first)
        slow = self._settings.drawn("slow", ordinal)
        if target == "BatchGetItem" and slow.random() < self._settings.slow_reads:
            kind, action = "delayed", Delay(self._settings.lock_seconds * slow.uniform(0.7, 2))
        if kind:
            self.counts[kind] += 1
        if kind and target == TRANSACTION:
            self.in_transactions[kind] += 1
            if self._settings.drawn("stubborn", ordinal).random() < STUBBORN:
                self._stubborn.setdefault(body["ClientRequestToken"], ordinal)
            return _fitted(action, len(body["TransactItems"]))
        if kind and target == BATCH and len(body["Statements"]) > 1:
            self.in_batches[kind] += 1
        return action

    def _next_first(self, of: str, target: str, body: dict[str, Any]) -> str:
        """Return the fault that this request has to meet as one of the first ones."""
        if target in READS or (target == BATCH and len(body["Statements"]) == 1) or not self._first[of]:
            return ""
        self._seen[of] += 1
        return self._first[of].pop() if of or self._seen[of] % EVERY == 0 else ""


UNSENT: tuple[Callable[[], Exception], ...] = (
    lambda: CredentialRetrievalError(provider="container-role", error_msg="429"),
    lambda: FileNotFoundError(errno.ENOENT, "No such file or directory", "/var/run/secrets/token"),
    lambda: EndpointConnectionError(endpoint_url="https://no.such.host"),
    lambda: SSLError(endpoint_url="https://dynamodb", error="CERTIFICATE_VERIFY_FAILED"),
)
"""Faults before sending: credentials, a token file, the host name, and a certificate."""


def fail_before_sending(settings: Settings, worker: str) -> None:
    """From now on, keep some of this process's requests from being sent."""
    create, numbers = Endpoint.create_request, count()

    def create_or_fail(endpoint: Endpoint, params: Any, model: Any = None) -> Any:
        draw = settings.drawn("unsent", worker, next(numbers))
        if draw.random() < settings.unsent:
            fault = draw.choice(UNSENT)
            raise fault()
        return create(endpoint, params, model)

    Endpoint.create_request = create_or_fail


def drawn(settings: Settings, target: str, ordinal: int, first: str = "") -> tuple[str, Action]:
    """Return the fate of the request with that number, and its name. `first` prescribes a kind."""
    draw = settings.drawn("request", ordinal)
    at = draw.random() * (3 if target in READS else FEWER.get(target, 1))
    later, held = draw.uniform(0.05, 2.0), draw.uniform(0.1, settings.longest_hold)
    actions: dict[str, Action] = {
        "dropped_request": DropRequest(),
        "dropped_response": DropResponse(),
        "duplicated": Duplicate(draw.choice(("first", "second"))),
        "held": Hold(After(held)),
        "delayed": Delay(later),
        "error_500": draw.choice(SERVER_ERROR_IN_BATCH) if target == BATCH else ERROR_500,
        "throttled": draw.choice(THROTTLED_IN_BY.get(target, (THROTTLED,))),
        "conflict": draw.choice(CONFLICT_IN_BY.get(target, (CONFLICT,))),
        "refused": Fail(400, draw.choice(REFUSED)),
    }
    for kind, rate in asdict(settings.rates).items():
        if first == kind or (at < rate and not first):
            return kind, actions[kind]
        at -= rate
    return "", PASS
