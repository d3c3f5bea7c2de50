"""The DynamoDB Local of a test session: a given one, else by Java and Maven, else by Docker."""

import os
from dataclasses import dataclass

from tests.engine import from_docker, from_maven
from tests.engine.server import EngineUnavailable, Server, answers, serve

__all__ = ["HOW_TO_GET_ONE", "Engine", "EngineUnavailable", "start"]

VARIABLE = "DYNAMODB_LOCAL_ENDPOINT"
HOW_TO_GET_ONE = (
    f"install Java 17 or later and Maven (apt-get install openjdk-17-jre-headless maven), or start Docker, "
    f"or set {VARIABLE} to the address of a running DynamoDB Local"
)


@dataclass
class Engine:
    """A DynamoDB Local that answers."""

    endpoint: str
    how: str
    _server: Server | None = None

    def stop(self) -> None:
        """End it, unless it was given."""
        if self._server is not None:
            self._server.stop()


def start() -> Engine:
    """Find or start a DynamoDB Local, within minutes the first time and seconds later; raises EngineUnavailable."""
    endpoint = os.environ.get(VARIABLE)
    if endpoint:
        return _given(endpoint)
    reasons = []
    for source in (from_maven, from_docker):
        try:
            recipe = source.recipe()
            server = serve(recipe)
        except EngineUnavailable as unavailable:
            reasons.append(str(unavailable))
        else:
            return Engine(server.endpoint, recipe.how, server)
    raise EngineUnavailable("; ".join(reasons))


def _given(endpoint: str) -> Engine:
    if not answers(endpoint):
        raise EngineUnavailable(f"nothing answers ListTables at {VARIABLE}={endpoint}")
    return Engine(endpoint, f"DynamoDB Local at {endpoint} ({VARIABLE})")
