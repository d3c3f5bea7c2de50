"""The connection of a table: one botocore client for all its use cases, and retries that end at a deadline."""

from __future__ import annotations

import logging
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from datetime import datetime
from operator import methodcaller
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import botocore.client
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection
from pynamodb.exceptions import (
    DeleteError,
    GetError,
    PutError,
    PynamoDBConnectionError,
    PynamoDBException,
    TableDoesNotExist,
    TableError,
    UpdateError,
)

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb import error_codes
from pynamodb_tracker.dynamodb.around import around
from pynamodb_tracker.dynamodb.flight import Flight
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.dynamodb.retries import (
    SHORTEST_TIMEOUT,
    TRIES,
    NotSentError,
    Tries,
    check_time,
    deadline,
    latest_response,
    slept_before_retry,
)

log = logging.getLogger("pynamodb_tracker")

Item = dict[str, dict[str, Any]]
"""An item of the table, or a part of one, in the form of DynamoDB's API."""

R = TypeVar("R")

_ERRORS: dict[str, tuple[type[PynamoDBConnectionError], str]] = {
    "UpdateItem": (UpdateError, "Failed to update item"),
    "PutItem": (PutError, "Failed to put item"),
    "GetItem": (GetError, "Failed to get item"),
    "DeleteItem": (DeleteError, "Failed to delete item"),
}

_TRIES_OF_SDK = {"legacy": 10, "standard": 4, "adaptive": 4}
"""How often the SDK sends a request to DynamoDB in each retry mode, unless a number was set."""

_LONGEST_EXPONENT = 30
"""Of the SDK's pauses; more would be no number any more where it is to try a thousand times."""

_shared: ContextVar[Batcher | None] = ContextVar("pynamodb_tracker_batcher", default=None)

MOST_KEYS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""


