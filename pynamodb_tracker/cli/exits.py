"""What a command ends with: its exit code, and one line on stderr instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO
from urllib.parse import urlsplit

import typer
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError
from pynamodb.exceptions import PynamoDBException, TableDoesNotExist

from pynamodb_tracker.cli.importer import AppError
from pynamodb_tracker.cli.terminal.echo import warn
from pynamodb_tracker.cli.terminal.stdio import unread
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.task.task import Task

__all__ = [
    "CANNOT_RUN",
    "FOUND",
    "INTERRUPTED",
    "CannotRunError",
    "check_connection",
    "one_line",
    "stdin",
    "told",
    "where",
]

FOUND, CANNOT_RUN, INTERRUPTED = 1, 2, 130
"""Something failed, was refused or was found; the command cannot run; Ctrl-C."""


class CannotRunError(Exception):
    """A command cannot do what it is asked to; the message says why on one line, and what to write."""


@contextmanager
def told(model: type[Task] | None = None) -> Iterator[None]:
    """Tell what goes wrong in one line on stderr, and exit: with 1 for a refusal, with 2 for what cannot run."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk is heard of here, and not when Python ends
    except (AppError, CannotRunError) as error:
        warn(str(error))
        raise typer.Exit(CANNOT_RUN) from None
    except TrackerError as error:
        warn(str(error))
        raise typer.Exit(FOUND) from None
    except (PynamoDBException, BotoCoreError, ClientError) as error:
        warn(f"{where(model)}: {_said(error)}" if model else _said(error))
        raise typer.Exit(CANNOT_RUN) from None
    except BrokenPipeError:  # who reads has seen enough
        raise
    except OSError as error:
        with suppress(OSError):
            unread(sys.stdout)
        with suppress(OSError):
            warn(f"stdout cannot be written: {error.strerror or error}")
        raise typer.Exit(CANNOT_RUN) from None


def check_connection(model: type[Task]) -> None:
    """Refuse settings of the connection that are none, before anything is asked."""
    try:
        host = urlsplit(model.tracker.connection().connection.client.meta.endpoint_url)
        _ = host.port
    except ValueError as error:
        raise CannotRunError(
            f"table {model.Meta.table_name}: {one_line(error)}: look at Meta.host and AWS_ENDPOINT_URL_DYNAMODB"
        ) from None


def stdin() -> TextIO:
    """Return stdin; a CannotRunError where it is closed."""
    if sys.stdin is None:
        raise CannotRunError("stdin is closed, and it is to be read: give it something, as in < FILE")
    return sys.stdin


def where(model: type[Task]) -> str:
    """Return the table and the server that a command speaks to."""
    name = f"table {model.Meta.table_name}"
    try:
        return f"{name} at {model.tracker.connection().connection.client.meta.endpoint_url}"
    except (BotoCoreError, ValueError):  # no region, or a Meta.host that is no URL
        return name


def one_line(error: BaseException) -> str:
    """Return what an error says on one line: of the transport, what is behind it."""
    if isinstance(error, PynamoDBException | BotoCoreError | ClientError):
        return _said(error)
    return " ".join(str(error).split())


def _said(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    code = cause.response.get("Error", {}).get("Code") if isinstance(cause, ClientError) else None
    if isinstance(error, TableDoesNotExist) or code == "ResourceNotFoundException":
        return (
            "there is no such table: make it with pynamodb-tracker create-table, or look in the region and with the "
            "credentials of the account that has it"
        )
    if isinstance(cause, NoCredentialsError):
        return "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(cause, NoRegionError):
        return "no region: write it in the Meta of the table's class, or set AWS_DEFAULT_REGION"
    if isinstance(cause, ClientError):
        return " ".join(f"{code}: {cause.response.get('Error', {}).get('Message')}".split())
    return " ".join(str(cause).split())
