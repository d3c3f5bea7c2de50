"""What can happen to a request between a client and DynamoDB."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.engine.server import Server


@dataclass(frozen=True)
class Pass:
    """Nothing: it is forwarded and answered."""


@dataclass(frozen=True)
class DropRequest:
    """The client is cut off, and the server never sees the request."""


@dataclass(frozen=True)
class DropResponse:
    """The server carries the request out, then the client is cut off without an answer."""


@dataclass(frozen=True)
class Crash:
    """The server is killed once it has carried the request out, or before, and starts again from its file.

    The client gets no answer.
    """

    server: Server
    applied: bool


@dataclass(frozen=True)
class Duplicate:
    """The server gets the request twice, one after the other; the client gets one of both answers."""

    answer: Literal["first", "second"] = "first"


@dataclass(frozen=True)
class Hold:
    """The client is cut off at once; the server gets the request late, once the event is set."""

    event: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Delay:
    seconds: float


@dataclass(frozen=True)
class After:
    event: threading.Event


@dataclass(frozen=True)
class Fail:
    status: int = 500
    code: str = "InternalServerError"
    message: str = "made to fail by a test"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"__type": f"com.amazonaws.dynamodb.v20120810#{self.code}", "message": self.message, **self.more}


@dataclass(frozen=True)
class FailEverySecond:
    """Of the statements of a BatchExecuteStatement, the client gets this error for the second, the fourth and so on.

    The server never sees these, unless they are to be `applied`.
    """

    code: str
    applied: bool = False


Action = Pass | DropRequest | DropResponse | Crash | Duplicate | Hold | Delay | After | Fail | FailEverySecond
PASS = Pass()
THROTTLED = Fail(400, "ThrottlingException")
OVER_CAPACITY = Fail(400, "ProvisionedThroughputExceededException")

Rule = Callable[[str, dict[str, Any], int], Action]
"""Called with the target ("UpdateItem"), the parsed body and the ordinal number (1, 2, …) of every request,
one call at a time, so that it may keep state without a lock."""


def pass_everything(_target: str, _body: dict[str, Any], _ordinal: int) -> Action:
    return PASS


def first(target: str, action: Action, *, times: int = 1) -> Rule:
    """Return a rule for the first request, or the first few, of a target; all others pass."""
    left = times

    def rule(seen: str, _body: dict[str, Any], _ordinal: int) -> Action:
        nonlocal left
        if seen != target or left == 0:
            return PASS
        left -= 1
        return action

    return rule


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]


@dataclass
class Exchange:
    """One request, what was done to it, and what the server answered, be it to nobody."""

    target: str
    body: dict[str, Any]
    action: Action
    answers: list[Answer] = field(default_factory=list)
    """One for most actions, two for Duplicate, none for DropRequest and for what is not yet over."""
    done: threading.Event = field(default_factory=threading.Event)
    """Set once nothing more will happen: wait for it after setting the event of a Hold."""

    @property
    def status(self) -> int | None:
        return self.answers[-1].status if self.answers else None

    @property
    def answer(self) -> dict[str, Any] | None:
        return self.answers[-1].body if self.answers else None
