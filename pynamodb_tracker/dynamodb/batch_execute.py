"""BatchExecuteStatement: up to 25 writes in one request, each applied or refused by its own condition.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html

Whether that works is found out before it could do harm: an update that changes nothing, under a condition that never
holds, has to be refused, with the item in the refusal. An emulator may not know the request, or ignore its conditions,
and a policy may not allow it. Then the writes of that client are sent one by one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection
from pynamodb.constants import ATTRIBUTES, CONSISTENT_READ, ITEM, KEY, RETURN_VALUES, TABLE_NAME

from pynamodb_tracker.dynamodb import partiql
from pynamodb_tracker.dynamodb.connection import connection_until
from pynamodb_tracker.dynamodb.error_codes import (
    DENIED,
    UnexpectedSdkError,
    code_of,
    is_condition_failure,
    is_missing_table,
    is_proof,
    is_retryable_response,
    item_met,
    may_be_applied,
    note_lost,
    response_of,
)
from pynamodb_tracker.dynamodb.forking import in_forked_process

log = logging.getLogger("pynamodb_tracker")

MOST = 25
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html"""

_MOST_UNCLEAR = 3
"""After this many requests in a row whose responses do not show what the engine can do, writes are sent one by one."""

_CODES = {
    "ConditionalCheckFailed": "ConditionalCheckFailedException",
    "DuplicateItem": "ConditionalCheckFailedException",
    "ItemCollectionSizeLimitExceeded": "ItemCollectionSizeLimitExceededException",
    "ProvisionedThroughputExceeded": "ProvisionedThroughputExceededException",
    "ResourceNotFound": "ResourceNotFoundException",
    "ThrottlingError": "ThrottlingException",
    "TransactionConflict": "TransactionConflictException",
}
"""By the code of a statement's error, that of the single request, where the two differ."""

_VERBS = {"UpdateItem": "Update", "PutItem": "Insert", "DeleteItem": "Delete"}
"""The operations that statements stand for, and what IAM calls these:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-iam.html"""

_UNKNOWN = {"UnknownOperation", "UnknownOperationException"}
_INVALID, _INVALID_STATEMENT = "ValidationException", "ValidationError"
_UNHEARD = "InternalServerError"
"""Of a write that may have been applied: it is sent again, and settled by its conditions and its row."""


class BatchedWrite:
    """A write that may be sent together with others; its response, or its error, is that of a single request."""

    def __init__(self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None) -> None:
        self.shared = table.connection
        """The connection that all writes of the table share."""
        self.connection = self.shared if until is None else connection_until(table, until)
        """The one with timeouts that fit the time that is left."""
        self.operation = operation
        self.request = request
        self.statement = partiql.statement(operation, request)
        """None if it cannot be sent together with others."""
        self.key = partiql.key_of(request)
        self.alone = False
        self.response: dict[str, Any] | None = None
        self.error: Exception | None = None
        self._refused_with: str | None = None
        """The code with which a request that it was a part of was refused."""

    @property
    def can_be_batched(self) -> bool:
        """Whether it can be sent together with others, as far as is known."""
        return self.statement is not None and not _support(self.shared).is_off_for(self.operation)

    @property
    def has_result(self) -> bool:
        """Whether it was answered, or has failed."""
        return self.response is not None or self.error is not None

    def send_alone(self) -> dict[str, Any]:
        """Send it as a single request."""
        try:
            return self.connection.dispatch(self.operation, self.request)
        except ClientError as error:
            if code_of(error) == self._refused_with:  # so the request that it was a part of was rightly refused
                _support(self.shared).note_understood()
            raise

    def result(self) -> dict[str, Any]:
        """Return the response, or raise the error; a write that is to be sent alone is sent now."""
        if self.alone:
            return self.send_alone()
        if self.error is not None:
            raise self._with_item_met(self.error)
        if self.response is None:
            raise _error(self.operation, _UNHEARD, "the request was interrupted before its response")
        if self.response or RETURN_VALUES not in self.request:
            return self.response
        # An engine that returns no rows for statements: the row has what was written, or what was written after that.
        found = self._read()
        if found is None:
            raise _error(self.operation, _UNHEARD, "the row that it wrote is gone")
        return {ATTRIBUTES: found}

    def _with_item_met(self, error: Exception) -> Exception:
        """Return the error with the item that a put has met, which no statement returns, if it asks for it."""
        asks = self.operation == "PutItem" and "ReturnValuesOnConditionCheckFailure" in self.request
        if not (asks and is_condition_failure(error)) or item_met(error) is not None:
            return error
        with suppress(BotoCoreError, ClientError):  # the refusal says more than why the item cannot be read
            error = ClientError({**response_of(error), ITEM: self._read()}, self.operation)
        return error

    def _read(self) -> dict[str, Any] | None:
        read = {TABLE_NAME: self.request[TABLE_NAME], KEY: partiql.item_key(self.request), CONSISTENT_READ: True}
        return self.connection.dispatch("GetItem", read).get(ITEM)

    def go_alone(self, code: str) -> None:
        """Let it be sent alone, because what it was a part of was refused with that code."""
        self.alone, self._refused_with = True, code

    def take(self, response: Mapping[str, Any], repeats: int) -> None:
        """Take the response for its statement, which was repeated that often by the SDK."""
        error = response.get("Error")
        if error is None:
            self.response = {ATTRIBUTES: response[ITEM]} if ITEM in response else {}
            return
        code, message = error.get("Code", ""), error.get("Message", "")
        if code in DENIED:
            _support(self.shared).note_denied(self.operation, message)
            self.go_alone(code)
        elif code == _INVALID_STATEMENT:  # the single request may be valid, and its message says more if it is not
            self.go_alone(_INVALID)
        else:
            self.error = _error(self.operation, _CODES.get(code, code), message, item=error.get(ITEM), repeats=repeats)


