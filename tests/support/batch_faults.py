"""Faults for requests with several statements: they affect all statements, or only some."""

from collections.abc import Callable

from botocore.exceptions import ReadTimeoutError

from tests.support.network import Answer, Request, Rule, error

BATCH = "BatchExecuteStatement"

Send = Callable[[], Answer]
Fault = Callable[[Request, Send], Answer]
"""Called with a request that has several statements, and a function that sends it."""


def of_batches(fault: Fault, *, times: int = 1000, probes: bool = False) -> Rule:
    """Return a rule for the first requests with several statements. `probes` includes those with only one."""
    left = [None] * times

    def rule(operation: str, request: Request, send: Send) -> Answer:
        if operation != BATCH or not left or (len(request["Statements"]) == 1 and not probes):
            return send()
        left.pop()
        return fault(request, send)

    return rule


def lost(_request: Request, send: Send) -> Answer:
    send()
    raise ReadTimeoutError(endpoint_url="of the test")


def loses(_request: Request, _send: Send) -> Answer:
    raise ReadTimeoutError(endpoint_url="of the test")


def repeated(_request: Request, send: Send) -> Answer:
    """Apply the request twice, and return the second response."""
    send()
    return send()


def denied(_request: Request, _send: Send) -> Answer:
    raise error(BATCH, "AccessDeniedException")


def raises(_request: Request, _send: Send) -> Answer:
    """Behave like an emulator that does not know the request."""
    raise AssertionError("not implemented")


def for_some(code: str, *, applied: bool = False) -> Fault:
    """Respond to every second statement with an error, and apply it only if `applied`."""

    def fault(request: Request, send: Send) -> Answer:
        statements = request["Statements"]
        request["Statements"] = statements if applied else statements[::2]
        answer = send()
        found = iter(answer["Responses"])
        failed = {"Error": {"Code": code, "Message": "of the test"}}
        responses = []
        for number in range(len(statements)):
            mine = next(found) if applied or number % 2 == 0 else {}
            responses.append(mine if number % 2 == 0 else failed)
        return {**answer, "Responses": responses}

    return fault


def responds_to_each(code: str) -> Fault:
    """Respond to every statement with an error, and apply none."""
    return lambda request, _send: {"Responses": [{"Error": {"Code": code}} for _ in request["Statements"]]}


def without_rows(_request: Request, send: Send) -> Answer:
    answer = send()
    for response in answer["Responses"]:
        response.pop("Item", None)
        response.get("Error", {}).pop("Item", None)
    return answer


def ignores_conditions(request: Request, send: Send) -> Answer:
    """Apply each statement by its key, ignoring its other conditions."""
    for statement in request["Statements"]:
        text, _, rest = statement["Statement"].partition(" AND (")
        _, returning, what = rest.rpartition(" RETURNING ")
        statement["Statement"] = text + (returning + what if returning else "")
        statement["Parameters"] = statement["Parameters"][: text.count("?")]
    return send()
