"""What the benchmarks ask of each way to keep tasks in DynamoDB: this library, others, and botocore by hand."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from unittest import mock

from tests.benchmarks.by_hand import ByHand
from tests.benchmarks.by_tracker import ByTracker
from tests.benchmarks.orders import Change
from tests.benchmarks.usage import Operation
from tests.engine.engine import HOW_TO_GET_ONE, Engine, EngineUnavailable, start

LIBRARY = "pynamodb_tracker"


class Way(Protocol):
    """One way, with a client and a table of its own."""

    about: str
    """What it does and does not do, in a line."""
    client: Any
    table: str
    keys: tuple[str, ...]
    """The names of the table's key attributes."""

    def make_table(self) -> None: ...

    def drop_table(self) -> None: ...

    def claimed(self, task_id: str, data: dict[str, Any]) -> dict[str, Any]: ...

    def create(self, task_id: str, data: dict[str, Any]) -> None: ...

    def run(self, task_id: str, change: Change | None = None) -> None:
        """Claim it, change its data, and record a success."""
        ...

    def operations(self, data: dict[str, Any]) -> Iterator[Operation]:
        """Yield the operations that it has; what comes between them prepares the next one."""
        ...


@dataclass(frozen=True, slots=True)
class _Peer:
    module: str
    name: str


_PEERS = {"pynamodb_mate": _Peer("by_mate", "ByMate"), "Powertools idempotency": _Peer("by_powertools", "ByPowertools")}


def ways() -> dict[str, Callable[[], Way]]:
    """Return all ways whose packages are installed; the library comes first."""
    return {LIBRARY: ByTracker, "botocore by hand": ByHand, **peers()}


def peers() -> dict[str, Callable[[], Way]]:
    found: dict[str, Callable[[], Way]] = {}
    for name, peer in _PEERS.items():
        with suppress(ModuleNotFoundError):
            found[name] = getattr(importlib.import_module(f"tests.benchmarks.{peer.module}"), peer.name)
    return found


def missing() -> Iterator[str]:
    if absent := ", ".join(_PEERS.keys() - peers()):
        yield f"left out, as they are not installed (make bench does that): {absent}"


@contextmanager
def engine() -> Iterator[Engine | str]:
    """Have a dynoxide that all clients talk to which are built meanwhile; or why there is none."""
    try:
        found = start()
    except EngineUnavailable as unavailable:
        yield f"left out, for want of dynoxide: {unavailable}\nto get one, {HOW_TO_GET_ONE}"
        return
    try:
        with mock.patch.dict("os.environ", AWS_ENDPOINT_URL_DYNAMODB=found.endpoint):
            yield found
    finally:
        found.stop()
