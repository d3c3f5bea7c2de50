"""The demo on a server: a table of its own there, and worker processes that really die."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import ExecutionContext
from pynamodb_tracker.demo.pipeline import DemoTask, Order, Work, WorkerDiedError

log = logging.getLogger("pynamodb_tracker")

_TRANSPORT_ERRORS = (BotoCoreError, ClientError, PynamoDBException)
"""What PynamoDB and botocore raise if the server is not there or refuses a request."""

_DIED = 75
"""The exit code of a worker process that dies as planned."""

_SETTINGS = ("host", "table_name", "region", "aws_access_key_id", "aws_secret_access_key")


class ServerError(Exception):
    """The server cannot be used as asked; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and the demo's own table there."""

    endpoint_url: str
    table_name: str

    def connect(self) -> None:
        """Make this the demo's table in this process."""
        # DynamoDB Local takes any keys, of letters and digits only.
        key = "demo" if _is_loopback(self.endpoint_url) and not _has_credentials() else None
        meta = DemoTask.Meta
        meta.host, meta.table_name = self.endpoint_url, self.table_name
        meta.region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        meta.aws_access_key_id = meta.aws_secret_access_key = key
        DemoTask.tracker.table.reconnect()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Make this the demo's table until the end of the block."""
        before = {name: getattr(DemoTask.Meta, name) for name in _SETTINGS}
        self.connect()
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(DemoTask.Meta, name, value)
            DemoTask.tracker.table.reconnect()

    @contextmanager
    def table(self, *, keep: bool) -> Iterator[None]:
        """Create the table, and delete it at the end of the block unless it is kept; no other table is touched.

        Requests that fail in the block are a ServerError.
        """
        with self.connected():
            with self._errors():
                if DemoTask.exists():
                    raise ServerError(f"the table {self.table_name!r} exists already: give --table-name another name")
            try:
                with self._errors():
                    DemoTask.create_table(wait=True)
                    yield
            except BaseException as error:
                if left := self._delete(keep=keep):
                    error.add_note(left)
                raise
            if left := self._delete(keep=keep):
                raise ServerError(left)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _TRANSPORT_ERRORS as error:
            raise ServerError(f"{self.endpoint_url}: {_first_line(error)}") from error

    def _delete(self, *, keep: bool) -> str | None:
        """Delete the table unless it is kept; return why that failed."""
        try:
            if not keep and DemoTask.exists():
                DemoTask.delete_table()
        except _TRANSPORT_ERRORS as error:
            return f"the table {self.table_name} could not be deleted, so delete it by hand: {_first_line(error)}"
        return None


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """The work as a worker process does it; sent to one, it connects that process to the table."""

    work: Work
    server: Server

    def __call__(self, ctx: ExecutionContext[Order]) -> None:
        """Do the step; a death ends the process as a power cut does: no `finally` of Python runs."""
        try:
            self.work(ctx)
        except WorkerDiedError:
            os._exit(_DIED)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Let the process that unpickles this connect to the table."""
        return _in_a_process, (self.work, self.server)


def _in_a_process(work: Work, server: Server) -> ProcessWork:
    log.addHandler(logging.NullHandler())
    server.connect()
    return ProcessWork(work, server)


@contextmanager
def silence() -> Iterator[None]:
    """Keep the library's log off stderr: the demo shows failures and deaths itself, and all of them are planned."""
    handler = logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def is_url(text: str) -> bool:
    """Return whether this can be the address of a server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _is_loopback(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _has_credentials() -> bool:
    """Return whether access keys are configured; a server on this machine is no reason to ask EC2 for some."""
    with mock.patch.dict(os.environ, AWS_EC2_METADATA_DISABLED="true"):
        return botocore.session.Session().get_credentials() is not None
