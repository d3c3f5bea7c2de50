"""The server behind `--endpoint-url`, and the table that a demo makes there for itself and deletes in the end."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.demo.pipeline import DemoTask

__all__ = ["TRANSPORT_ERRORS", "ServerError", "Setup", "demo_table", "first_line", "is_url"]

TRANSPORT_ERRORS = (BotoCoreError, ClientError, PynamoDBException)
"""What PynamoDB and botocore raise where a server is not there, or does not do it."""


class ServerError(Exception):
    """The server cannot be used as asked; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a process needs to know to find the table."""

    endpoint_url: str
    table_name: str

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let the demo's table be this one, until the end of the block."""
        key = "demo" if _is_loopback(self.endpoint_url) and not _has_credentials() else None
        settings: dict[str, Any] = {
            "host": self.endpoint_url,
            "table_name": self.table_name,
            "region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            "aws_access_key_id": key,  # DynamoDB Local takes any, of letters and digits only
            "aws_secret_access_key": key,
        }
        with mock.patch.multiple(DemoTask.Meta, **settings):
            DemoTask.tracker.table.reconnect()
            try:
                yield
            finally:
                DemoTask.tracker.table.reconnect()


@contextmanager
def demo_table(setup: Setup, *, keep: bool) -> Iterator[None]:
    """Make the table, and delete it at the end of the block, however that ends; no other table is touched.

    What goes wrong between here and the server is a ServerError.
    """
    with setup.connected():
        with _told(setup):
            if DemoTask.exists():
                raise ServerError(f"the table {setup.table_name!r} is there already: give --table-name another name")
        try:
            with _told(setup):
                DemoTask.create_table(wait=True)
                yield
        except BaseException as error:
            try:
                _delete(setup, keep=keep)
            except ServerError as left:
                error.add_note(str(left))
            raise
        _delete(setup, keep=keep)


@contextmanager
def _told(setup: Setup) -> Iterator[None]:
    try:
        yield
    except TRANSPORT_ERRORS as error:
        raise ServerError(f"{setup.endpoint_url}: {first_line(error)}") from error


def _delete(setup: Setup, *, keep: bool) -> None:
    try:
        if not keep and DemoTask.exists():
            DemoTask.delete_table()
    except TRANSPORT_ERRORS as error:
        told = f"the table {setup.table_name} could not be deleted, so delete it by hand: {first_line(error)}"
        raise ServerError(told) from error


def first_line(error: Exception) -> str:
    """Return what an error says, on one line."""
    return str(error).partition("\n")[0]


def is_url(text: str) -> bool:
    """Tell whether this can be the address of a server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_loopback(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _has_credentials() -> bool:
    """Tell whether access keys are set up here; a server on this machine is no reason to ask EC2 for some."""
    with mock.patch.dict(os.environ, AWS_EC2_METADATA_DISABLED="true"):
        return botocore.session.Session().get_credentials() is not None
