"""What a failed request means: it is temporary, may have been applied, has invalid values, or settings are wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from traceback import walk_tb
from types import FrameType
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ProxyConnectionError,
    SSLError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from pynamodb.exceptions import PynamoDBException, TransactWriteError

SERVER_ERROR = 500
"""The first of HTTP's status codes for errors of the server."""

_TEMPORARY = {
    "InternalServerError",
    "InternalServerErrorException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
}

_TEMPORARY_REASONS = {"ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"}
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

_INVALID = {"ValidationException", "SerializationException"}

_PROOFS = {
    "ConditionalCheckFailedException",
    "IdempotentParameterMismatchException",
    "ItemCollectionSizeLimitExceededException",
    "ResourceNotFoundException",
    "UnknownOperation",
    "UnknownOperationException",
    *_INVALID,
}
"""Responses after which the same request can never be applied. All others may pass, known or not: an end is recorded
with the rights, and with the settings, with which the task was claimed a moment ago."""

_PROOFS_OF_REASONS = {"ConditionalCheckFailed", "DuplicateItem", "ItemCollectionSizeLimitExceeded", "ValidationError"}
"""The same, among the reasons why a transaction was cancelled."""

_CONFLICTS = {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}

_NO_CONNECTION = re.compile(
    "CERTIFICATE_VERIFY_FAILED|NewConnectionError|Tunnel connection failed|Unable to connect to proxy"
)
"""In errors of proxies and TLS, shows that there was no connection yet, so that nothing can have been sent."""

_DENIED = re.compile(r"perform: dynamodb:(\w+) on resource: \S+?:table/([\w.-]+)")
"""The operation and the table in a message of IAM."""

DENIED = {"AccessDenied", "AccessDeniedException"}

Writes = Sequence[Mapping[str, Any]]
"""Writes of a transaction, as DynamoDB takes them."""

_LOST = "pynamodb_tracker_lost"

_OF_ANOTHER_SCHEMA = (
    "does not have the specified index",
    "Invalid index",  # as moto says it
    "backfilling",  # the index is being created
    "key element does not match the schema",
    "Missing the key",
    "Type mismatch for key",
    "Type mismatch for Index Key",
    "Query condition missed key schema element",
    "number of query conditions",  # more than the index has key attributes
    "Condition parameter type does not match schema type",
    "does not project",  # an attribute of a filter
)
"""Parts of DynamoDB's messages about keys and indexes that the table does not have."""


def is_temporary(error: PynamoDBException) -> bool:
    """Return whether the same request may succeed later: it was throttled, got no response, or met a server error.

    A transaction may also have been cancelled for a conflict, or because one of its writes was throttled.
    """
    return is_retryable_response(error.cause) or got_no_response(error.cause) or _was_cancelled_for_now(error.cause)


class UnexpectedSdkError(BotoCoreError):  # type: ignore[misc]  # it has no types
    """An exception that the SDK let through, such as a FileNotFoundError from a provider of credentials."""

    fmt = "{kind}: {message}"


def is_of_sdk(error: Exception) -> bool:
    """Return whether an exception that left the SDK is about the request, and did not come from elsewhere.

    What a signal handler or another thread raises to stop the program is a class of its own, as a rule, or has the
    handler in its traceback, which is called with the frame that it interrupts. A mistake in a program stays one, too.
    """
    if isinstance(error, _MISTAKES) or type(error).__module__ not in _OF_PROVIDERS:
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return not any(_has_argument(frame, interrupted) for interrupted, frame in pairwise(frames))


def _has_argument(frame: FrameType, argument: object) -> bool:
    """Return whether a function was called with an argument, which may be one of its `*args`."""
    values = frame.f_locals.values()
    return any(each is argument for value in values for each in (value if type(value) is tuple else (value,)))


_MISTAKES = (ArithmeticError, AssertionError, AttributeError, MemoryError, NameError, RecursionError, TypeError)
"""What no fault of credentials raises, but code that is wrong, such as a hook of the SDK."""


_OF_PROVIDERS = {"builtins", "configparser", "json.decoder", "socket", "ssl", "subprocess", "urllib.error"}
"""Modules whose exceptions the providers of credentials and tokens let through."""


def _reasons(error: Exception | None) -> set[str]:
    """Return the codes of the reasons why a transaction was cancelled."""
    return {reason.code for reason in getattr(error, "cancellation_reasons", ()) if reason is not None}


def _was_cancelled_for_now(error: Exception | None) -> bool:
    """Return whether all reasons why a transaction was cancelled are temporary."""
    reasons = _reasons(error)
    return bool(reasons) and reasons <= _TEMPORARY_REASONS


def is_conflict(error: Exception) -> bool:
    """Return whether another write met this one: that is no fault, and passes at once."""
    return bool(_CONFLICTS & ({code_of(error)} | _reasons(error)))


def is_proof(error: Exception) -> bool:
    """Return whether the response proves that the request can never be applied."""
    if code_of(error) in _PROOFS or isinstance(error, ParamValidationError):
        return True
    return not _PROOFS_OF_REASONS.isdisjoint(_reasons(error))


def is_denied(error: Exception, theirs: Writes, own: Writes) -> bool:
    """Return whether a policy denies one of `theirs` in a transaction, and none of the `own` writes.

    The message names the operation and the table. If it does not, it may be any of them.
    """
    if code_of(error) not in DENIED:
        return False
    named = _DENIED.search(str(response_of(error).get("Error", {}).get("Message")))
    if named is None:
        return bool(theirs)
    return _has_write(theirs, *named.groups()) and not _has_write(own, *named.groups())