class _Support:
    """What is known of a client: whether its engine takes several statements, and applies each by its condition."""

    def __init__(self) -> None:
        self._together: dict[str, bool] = {}
        """By operation: True once a statement was refused that had to be, and False for good if it is sent alone."""
        self._unclear = 0
        self._guard = threading.Lock()
        self._turning_off = threading.Lock()

    def is_off_for(self, operation: str) -> bool:
        """Return whether writes of that kind are sent one by one."""
        return self._together.get(operation) is False

    def covers(self, operation: str) -> bool:
        """Return whether writes of that kind can be sent together with others."""
        return self._together.get(operation, False)

    def find_out(self, write: BatchedWrite) -> None:
        """Find out whether writes like this one are covered.

        While another thread does that, nothing is known yet: waiting for it may take longer than a lock lasts.
        """
        if write.operation not in self._together and self._guard.acquire(blocking=False):
            try:
                self._probe(write)
            finally:
                self._guard.release()

    def note_understood(self) -> None:
        """Note that the response to a request showed that it was understood."""
        self._unclear = 0

    def note_unclear(self, why: str) -> None:
        """Note a request whose response does not show what the engine can do."""
        self._unclear += 1
        if self._unclear >= _MOST_UNCLEAR:
            self.turn_off(why)

    def note_denied(self, operation: str, message: str) -> None:
        """Note that a policy does not allow the statements of an operation; it may allow those of others."""
        why = f"allow dynamodb:PartiQL{_VERBS[operation]} to save requests: {message}"
        self.turn_off(why, operations={operation})

    def turn_off(self, why: str, level: int = logging.WARNING, operations: Iterable[str] = _VERBS) -> None:
        """Send such writes of this client one by one from now on, and log the reason once."""
        with self._turning_off:
            if all(map(self.is_off_for, operations)):
                return
            self._together.update(dict.fromkeys(operations, False))
        log.log(level, "writes are sent one by one, not up to %d in a request: %s", MOST, why)

    def _probe(self, write: BatchedWrite) -> None:
        """Send a statement that has to be refused."""
        if write.operation == "PutItem":  # once the item is there, the statement has to be refused
            try:
                write.response = write.connection.dispatch(write.operation, write.request)
            except (BotoCoreError, ClientError) as error:
                write.error = error
            else:
                self._ask(write, write.operation, write.statement)
            return
        # First what does no harm even if it is applied.
        self._ask(write, "UpdateItem", partiql.impossible("UpdateItem", write.request))
        if write.operation == "DeleteItem" and "UpdateItem" in self._together:
            self._ask(write, "DeleteItem", partiql.impossible("DeleteItem", write.request))

    def _ask(self, write: BatchedWrite, operation: str, probe: partiql.Statement | None) -> None:
        """Send the statement that has to be refused, and judge the response."""
        if probe is None or operation in self._together:
            return
        try:
            response = write.connection.dispatch("BatchExecuteStatement", {"Statements": [probe.as_entry()]})
        except Exception as error:  # noqa: BLE001 - an emulator within this process may raise anything
            raised = error.__cause__ if isinstance(error, UnexpectedSdkError) and may_be_applied(error) else error
            if isinstance(raised, BotoCoreError | ClientError):
                self.note_refused(raised, operation)
            else:
                said = f"{type(raised).__name__} {raised}".rstrip()
                why = f"an emulator within this process does not know such statements ({said})"
                self.turn_off(why, logging.INFO)  # its requests cost nothing
        else:
            self._judge(operation, response["Responses"][0])

    def _judge(self, operation: str, response: Mapping[str, Any]) -> None:
        error: Mapping[str, Any] | None = response.get("Error")
        code = None if error is None else error.get("Code")
        if error is None and operation == "DeleteItem" and ITEM not in response:
            self.note_unclear("the item that was to be deleted is gone, which no statement is refused for")
        elif error is None:
            self.turn_off("the engine ignores the conditions of statements")
        elif code == "DuplicateItem" or (code == "ConditionalCheckFailed" and ITEM in error):
            self._together.setdefault(operation, True)
            self.note_understood()
        elif code in DENIED:
            self.note_denied(operation, error.get("Message", ""))
        else:
            self.note_unclear(f"a statement that has to be refused is answered with {code}, without the item")

    def note_refused(self, error: Exception, *operations: str) -> None:
        """Note that the engine has refused a request with such statements as a whole."""
        code = code_of(error)
        if code in DENIED:
            for operation in operations:
                self.note_denied(operation, str(error))
        elif code in _UNKNOWN:
            self.turn_off(str(error))
        elif is_proof(error) and not is_missing_table(error):
            self.note_unclear(str(error))  # such as an invalid value


