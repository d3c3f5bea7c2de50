"""A connection that repeats, delays and loses requests, as a network may do."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from pynamodb_tracker.testing.tables import OneAtATime

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}


@dataclass
class LateRequest:
    """A request that is still on its way."""

    operation: str
    request: dict[str, Any]
    note: str
    deliver: Callable[[], bool]


@dataclass
class Network:
    """What happens to the next write, and what is still on its way."""

    fault: str = "none"
    passes: int = 0
    """How many writes pass before the one that it strikes."""
    note: str = ""
    late: list[LateRequest] = field(default_factory=list)

    def strike(self) -> str:
        if self.passes:
            self.passes -= 1
            return "none"
        fault, self.fault = self.fault, "none"
        return fault


def faulty(network: Network) -> type[OneAtATime]:
    """Return a kind of connection whose writes meet the faults of this network."""

    class Faulty(OneAtATime):
        def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
            fault = network.strike() if operation_name in WRITES else "none"
            if fault == "none":
                return super().dispatch(operation_name, operation_kwargs)
            request = copy.deepcopy(operation_kwargs)
            if fault == "lost answer":
                self._unheard(operation_name, request)
            if fault in ("late copy", "late original"):
                network.late.append(
                    LateRequest(operation_name, request, network.note, lambda: self._unheard(operation_name, request))
                )
            return self._repeated(operation_name, operation_kwargs, repeated=fault != "late copy")

        def _repeated(self, operation: str, request: dict[str, Any], *, repeated: bool) -> dict[str, Any]:
            """Send it as the SDK's second try, which says so in the metadata of its answer."""
            try:
                answer = super().dispatch(operation, request)
            except ClientError as error:
                original: Any = error.__cause__  # botocore's own: PynamoDB's keeps the code alone
                original.response["ResponseMetadata"]["RetryAttempts"] = int(repeated)
                raise
            answer["ResponseMetadata"]["RetryAttempts"] = int(repeated)
            return answer

        def _unheard(self, operation: str, request: dict[str, Any]) -> bool:
            """Send it and lose its answer; return whether it was applied."""
            try:
                super().dispatch(operation, copy.deepcopy(request))
            except ClientError as error:
                if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
                return False
            return True

    return Faulty
