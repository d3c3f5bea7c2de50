"""BatchExecuteStatement: up to 25 writes in one request, each with its own condition.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html

A probe precedes the first batch: an update with a condition that never holds. If the engine does not refuse it and
return the item, or a policy denies it, writes are sent one by one.
"""

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

from pynamodb_tracker.dynamodb import error_codes, partiql
from pynamodb_tracker.dynamodb.connection import connection_until
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.instrumentation import log

MOST = 25  # writes in a request
_MOST_UNCLEAR = 3  # responses in a row, after which writes are sent one by one

_CODES = {  # of single requests, by the codes of statements
    "ConditionalCheckFailed": "ConditionalCheckFailedException",
    "DuplicateItem": "ConditionalCheckFailedException",
    "ItemCollectionSizeLimitExceeded": "ItemCollectionSizeLimitExceededException",
    "ProvisionedThroughputExceeded": "ProvisionedThroughputExceededException",
    "ResourceNotFound": "ResourceNotFoundException",
    "ThrottlingError": "ThrottlingException",
    "TransactionConflict": "TransactionConflictException",
}

_VERBS = {"UpdateItem": "Update", "PutItem": "Insert", "DeleteItem": "Delete"}
"""Operations as statements, with their IAM names:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-iam.html"""

_UNKNOWN = {"UnknownOperation", "UnknownOperationException"}
_INVALID, _INVALID_STATEMENT = "ValidationException", "ValidationError"
_UNHEARD = "InternalServerError"  # for a write that may have been applied. A retry shows the outcome.


class BatchedWrite:
    def __init__(self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None) -> None:
        self.shared = table.connection
        self.connection = self.shared if until is None else connection_until(table, until)
        self.operation = operation
        self.request = request
        self.statement = partiql.statement(operation, request)
        self.key = partiql.key_of(request)
        self.alone = False
        self.response: dict[str, Any] | None = None
        self.error: Exception | None = None
        self._refused_with: str | None = None  # its batch's error code
        self._is_lost = False  # whether its batch may have been applied

    @property
    def can_be_batched(self) -> bool:
        return self.statement is not None and not _support(self.shared).is_off_for(self.operation)

    @property
    def has_result(self) -> bool:
        return self.response is not None or self.error is not None

    def send_alone(self) -> dict[str, Any]:
        try:
            return self.connection.dispatch(self.operation, self.request)
        except (BotoCoreError, ClientError) as error:
            if error_codes.code_of(error) == self._refused_with:  # so its batch was refused for a good reason
                _support(self.shared).note_understood()
            if self._is_lost:
                error_codes.note_lost(error, is_lost=True)
            raise

    def result(self) -> dict[str, Any]:
        """Return the response, or raise the error. Send the write now if it goes alone."""
        if self.alone:
            return self.send_alone()
        if self.error is not None:
            raise self._with_item_met(self.error)
        if self.response is None:
            raise _error(self.operation, _UNHEARD, "the request was interrupted before its response")
        return self.response

    def _with_item_met(self, error: Exception) -> Exception:
        """Add the existing item to a put's error, because INSERT does not return it."""
        asks = self.operation == "PutItem" and "ReturnValuesOnConditionCheckFailure" in self.request
        if not (asks and error_codes.is_condition_failure(error)) or error_codes.item_met(error) is not None:
            return error
        with suppress(BotoCoreError, ClientError):  # otherwise, the refusal is the better error
            error = ClientError({**error_codes.response_of(error), ITEM: self._read()}, self.operation)
        return error

    def _read(self) -> dict[str, Any] | None:
        read = {TABLE_NAME: self.request[TABLE_NAME], KEY: partiql.item_key(self.request), CONSISTENT_READ: True}
        return self.connection.dispatch("GetItem", read).get(ITEM)

    def go_alone(self, code: str, *, is_lost: bool) -> None:
        self.alone, self._refused_with, self._is_lost = True, code, is_lost

    def take(self, response: Mapping[str, Any], repeats: int) -> None:
        error = response.get("Error")
        if error is None and ITEM not in response and RETURN_VALUES in self.request:
            _support(self.shared).turn_off("the engine returns no rows for statements")
            self.error = _error(self.operation, _UNHEARD, "the engine returned no row")
            return
        if error is None:
            self.response = {ATTRIBUTES: response[ITEM]} if ITEM in response else {}
            return
        code, message = error.get("Code", ""), error.get("Message", "")
        if code in error_codes.DENIED:
            _support(self.shared).note_denied(self.operation, message)
            self.go_alone(code, is_lost=repeats > 0)
        elif code == _INVALID_STATEMENT:  # alone, the write may be valid, or gets a better message
            self.go_alone(_INVALID, is_lost=repeats > 0)
        else:
            self.error = _error(self.operation, _CODES.get(code, code), message, item=error.get(ITEM), repeats=repeats)


