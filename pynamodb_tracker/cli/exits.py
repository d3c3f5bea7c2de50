"""Exit codes, and errors that end a command with one line on stderr instead of a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO
from urllib.parse import urlsplit

import typer
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError
from pynamodb.exceptions import PynamoDBException, TableDoesNotExist

from pynamodb_tracker.cli.streams import discard
from pynamodb_tracker.cli.terminal import warn
from pynamodb_tracker.exceptions import TrackerError
from pynamodb_tracker.task.task import Task

FOUND, CANNOT_RUN, INTERRUPTED = 1, 2, 130
"""Something failed, was refused or was found; the command cannot run; Ctrl-C."""


class CannotRunError(Exception):
    """A command cannot do what it was asked to; the message says why on one line, and what to write instead."""


@contextmanager
def exit_on_error(model: type[Task] | None = None) -> Iterator[None]:
    """Report an error in one line on stderr and exit: with 1 for a refusal, with 2 if the command cannot run."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # report a full disk here, not when Python exits
    except CannotRunError as error:
        warn(str(error))
        raise typer.Exit(CANNOT_RUN) from None
    except TrackerError as error:
        warn(str(error))
        raise typer.Exit(FOUND) from None
    except (PynamoDBException, BotoCoreError, ClientError) as error:
        warn(f"{location(model)}: {one_line(error)}" if model else one_line(error))
        raise typer.Exit(CANNOT_RUN) from None
    except BrokenPipeError:  # typer exits quietly: the reader has seen enough
        raise
    except OSError as error:
        with suppress(OSError):
            discard(sys.stdout)
        with suppress(OSError):
            warn(f"cannot write to stdout: {error.strerror or error}")
        raise typer.Exit(CANNOT_RUN) from None


def check_connection(model: type[Task]) -> None:
    """Refuse an invalid endpoint before any request is sent."""
    try:
        host = urlsplit(model.tracker.connection().connection.client.meta.endpoint_url)
        _ = host.port
    except ValueError as error:
        raise CannotRunError(
            f"table {model.Meta.table_name}: {one_line(error)}: check Meta.host and AWS_ENDPOINT_URL_DYNAMODB"
        ) from None


def stdin() -> TextIO:
    """Return stdin; a CannotRunError if it is closed."""
    if sys.stdin is None:
        raise CannotRunError("stdin is closed, but the command has to read it: redirect a file to it, as in < FILE")
    return sys.stdin


def location(model: type[Task]) -> str:
    """Return the table and the endpoint that a command talks to."""
    name = f"table {model.Meta.table_name}"
    try:
        return f"{name} at {model.tracker.connection().connection.client.meta.endpoint_url}"
    except (BotoCoreError, ValueError):  # no region, or a Meta.host that is no URL
        return name


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line; for an error of PynamoDB or boto3, its cause and what to do."""
    if not isinstance(error, PynamoDBException | BotoCoreError | ClientError):
        return " ".join(str(error).split())
    cause = getattr(error, "cause", None) or error
    code = cause.response.get("Error", {}).get("Code") if isinstance(cause, ClientError) else None
    if isinstance(error, TableDoesNotExist) or code == "ResourceNotFoundException":
        return (
            "the table does not exist: create it with pynamodb-tracker create-table, or check the region and the "
            "account of your credentials"
        )
    if isinstance(cause, NoCredentialsError):
        return "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(cause, NoRegionError):
        return "no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION"
    if isinstance(cause, ClientError):
        return " ".join(f"{code}: {cause.response.get('Error', {}).get('Message')}".split())
    return " ".join(str(cause).split())
