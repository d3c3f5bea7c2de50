"""The shop on dynoxide, for this process and for commands in processes of their own."""

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from tests.cli.command import APP
from tests.cli.shop import StoreTask
from tests.demo.command import environment
from tests.engine.engine import Engine
from tests.support.forked import Forked
from tests.support.pages import ROOT

Environment = Mapping[str, str]


@contextmanager
def on_server(engine: Engine) -> Iterator[Environment]:
    """Have the table of the shop there, and yield the environment in which a command finds it.

    dynoxide keeps tables apart by access key: this one nobody else has.
    """
    key = f"cli{secrets.token_hex(8)}"
    with mock.patch.multiple(
        StoreTask.Meta, create=True, host=engine.endpoint, aws_access_key_id=key, aws_secret_access_key=key
    ):
        before = StoreTask.tracker.table.reconnect()
        try:
            StoreTask.create_table(wait=True)
            yield {
                "AWS_ENDPOINT_URL_DYNAMODB": engine.endpoint,
                "AWS_ACCESS_KEY_ID": key,
                "AWS_SECRET_ACCESS_KEY": key,
                "PYNAMODB_TRACKER_APP": APP,
            }
            StoreTask.delete_table()
        finally:
            StoreTask.tracker.connection().connection.client.close()
            StoreTask.tracker.table.reconnect(before)


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
