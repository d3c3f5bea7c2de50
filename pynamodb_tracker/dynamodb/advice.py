"""What the SDK's errors leave out when settings cause them: which table a request was about, and what to set."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
)

_OF_ANOTHER_SCHEMA = (
    "does not have the specified index",
    "Invalid index",  # as moto says it
    "backfilling",  # the index is being created
    "key element does not match the schema",
    "Missing the key",
    "Type mismatch for key",
    "required keys was not given",  # as DynamoDB Local says it
)
"""Parts of DynamoDB's messages about keys and indexes that the table does not have."""


def advise(error: BotoCoreError | ClientError, where: str) -> bool:
    """Add to the message of an error what to do, and which table it is about; False if settings did not cause it.

    The error keeps its type: programs catch it by that, and retries are decided by it.
    """
    if isinstance(error, ClientError):
        return _advise_on_answer(error, where)
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


def _advise_on_answer(error: ClientError, where: str) -> bool:
    answer = error.response.get("Error", {})
    is_about_tables = answer.get("Code") in ("ValidationException", "ResourceNotFoundException")  # the latter by moto
    if not (is_about_tables and any(part in str(answer.get("Message")) for part in _OF_ANOTHER_SCHEMA)):
        return False
    text = f"{where} is not as its class declares it: pynamodb-tracker doctor says what differs, and what to do"
    answer["Message"] = f"{answer['Message']}; {text}"
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