class _Support:
    """Whether an engine supports batches and respects their conditions."""

    def __init__(self) -> None:
        self._together: dict[str, bool] = {}
        """True once the engine has refused an operation's probe, False if its writes must be sent alone."""
        self._unclear = 0
        self._guard = threading.Lock()
        self._turning_off = threading.Lock()

    def is_off_for(self, operation: str) -> bool:
        return self._together.get(operation) is False

    def covers(self, operation: str) -> bool:
        return self._together.get(operation, False)

    def find_out(self, write: BatchedWrite) -> None:
        """Probe whether writes like this one can be batched, unless another thread does."""
        if write.operation not in self._together and self._guard.acquire(blocking=False):
            try:
                self._probe(write)
            finally:
                self._guard.release()

    def note_understood(self) -> None:
        self._unclear = 0

    def note_unclear(self, why: str) -> None:
        self._unclear += 1
        if self._unclear >= _MOST_UNCLEAR:
            self.turn_off(why)

    def note_denied(self, operation: str, message: str) -> None:
        self.turn_off(f"allow dynamodb:PartiQL{_VERBS[operation]} to save requests: {message}", operations={operation})

    def turn_off(self, why: str, level: int = logging.WARNING, operations: Iterable[str] = _VERBS) -> None:
        with self._turning_off:
            if all(map(self.is_off_for, operations)):
                return
            self._together.update(dict.fromkeys(operations, False))
        log.log(level, "writes are sent one by one, not up to %d in a request: %s", MOST, why)

    def _probe(self, write: BatchedWrite) -> None:
        if write.operation == "PutItem":  # so that the engine must refuse the statement
            try:
                write.response = write.connection.dispatch(write.operation, write.request)
            except (BotoCoreError, ClientError) as error:
                write.error = error
            else:
                self._send_probe(write, write.operation, write.statement)
            return
        # An engine that ignores conditions must fail this harmless probe before it sees a DELETE.
        self._send_probe(write, "UpdateItem", partiql.build_probe("UpdateItem", write.request))
        if write.operation == "DeleteItem" and "UpdateItem" in self._together:
            self._send_probe(write, "DeleteItem", partiql.build_probe("DeleteItem", write.request))

    def _send_probe(self, write: BatchedWrite, operation: str, probe: partiql.Statement | None) -> None:
        if probe is None or operation in self._together:
            return
        try:
            response = write.connection.dispatch("BatchExecuteStatement", {"Statements": [probe.as_entry()]})
        except Exception as error:  # noqa: BLE001 - an emulator in this process
            is_unexpected = isinstance(error, error_codes.UnexpectedSdkError) and error_codes.may_be_applied(error)
            self.note_refused(error.__cause__ if is_unexpected else error, operation)
            return
        response = response["Responses"][0]
        refusal: Mapping[str, Any] = response.get("Error", {})
        code = refusal.get("Code")
        if not refusal and operation == "DeleteItem" and ITEM not in response:
            self.note_unclear("the item to delete is gone, so the engine does not refuse the statement")
        elif not refusal:
            self.turn_off("the engine ignores statement conditions")
        elif code == "DuplicateItem" or (code == "ConditionalCheckFailed" and ITEM in refusal):
            self._together.setdefault(operation, True)
            self.note_understood()
        elif code in error_codes.DENIED:
            self.note_denied(operation, refusal.get("Message", ""))
        else:
            self.note_unclear(f"a statement that must be refused got the response {code} without the item")

    def note_refused(self, error: BaseException | None, *operations: str) -> None:
        if not isinstance(error, BotoCoreError | ClientError):
            why = f"an emulator in this process does not know such statements: {type(error).__name__} {error}".rstrip()
            self.turn_off(why, logging.INFO)  # its requests are free
            return
        code = error_codes.code_of(error)
        if code in error_codes.DENIED:
            for operation in operations:
                self.note_denied(operation, str(error))
        elif code in _UNKNOWN:
            self.turn_off(str(error))
        elif error_codes.is_proof(error) and not error_codes.is_missing_table(error):
            self.note_unclear(str(error))  # such as an invalid value


_known: WeakKeyDictionary[object, _Support] = WeakKeyDictionary()
_guard = threading.Lock()


def _support(connection: Connection) -> _Support:
    with _guard:
        return _known.setdefault(connection.client, _Support())


@in_forked_process  # a thread in the parent may have held a lock
def _forget() -> None:
    global _known, _guard
    _known, _guard = WeakKeyDictionary(), threading.Lock()


def execute(writes: Sequence[BatchedWrite]) -> None:
    """Send writes of one connection to different rows, in one request if possible.

    Afterwards each write has a response or an error, or goes alone. One with none of these may have been applied.
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
        _send_batch(together, support)


def _send_batch(writes: Sequence[BatchedWrite], support: _Support) -> None:
    entries = [write.statement.as_entry() for write in writes if write.statement is not None]
    try:
        response = writes[0].connection.dispatch("BatchExecuteStatement", {"Statements": entries})
    except ClientError as error:
        if error_codes.is_retryable_response(error):
            for write in writes:  # each thread adds notes to its own error
                write.error = ClientError(dict(error_codes.response_of(error)), write.operation)
                error_codes.note_lost(write.error, is_lost=error_codes.may_be_applied(error))
            return
        support.note_refused(error, *{write.operation for write in writes})
        for write in writes:
            write.go_alone(error_codes.code_of(error), is_lost=error_codes.may_be_applied(error))
    except BotoCoreError as error:
        for write in writes:
            write.error = copy(error)
            error_codes.note_lost(write.error, is_lost=error_codes.may_be_applied(error))
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
    metadata = {"HTTPStatusCode": 500 if code == _UNHEARD else 400, "RetryAttempts": repeats}
    met = {} if item is None else {ITEM: item}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata, **met}, operation)