_known: WeakKeyDictionary[object, _Support] = WeakKeyDictionary()
_guard = threading.Lock()


def _support(connection: Connection) -> _Support:
    with _guard:
        return _known.setdefault(connection.client, _Support())


@in_forked_process
def _forget() -> None:
    """Find everything out again in a forked process: a thread of its parent may have held what guards it."""
    global _known, _guard
    _known, _guard = WeakKeyDictionary(), threading.Lock()


def execute(writes: Sequence[BatchedWrite]) -> None:
    """Send writes of one connection to different rows in one request, as far as that is possible.

    They have about the same time left, because that decides about the connection: a lock that is about to expire
    shortens the timeouts of no other write.

    After that, each has its response or its error, or is to be sent alone. One that has nothing of these may have been
    applied.
    """
    support = _support(writes[0].shared)
    together = list[BatchedWrite]()
    if len(writes) > 1:
        for write in {write.operation: write for write in writes}.values():
            support.find_out(write)
        together = [write for write in writes if support.covers(write.operation) and not write.has_result]
    for write in writes:
        write.alone = write not in together and not write.has_result
    if together:
        _send(together, support)


def _send(writes: Sequence[BatchedWrite], support: _Support) -> None:
    entries = [write.statement.as_entry() for write in writes if write.statement is not None]
    try:
        response = writes[0].connection.dispatch("BatchExecuteStatement", {"Statements": entries})
    except ClientError as error:
        if is_retryable_response(error):
            for write in writes:
                write.error = ClientError(dict(response_of(error)), write.operation)  # each adds notes to its own
                note_lost(write.error, is_lost=may_be_applied(error))
            return
        support.note_refused(error, *{write.operation for write in writes})
        for write in writes:
            write.go_alone(code_of(error))
    except BotoCoreError as error:
        for write in writes:
            write.error = copy(error)
            note_lost(write.error, is_lost=may_be_applied(error))
    else:
        responses = response["Responses"]
        codes = [response.get("Error", {}).get("Code") for response in responses]
        if _INVALID_STATEMENT in codes:
            support.note_unclear(responses[codes.index(_INVALID_STATEMENT)]["Error"].get("Message", ""))
        else:
            support.note_understood()
        repeats = response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
        for write, response in zip(writes, responses, strict=False):
            write.take(response, repeats)


def _error(operation: str, code: str, message: str, *, item: object = None, repeats: int = 0) -> ClientError:
    """Return the SDK's error for a single request that is answered with that code."""
    metadata = {"HTTPStatusCode": 500 if code == _UNHEARD else 400, "RetryAttempts": repeats}
    response: dict[str, Any] = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}
    if item is not None:
        response[ITEM] = item
    return ClientError(response, operation)
