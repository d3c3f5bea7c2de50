"""DynamoDB Local by Docker: AWS's own image."""

import shutil
import subprocess

from tests.engine.server import EngineUnavailable, Recipe

IMAGE = "amazon/dynamodb-local:3.1.0"
DOWNLOAD_TIMEOUT = 600.0


def recipe() -> Recipe:
    """Return how to run it, after pulling the image if it is missing; raises EngineUnavailable."""
    docker = shutil.which("docker")
    if docker is None:
        raise EngineUnavailable("there is no Docker")
    if not _succeeds([docker, "info"], timeout=30):
        raise EngineUnavailable("the Docker daemon does not answer")
    if not _succeeds([docker, "image", "inspect", IMAGE], timeout=30) and not _succeeds([docker, "pull", IMAGE]):
        raise EngineUnavailable(f"Docker could not pull {IMAGE}")

    def command(port: int) -> list[str]:
        server = ["-jar", "DynamoDBLocal.jar", "-inMemory", "-disableTelemetry"]
        return [docker, "run", "--rm", "--init", "--publish", f"127.0.0.1:{port}:8000", IMAGE, *server]

    return Recipe(f"{IMAGE} (Docker)", command)


def _succeeds(command: list[str], timeout: float = DOWNLOAD_TIMEOUT) -> bool:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    # `docker info` succeeds without a daemon in some versions, and says so on the error stream only.
    return done.returncode == 0 and "Cannot connect" not in done.stderr