def _has_write(writes: Writes, operation: str, table: str) -> bool:
    return any(
        f"{kind}Item" == operation and write["TableName"].rpartition("table/")[2] == table
        for action in writes
        for kind, write in action.items()
    )


def is_unheard(error: PynamoDBException) -> bool:
    """Return whether the request may have been applied although its success was not answered."""
    return error.cause is not None and may_be_applied(error.cause)


def may_be_applied(error: Exception) -> bool:
    """Return whether the response to one of the tries was lost, so that the request may have been applied.

    A connection that was never made has sent nothing, and neither has a request that could not be signed.
    """
    known: bool | None = getattr(error, _LOST, None)
    return (is_lost(error) or was_repeated(error)) if known is None else known


def note_lost(error: Exception, *, is_lost: bool) -> None:
    """Note what is known of all tries of the request that has failed with this error."""
    setattr(error, _LOST, is_lost)


def is_lost(error: Exception) -> bool:
    """Return whether this try, taken for itself, may have been applied."""
    if isinstance(error, ClientError):
        return is_server_error(error)
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        return False
    if isinstance(error, ProxyConnectionError | SSLError):
        return _NO_CONNECTION.search(f"{error} {error.kwargs}") is None
    return got_no_response(error) or not isinstance(error, BotoCoreError)


def is_invalid(error: PynamoDBException) -> bool:
    """Return whether DynamoDB found the values themselves invalid."""
    if isinstance(error, TransactWriteError) and any(
        reason is not None and reason.code == "ValidationError" for reason in error.cancellation_reasons
    ):
        return True
    cause = error.cause
    return cause is not None and (code_of(cause) in _INVALID or isinstance(cause, ParamValidationError))


def is_missing_table(error: Exception | None) -> bool:
    """Return whether the server answered that it has no such table, or that it is not active yet.

    moto returns the same for a missing index.
    """
    if error is None or code_of(error) != "ResourceNotFoundException":
        return False
    return "Invalid index" not in str(response_of(error).get("Error", {}).get("Message"))


def is_of_another_schema(error: ClientError) -> bool:
    """Return whether the server answered that the table lacks a key or an index of the request."""
    response = error.response.get("Error", {})
    is_about_tables = response.get("Code") in ("ValidationException", "ResourceNotFoundException")  # the latter by moto
    return is_about_tables and any(part in str(response.get("Message")) for part in _OF_ANOTHER_SCHEMA)


def is_condition_failure(error: Exception) -> bool:
    """Return whether the condition of a write did not hold."""
    return code_of(error) == "ConditionalCheckFailedException"


def item_met(error: Exception) -> dict[str, Any] | None:
    """Return the item that failed the condition, if the request asked for it and the engine returns it."""
    return response_of(error).get("Item") or None


def is_server_error(error: Exception) -> bool:
    """Return whether the server failed, perhaps after it had applied the request."""
    return _metadata(error, "HTTPStatusCode") >= SERVER_ERROR


def is_retryable_response(error: Exception | None) -> bool:
    """Return whether the server answered that it cannot do this now."""
    return isinstance(error, ClientError) and (code_of(error) in _TEMPORARY or is_server_error(error))


def got_no_response(error: Exception | None) -> bool:
    """Return whether there was no response, after all retries of the SDK."""
    return isinstance(error, HTTPClientError | NoConnectionError)


def response_of(error: Exception) -> Mapping[str, Any]:
    """Return the response in botocore's error; PynamoDB's keeps only its code, and has the original as its cause."""
    original = error.__cause__ if isinstance(error.__cause__, ClientError) else error
    return getattr(original, "response", None) or {}  # botocore's error of a broken connection has None


def code_of(error: Exception) -> str:
    """Return DynamoDB's code of the error; "None" if there was no response."""
    return str(response_of(error).get("Error", {}).get("Code"))


def was_repeated(error: Exception) -> bool:
    """Return whether the SDK sent the request more than once, so that an earlier copy may have been applied."""
    return _metadata(error, "RetryAttempts") > 0


def _metadata(error: Exception, name: str) -> int:
    return int(response_of(error).get("ResponseMetadata", {}).get(name, 0))


def advise(error: BotoCoreError | ClientError, where: str) -> bool:
    """Add to the message of an error what to do, and which table it is about; False if settings did not cause it.

    The error keeps its type: programs catch it by that, and retries are decided by it.
    """
    if isinstance(error, ClientError):
        return _advise_on_response(error, where)
    if isinstance(error, NoRegionError):
        text = "no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION"
    elif isinstance(error, NoCredentialsError):
        text = "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    elif isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        text = f"cannot connect{_reason(error)}: check host and region in its Meta, AWS_ENDPOINT_URL, and the network"
    else:
        return False
    error.args = (f"{where}: {text}",)
    return True


def _advise_on_response(error: ClientError, where: str) -> bool:
    if not is_of_another_schema(error):
        return False
    response = error.response["Error"]
    text = f"{where} is not as its class declares it: pynamodb-tracker doctor says what differs, and what to do"
    response["Message"] = f"{response['Message']}; {text}"
    error.args = (f"{error}; {text}",)
    return True


def _reason(error: BaseException) -> str:
    """Return why a connection failed in the words of the operating system, if it did not just take too long."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f" ({cause.strerror})"
        cause = cause.__cause__ or cause.__context__
    return ""
