"""Scenarios for the proxy, and summaries of the requests that it has seen."""

from collections.abc import Callable
from typing import Any

from tests.engine.actions import PASS, Action, Exchange, Hold, Rule
from tests.engine.proxy import IDLE_TIMEOUT, Proxy


def in_turn(target: str, *turns: Action | Callable[[], object]) -> Rule:
    """Return a rule for the next requests of a target. Each turn is an action, or is called before the request."""
    left = list(turns)

    def rule(seen: str, _body: object, _ordinal: int) -> Action:
        if seen != target or not left:
            return PASS
        turn = left.pop(0)
        if not callable(turn):
            return turn
        turn()
        return PASS

    return rule


def arrive(proxy: Proxy, late: Hold) -> Exchange:
    """Let a held request arrive, and return it once the server has responded."""
    late.event.set()
    exchange = next(exchange for exchange in proxy.log if exchange.action is late)
    assert exchange.done.wait(IDLE_TIMEOUT)
    return exchange


def targets(proxy: Proxy) -> list[str]:
    return [exchange.target for exchange in proxy.log]


def charges(proxy: Proxy) -> list[dict[str, float]]:
    """Return each write's consumption in the table and in each index, if the request asked for INDEXES."""
    charges = []
    for consumed in _consumed(proxy):
        by_name = {"table": consumed["Table"], **consumed.get("GlobalSecondaryIndexes", {})}
        charges.append({name: each["CapacityUnits"] for name, each in by_name.items()})
    return charges


def writes(proxy: Proxy) -> list[float]:
    """Return each write's units, including indexes."""
    return [consumed["CapacityUnits"] for consumed in _consumed(proxy)]


def transactions(proxy: Proxy) -> list[float]:
    """Return each transaction's write units, including indexes."""
    answers = [exchange.answer for exchange in proxy.log if exchange.target == "TransactWriteItems"]
    return [sum(table["CapacityUnits"] for table in answer["ConsumedCapacity"]) for answer in answers if answer]


def _consumed(proxy: Proxy) -> list[dict[str, Any]]:
    answers = [exchange.answer for exchange in proxy.log if exchange.target in {"PutItem", "UpdateItem", "DeleteItem"}]
    return [answer["ConsumedCapacity"] for answer in answers if answer is not None and "ConsumedCapacity" in answer]
