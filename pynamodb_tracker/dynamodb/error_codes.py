"""Classifies failed requests: temporary failures, lost responses, invalid values and wrong settings."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from traceback import walk_tb
from types import FrameType
from typing import Any

from botocore import exceptions as sdk
from pynamodb.exceptions import PynamoDBException, TransactWriteError

SERVER_ERROR = 500

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
"""Responses which prove that the request can never be applied.

All other errors may be temporary, because the claim has just succeeded with the same permissions and settings."""

_PROOFS_OF_REASONS = {"ConditionalCheckFailed", "DuplicateItem", "ItemCollectionSizeLimitExceeded", "ValidationError"}
_CONFLICTS = {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}

_NO_CONNECTION = re.compile(
    "CERTIFICATE_VERIFY_FAILED|NewConnectionError|Tunnel connection failed|Unable to connect to proxy"
)
"""Proxy and TLS errors which show that nothing was sent, because the connection failed."""

_DENIED = re.compile(r"perform: dynamodb:(\w+) on resource: \S+?:table/([\w.-]+)")
DENIED = {"AccessDenied", "AccessDeniedException"}
Writes = Sequence[Mapping[str, Any]]
_LOST = "pynamodb_tracker_lost"

_OF_ANOTHER_SCHEMA = (  # parts of DynamoDB's messages about missing keys and indexes
    "does not have the specified index",
    "Invalid index",  # moto
    "backfilling",
    "key element does not match the schema",
    "Missing the key",
    "Type mismatch for key",
    "Type mismatch for Index Key",
    "Query condition missed key schema element",
    "number of query conditions",
    "Condition parameter type does not match schema type",
    "does not project",
)


def is_temporary(error: PynamoDBException) -> bool:
    """Return whether the same request may succeed later."""
    reasons = _cancellation_reasons(error.cause)
    was_cancelled_for_now = bool(reasons) and reasons <= _TEMPORARY_REASONS
    return was_cancelled_for_now or is_retryable_response(error.cause) or got_no_response(error.cause)


class UnexpectedSdkError(sdk.BotoCoreError):  # type: ignore[misc]  # untyped
    """Any other exception from within the SDK, such as a FileNotFoundError from a credential provider."""

    fmt = "{kind}: {message}"


def is_of_sdk(error: Exception) -> bool:
    """Return whether an exception that left the SDK is about the request.

    A signal handler or another thread usually stops a program with its own exception class. Otherwise the traceback
    contains the handler, whose arguments include the interrupted frame.
    """
    if isinstance(error, _MISTAKES) or type(error).__module__ not in _OF_PROVIDERS:
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return not any(_has_argument(frame, interrupted) for interrupted, frame in pairwise(frames))


def _has_argument(frame: FrameType, argument: object) -> bool:
    values = frame.f_locals.values()  # may contain `*args`, a tuple
    return any(each is argument for value in values for each in (value if type(value) is tuple else (value,)))


# Programming errors, for example in an SDK hook. Missing credentials never raise these.
_MISTAKES = (ArithmeticError, AssertionError, AttributeError, MemoryError, NameError, RecursionError, TypeError)

# Modules with exceptions that credential providers let through.
_OF_PROVIDERS = {"builtins", "configparser", "json.decoder", "socket", "ssl", "subprocess", "urllib.error"}


def _cancellation_reasons(error: Exception | None) -> set[str]:
    return {reason.code for reason in getattr(error, "cancellation_reasons", ()) if reason is not None}


def is_conflict(error: Exception) -> bool:
    return bool(_CONFLICTS & ({code_of(error)} | _cancellation_reasons(error)))


def is_proof(error: Exception) -> bool:
    is_refused = code_of(error) in _PROOFS or isinstance(error, sdk.ParamValidationError)
    return is_refused or not _PROOFS_OF_REASONS.isdisjoint(_cancellation_reasons(error))


def is_denied(error: Exception, theirs: Writes, own: Writes) -> bool:
    """Return whether a policy denies one of `theirs` in a transaction, and none of `own`, as far as the error says."""
    if code_of(error) not in DENIED:
        return False
    named = _DENIED.search(str(response_of(error).get("Error", {}).get("Message")))
    if named is None:
        return bool(theirs)

    def has_named(writes: Writes) -> bool:
        parts = [(kind, write["TableName"]) for action in writes for kind, write in action.items()]
        return any((f"{kind}Item", table.rpartition("table/")[2]) == named.groups() for kind, table in parts)

    return has_named(theirs) and not has_named(own)


def is_in_doubt(error: PynamoDBException) -> bool:
    return error.cause is not None and may_be_applied(error.cause)


def may_be_applied(error: Exception) -> bool:
    """Return whether any try lost its response, so that the request may have been applied."""
    known: bool | None = getattr(error, _LOST, None)
    return (is_lost(error) or was_repeated(error)) if known is None else known


def note_lost(error: Exception, *, is_lost: bool) -> None:
    setattr(error, _LOST, is_lost)


def is_lost(error: Exception) -> bool:
    """Return whether this single try may have been applied."""
    if isinstance(error, sdk.ClientError):
        return is_server_error(error)
    if isinstance(error, sdk.EndpointConnectionError | sdk.ConnectTimeoutError):
        return False
    if isinstance(error, sdk.ProxyConnectionError | sdk.SSLError):
        return _NO_CONNECTION.search(f"{error} {error.kwargs}") is None
    return got_no_response(error) or not isinstance(error, sdk.BotoCoreError)


def is_invalid(error: PynamoDBException) -> bool:
    if isinstance(error, TransactWriteError) and "ValidationError" in _cancellation_reasons(error):
        return True
    cause = error.cause
    return cause is not None and (code_of(cause) in _INVALID or isinstance(cause, sdk.ParamValidationError))


def is_missing_table(error: Exception | None) -> bool:
    """Return whether the table does not exist or is not active. moto uses this code for a missing index, too."""
    if error is None or code_of(error) != "ResourceNotFoundException":
        return False
    return "Invalid index" not in str(response_of(error).get("Error", {}).get("Message"))


def is_of_another_schema(error: sdk.ClientError) -> bool:
    response = error.response.get("Error", {})
    is_about_tables = response.get("Code") in ("ValidationException", "ResourceNotFoundException")  # the latter by moto
    return is_about_tables and any(part in str(response.get("Message")) for part in _OF_ANOTHER_SCHEMA)


def is_condition_failure(error: Exception) -> bool:
    return code_of(error) == "ConditionalCheckFailedException"


def item_met(error: Exception) -> dict[str, Any] | None:
    return response_of(error).get("Item") or None


def is_server_error(error: Exception) -> bool:
    return _response_metadata(error, "HTTPStatusCode") >= SERVER_ERROR


def is_retryable_response(error: Exception | None) -> bool:
    return isinstance(error, sdk.ClientError) and (code_of(error) in _TEMPORARY or is_server_error(error))


def got_no_response(error: Exception | None) -> bool:
    return isinstance(error, sdk.HTTPClientError | sdk.ConnectionError)


def response_of(error: Exception) -> Mapping[str, Any]:
    original = error.__cause__ if isinstance(error.__cause__, sdk.ClientError) else error
    return getattr(original, "response", None) or {}  # None for a broken connection


def code_of(error: Exception) -> str:
    return str(response_of(error).get("Error", {}).get("Code"))


def was_repeated(error: Exception) -> bool:
    return getattr(error, _LOST, False) or _response_metadata(error, "RetryAttempts") > 0


def _response_metadata(error: Exception, name: str) -> int:
    return int(response_of(error).get("ResponseMetadata", {}).get(name, 0))


def advise(error: sdk.BotoCoreError | sdk.ClientError, where: str) -> bool:
    """Add the table and advice to an error's message. Return False if settings did not cause it."""
    if isinstance(error, sdk.ClientError):
        if not is_of_another_schema(error):
            return False
        response = error.response["Error"]
        text = f"{where} does not match its class: run pynamodb-tracker doctor to see the differences"
        response["Message"] = f"{response['Message']} ({text})"
        error.args = (f"{error} ({text})",)
        return True
    if isinstance(error, sdk.NoRegionError):
        text = "no region: set it in the Meta of the table's class, or set AWS_DEFAULT_REGION"
    elif isinstance(error, sdk.NoCredentialsError):
        text = "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    elif isinstance(error, sdk.EndpointConnectionError | sdk.ConnectTimeoutError):
        text = (
            f"cannot connect{_os_reason(error)}: check host and region in its Meta, AWS_ENDPOINT_URL, and the network"
        )
    else:
        return False
    error.args = (f"{where}: {text}",)
    return True


def _os_reason(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f" ({cause.strerror})"
        cause = cause.__cause__ or cause.__context__
    return ""
