"""The DynamoDB that tests run on: the endpoint in `TRACKER_TEST_ENDPOINT`, or a dynoxide of this process."""

import os
from dataclasses import dataclass

from tests.engine import dynoxide
from tests.engine.server import EngineUnavailable, Server, answers, serve

__all__ = ["HOW_TO_GET_ONE", "VARIABLE", "Engine", "EngineUnavailable", "find", "start"]

VARIABLE = "TRACKER_TEST_ENDPOINT"
HOW_TO_GET_ONE = f"{dynoxide.HOW_TO_GET_IT}, or set {VARIABLE} to the address of a running DynamoDB"


@dataclass
class Engine:
    """A running DynamoDB."""

    endpoint: str
    how: str
    _server: Server | None = None

    def stop(self) -> None:
        """Stop it, unless it was given by its address."""
        if self._server is not None:
            self._server.stop()


def find() -> str:
    """Return a description of what `start` would start, building dynoxide if necessary.

    A built or found binary is remembered in `DYNOXIDE`, for this process and those that it starts.

    Raises:
        EngineUnavailable: there is none, and the message says why.
    """
    if endpoint := os.environ.get(VARIABLE):
        return _given(endpoint).how
    recipe = dynoxide.recipe()
    os.environ[dynoxide.PATH_VARIABLE] = recipe.command(0)[0]
    return recipe.how


def start() -> Engine:
    """Start a dynoxide with tables of its own, or return the given endpoint.

    Raises:
        EngineUnavailable: there is none, and the message says why.
    """
    if endpoint := os.environ.get(VARIABLE):
        return _given(endpoint)
    recipe = dynoxide.recipe()
    server = serve(recipe)
    return Engine(server.endpoint, recipe.how, server)


def _given(endpoint: str) -> Engine:
    if endpoint == "aws":
        raise EngineUnavailable(f"{VARIABLE}=aws is for `make assumptions` only")
    if not answers(endpoint):
        raise EngineUnavailable(f"nothing answers ListTables at {VARIABLE}={endpoint}")
    return Engine(endpoint, f"{VARIABLE}={endpoint}")
