"""The shop on dynoxide, for this process and for commands in processes of their own."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cli.command import APP
from tests.cli.shop import StoreTask
from tests.demo.command import environment
from tests.engine.engine import Engine
from tests.support.engines import Dynoxide
from tests.support.forked import Forked
from tests.support.pages import ROOT

Environment = Mapping[str, str]


@contextmanager
def on_server(engine: Engine) -> Iterator[Environment]:
    """Have the table of the shop there, and yield the environment in which a command finds it."""
    with Dynoxide.of([StoreTask], engine.endpoint, suffix=""):
        yield {
            "AWS_ENDPOINT_URL_DYNAMODB": engine.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "PYNAMODB_TRACKER_APP": APP,
        }


def started(server: Environment, *arguments: str) -> subprocess.Popen[str]:
    """Start a command that finds the table, and the module of the shop."""
    return Forked(
        ["pynamodb_tracker", *arguments],
        cwd=ROOT,
        env={**environment(), **server},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