class Refused(Exception):  # noqa: N818 - not an error: a condition did not hold, and transitions decide what follows
    """The condition of a write did not hold.

    `repeated` is True if the SDK or this library sent the request more than once; `item` is the item that failed the
    condition, if the request asked for it.
    """

    def __init__(self, *, repeated: bool, item: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.repeated = repeated
        self.item = item


class MissingTableError(PynamoDBConnectionError, TableDoesNotExist):
    """There is no such table: PynamoDB's `TableDoesNotExist`, with a message that says where, and what to do."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        PynamoDBException.__init__(self, message, cause)


def endpoint_of(client: botocore.client.BaseClient) -> str:
    """Return the URL to which a client sends its requests.

    An account may have an endpoint of its own, which botocore chooses for each request once it has credentials.
    """
    try:
        url = urlsplit(client.generate_presigned_url("describe_limits"))
    except (BotoCoreError, ClientError, OSError):  # no credentials
        return str(client.meta.endpoint_url)
    return f"{url.scheme}://{url.netloc}"


def missing_table(table: TableConnection, cause: Exception | None) -> MissingTableError:
    """Return the error for a request to a table that does not exist."""
    client = table.connection.client
    where = f"{client.meta.region_name} ({endpoint_of(client)})"
    error = MissingTableError(
        f"the table {table.table_name!r} does not exist in {where}, or is not active yet: call "
        "create_table(wait=True) on its class, deploy its template, or correct table_name and region in its Meta, or "
        "the account of the credentials",
        cause,
    )
    error.__cause__ = cause
    return error


class Batcher(Protocol):
    """What sends the writes of several threads together."""

    def dispatch(
        self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None
    ) -> dict[str, Any]:
        """Send a write, and return its response; raise the SDK's error for it."""
        ...


def send(
    table: TableConnection, operation: str, request: Mapping[str, Any], *, until: datetime | None = None
) -> dict[str, Any]:
    """Send a request through PynamoDB's connection; raise Refused, or PynamoDB's error of that operation.

    `until` is when the lock expires that the request is about; a later response is worthless. Temporary failures are
    retried with full jitter: throttling, server errors, and a TransactionConflict, which means that the write met a
    transaction on the same item and says nothing about the condition
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html). Within `Persisting`, all
    are, unless the response proves that it is no use.
    """
    tries, repeated = Tries(until), False
    batcher = None if operation == "GetItem" else _shared.get()
    while True:
        end = latest_response(until)
        try:
            check_time()
            connection = table.connection if end is None else connection_until(table, end)
            if batcher is not None:
                return batcher.dispatch(table, operation, {"TableName": table.table_name, **request}, end)
            return connection.dispatch(operation, {"TableName": table.table_name, **request})
        except (BotoCoreError, ClientError) as error:
            repeated = repeated or error_codes.was_repeated(error)
            if error_codes.is_condition_failure(error):
                raise Refused(repeated=repeated or tries.is_lost, item=error_codes.item_met(error)) from None
            if error_codes.is_missing_table(error):
                raise missing_table(table, error) from error
            if not tries.failed(error):
                error_codes.note_lost(error, is_lost=tries.is_lost)
                kind, message = _ERRORS[operation]
                raise kind(f"{message}: {error}", error) from error


@around
def sharing_requests(batcher: Batcher | None) -> Iterator[None]:
    """Let the writes of this block, and of what it calls, leave together with those of other threads."""
    before = _shared.set(batcher)
    try:
        yield
    finally:
        _shared.reset(before)


def shares_requests() -> bool:
    """Return whether writes leave together with those of other threads, as far as statements can express them."""
    return _shared.get() is not None


def connection_until(table: TableConnection, until: datetime) -> Connection:
    """Return a connection whose timeouts end a request at that time, or soon after."""
    connection, end = table.connection, deadline()
    if not isinstance(connection, SharedConnection):
        return connection
    seconds = clock.seconds_until(until)
    if end is None and seconds >= connection.longest:
        return connection
    return connection.within(seconds, math.inf if end is None else clock.seconds_until(end))


def read(table: TableConnection, request: Callable[[TableConnection], R]) -> R:
    """Make a read; retry it as `send` does."""
    tries = Tries()
    while True:
        end = latest_response(None)
        try:
            check_time()
            return request(table if end is None else _table_until(table, end))
        except NotSentError as error:
            raise GetError(f"Failed to read: {error}", error) from error
        except PynamoDBConnectionError as error:
            if error_codes.is_missing_table(error.cause):
                raise missing_table(table, error.cause) from error
            if not tries.failed(error.cause or error):
                raise


def _table_until(table: TableConnection, until: datetime) -> TableConnection:
    """Return the same table with a connection whose timeouts end a request at that time, or soon after."""
    bounded = copy(table)
    bounded.connection = connection_until(table, until)
    return bounded


def pages(
    table: TableConnection, query: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield the responses of a query or a scan of the table; each page is requested when it is needed."""
    while True:
        response = read_page(table, query, *args, start=start, **options)
        yield response
        start = response.get("LastEvaluatedKey")
        if not start:
            return


def read_page(
    table: TableConnection, query: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> dict[str, Any]:
    """Return one response of a query or a scan of the table, from `start` on."""
    return read(table, methodcaller(query.__name__, *args, exclusive_start_key=start, **options))


def get_items(table: TableConnection, keys: Sequence[Item], *, consistent: bool = True) -> Iterator[Item]:
    """Read items by key, strongly consistent if not told otherwise; unprocessed keys are requested again.

    A response that has no item at all counts as throttled. GetError if the keys that are left cannot be read.
    """
    for at in range(0, len(keys), MOST_KEYS):
        left: Any = [_plain_key(key) for key in keys[at : at + MOST_KEYS]]
        tries, requests = Tries(), 0
        while left:
            response = read(table, methodcaller("batch_get_item", left, consistent_read=consistent))
            yield from response["Responses"].get(table.table_name, [])
            unprocessed = response.get("UnprocessedKeys", {}).get(table.table_name, {}).get("Keys", [])
            before, left = len(left), [_plain_key(key) for key in unprocessed]
            requests += 1
            if not left:
                break
            if requests == TRIES:
                text = "the table %s returns BatchGetItem in small pieces: %d keys are left after %d requests"
                log.warning(text, table.table_name, len(left), requests)
            error = _unprocessed(len(left))
            if len(left) < before:
                tries = Tries()
                goes_on = slept_before_retry(0)
            else:
                goes_on = tries.failed(error)
            if not goes_on:
                raise GetError(f"Failed to batch get items: {error}", error) from error


def _unprocessed(number: int) -> ClientError:
    """Return the SDK's error for a BatchGetItem that leaves keys: of a single request, the code would be this one."""
    message = f"{number} keys were left unprocessed, as they are while the table is throttled"
    return ClientError(
        {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": message}}, "BatchGetItem"
    )


def _plain_key(key: Item) -> dict[str, Any]:
    return {name: next(iter(value.values())) for name, value in key.items()}


def _set_user_agent(session: botocore.session.Session) -> None:
    """Give the clients of a session one fixed user agent, because botocore otherwise builds it twice for each request.

    The application's name from `AWS_SDK_UA_APP_ID` stays in it.
    """
    known = session.get_default_client_config()
    if known is not None and known.user_agent:
        return
    app_id = session.get_config_variable("user_agent_appid")
    parts = [session.user_agent(), "pynamodb_tracker", *([f"app/{app_id}"] if app_id else [])]
    named = Config(user_agent=" ".join(parts))
    session.set_default_client_config(named if known is None else known.merge(named))


class SharedConnection(Connection):
    """PynamoDB's connection; its client is built once, even if several threads ask for it at the same time.

    A client's timeouts are fixed, so requests that are sent shortly before a lock expires use another connection with
    the same settings, retries included, and shorter timeouts. Its client is built when it is first needed.

    What is done under the lock `building` is on the line of its `with`. Python visits that line again to release the
    lock: an exception that a trace function raises there would leave it locked, and every thread waiting for it. Since
    3.12, it also visits it again after an `or`.
    """

    def __init__(self, *, like: SharedConnection | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.building: threading.RLock = like.building if like else threading.RLock()
        self._settings = settings
        self._session: botocore.session.Session | None = like.session if like else None
        self._rungs: tuple[list[_Rung], list[_Rung]] | None = None
        self.longest = math.inf
        """How many seconds a request can take, the SDK's retries included; infinity until that is known."""
        self._flight = Flight()
        _connections.add(self)

    @property
    def session(self) -> botocore.session.Session:
        """Return the session that all clients of the table share: another client then takes 3 ms instead of 70."""
        with self.building: return self._same_session()  # fmt: skip  # noqa: E701 - see the class

    @property
    def client(self) -> botocore.client.BaseClient:
        """Return the one botocore client of this connection."""
        try:
            with self.building: return self._flight.watched(super().client)  # fmt: skip  # noqa: E701 - see the class
        except BotoCoreError as error:
            if not error_codes.advise(error, self._described):
                error.args = (f"{self._described}: {error}",)
            raise error.with_traceback(None) from None

    def _make_api_call(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        self._flight.begin()
        try:
            return super()._make_api_call(operation_name, operation_kwargs)
        except ClientError as error:
            self._flight.end(error)
            if "TransactItems" not in operation_kwargs and error_codes.is_of_another_schema(error):
                error_codes.advise(error, f"{self._described} at {endpoint_of(self.client)}")
            raise
        except BotoCoreError as error:
            if self._client is None:  # it cannot be built
                raise
            self._flight.end(error)
            contacted = error.kwargs.get("endpoint_url") or self.client.meta.endpoint_url
            if error_codes.advise(error, f"{self._described} at {str(contacted).rstrip('/')}"):
                raise error.with_traceback(None) from None  # its message says it all: 60 lines of the SDK less
            raise
        except Exception as error:
            if self._client is None or not error_codes.is_of_sdk(error):
                raise
            unexpected = error_codes.UnexpectedSdkError(kind=type(error).__name__, message=error)
            self._flight.end(unexpected)
            raise unexpected from error

    @property
    def _described(self) -> str:
        return f"table {next(iter(self._tables))}"

    def create_table(self, table_name: str, *args: Any, **options: Any) -> dict[str, Any]:
        """Create a table; a global index that declares no provisioned units gets as many as the table has.

        If it exists, another program, or an earlier copy of the request, has created it meanwhile: nothing is changed.
        """
        names = {"ReadCapacityUnits": "read_capacity_units", "WriteCapacityUnits": "write_capacity_units"}
        units = {name: options.get(option) for name, option in names.items()}
        for index in options.get("global_secondary_indexes") or ():
            index["provisioned_throughput"] = units | index["provisioned_throughput"]
        try:
            return super().create_table(table_name, *args, **options)
        except TableError as error:
            if error.cause_response_code != "ResourceInUseException":
                raise
            return {}

    def update_time_to_live(self, table_name: str, ttl_attribute_name: str) -> dict[str, Any]:
        """Switch time to live on, unless another program has just done so, as `create_table` does."""
        try:
            return super().update_time_to_live(table_name, ttl_attribute_name)
        except TableError as error:
            was_faster = "multiple times" in str(error) and self._has_time_to_live(table_name)
            if not (was_faster or "already enabled" in str(error)):
                raise
            return {}

    def _has_time_to_live(self, table_name: str) -> bool:
        found = self.client.describe_time_to_live(TableName=table_name)["TimeToLiveDescription"]
        return found["TimeToLiveStatus"] in ("ENABLING", "ENABLED")

    def prepare(self) -> None:
        """Build the client, what requests with a deadline need, and what the first request and refusal would build."""
        self._build_rungs()
        self.client.meta.service_model.shape_for_error_code("ConditionalCheckFailedException")  # it indexes all errors
        "localhost".encode("idna")  # as urllib3 does with each host; it imports large tables

    def within(self, seconds: float, strictly: float = math.inf) -> SharedConnection:
        """Return a connection that ends a request in that time, the SDK's retries included.

        This is the connection itself if there is enough time, and the one with the shortest timeouts if none is quick
        enough. Within a time that counts `strictly`, the SDK may pause after throttling, too, and tries less often.
        """
        slower, fewer = self._rungs or self._build_rungs()
        for longest, pauses, connection in slower:
            if seconds >= longest and strictly >= longest + pauses:
                return connection
        if strictly == math.inf or not fewer:
            return slower[-1][2]
        return next((found for longest, pauses, found in fewer if strictly >= longest + pauses), fewer[-1][2])

    def _build_rungs(self) -> tuple[list[_Rung], list[_Rung]]:
        """Return this connection and ones whose timeouts are halved again and again; then, ones with fewer tries."""
        with self.building: return self._same_rungs()  # fmt: skip  # noqa: E701 - see the class

    def _same_session(self) -> botocore.session.Session:
        if self._session:
            return self._session
        session = super().session
        _set_user_agent(session)
        self._session = session
        return session

    def _same_rungs(self) -> tuple[list[_Rung], list[_Rung]]:
        if self._rungs:
            return self._rungs
        config = self.client.meta.config
        tries = config.retries.get("total_max_attempts") or _TRIES_OF_SDK[config.retries["mode"]]
        connect, read = config.connect_timeout, config.read_timeout
        slower, fewer = [_rung(tries, connect, read, self)], list[_Rung]()
        while max(connect, read) >= 2 * SHORTEST_TIMEOUT:
            connect, read = (min(each, max(each / 2, SHORTEST_TIMEOUT)) for each in (connect, read))
            slower.append(_rung(tries, connect, read, self._like(connect, read)))
        while tries > 1:
            tries //= 2
            retries = {"total_max_attempts": tries, "mode": config.retries["mode"]}
            fewer.append(_rung(tries, connect, read, self._like(connect, read, retry_configuration=retries)))
        self._rungs, (self.longest, *_) = (slower, fewer), slower[0]
        return self._rungs

    def forget_client(self) -> None:
        """Build another client when it is needed, in a process that was forked.

        On a socket of its parent it could read the response to another request, and a lock that a thread of its parent
        held, here or in the SDK's session, would never be released.
        """
        self.building, self._local = threading.RLock(), threading.local()
        self._client = self._rungs = self._session = None
        self._flight, self.longest = Flight(), math.inf

    def _like(self, connect: float, read: float, **settings: Any) -> SharedConnection:
        timeouts = {"connect_timeout_seconds": connect, "read_timeout_seconds": read}
        found = type(self)(like=self, **{**self._settings, **timeouts, **settings})
        found._tables = self._tables  # noqa: SLF001 - what PynamoDB knows of the tables is the same
        return found


_Rung = tuple[float, float, SharedConnection]
"""How long a request can take, the pauses of the SDK after throttling, both in seconds, and the connection."""


def _rung(tries: int, connect: float, read: float, connection: SharedConnection) -> _Rung:
    pauses = 2.0 ** min(tries - 1, _LONGEST_EXPONENT) - 1  # up to 1, 2, 4 seconds and so on
    return tries * (connect + read), pauses, connection


_connections: weakref.WeakSet[SharedConnection] = weakref.WeakSet()


@in_forked_process
def _forget_clients() -> None:
    for connection in tuple(_connections):
        connection.forget_client()
