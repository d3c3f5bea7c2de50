"""A table's connection: one botocore client, with retries that end at a deadline."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from pynamodb import exceptions
from pynamodb.connection.base import Connection
from pynamodb.connection.table import TableConnection

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb import error_codes, retries
from pynamodb_tracker.dynamodb.around import set_variable
from pynamodb_tracker.dynamodb.forking import in_forked_process
from pynamodb_tracker.instrumentation import log

Item = dict[str, dict[str, Any]]  # an item, or a part of one, in DynamoDB's wire format

R = TypeVar("R")

_ERRORS: dict[str, tuple[type[exceptions.PynamoDBConnectionError], str]] = {
    "UpdateItem": (exceptions.UpdateError, "Failed to update item"),
    "PutItem": (exceptions.PutError, "Failed to put item"),
    "GetItem": (exceptions.GetError, "Failed to get item"),
    "DeleteItem": (exceptions.DeleteError, "Failed to delete item"),
}

_TRIES_OF_SDK = {"legacy": 10, "standard": 4, "adaptive": 4}
_LONGEST_EXPONENT = 30  # against an overflow with a thousand tries
_shared: ContextVar[Batcher | None] = ContextVar("pynamodb_tracker_batcher", default=None)
MOST_KEYS = 100  # in a BatchGetItem


class Refused(Exception):  # noqa: N818 - an expected outcome
    """A write's condition did not hold."""

    def __init__(self, *, repeated: bool, item: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.repeated = repeated  # whether the request was sent more than once
        self.item = item  # that failed the condition, if it was asked for


class MissingTableError(exceptions.PynamoDBConnectionError, exceptions.TableDoesNotExist):
    def __init__(self, message: str, cause: Exception | None = None) -> None:
        exceptions.PynamoDBException.__init__(self, message, cause)


def endpoint_of(client: botocore.client.BaseClient) -> str:
    """Return a client's URL. With credentials, it may belong to the account."""
    try:
        url = urlsplit(client.generate_presigned_url("describe_limits"))
    except (BotoCoreError, ClientError, OSError):  # no credentials
        return str(client.meta.endpoint_url)
    return f"{url.scheme}://{url.netloc}"


def missing_table(table: TableConnection, cause: Exception | None) -> MissingTableError:
    client = table.connection.client
    where = f"{client.meta.region_name} ({endpoint_of(client)})"
    error = MissingTableError(
        f"the table {table.table_name!r} does not exist in {where}, or is not active yet: call "
        "create_table(wait=True) on its class, deploy its template, or correct its table_name, region or account",
        cause,
    )
    error.__cause__ = cause
    return error


class Batcher(Protocol):
    def dispatch(
        self, table: TableConnection, operation: str, request: dict[str, Any], until: datetime | None
    ) -> dict[str, Any]: ...


def send(
    table: TableConnection, operation: str, request: Mapping[str, Any], *, until: datetime | None = None
) -> dict[str, Any]:
    """Send a request through PynamoDB's connection. Raise Refused, or PynamoDB's error for the operation.

    `until` is when the row's lock expires. Temporary failures are retried, even TransactionConflict, which says nothing
    about the condition: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html

    Within `persist`, every failure is retried unless the response proves that retrying cannot help.
    """
    tries: retries.Tries | None = None
    repeated, batcher = False, None if operation == "GetItem" else _shared.get()
    while True:
        try:
            end = retries.end_of_request(until)
            named = {"TableName": table.table_name, **request}
            if batcher is not None:
                return batcher.dispatch(table, operation, named, end)
            return connection_until(table, end).dispatch(operation, named)
        except (BotoCoreError, ClientError) as error:
            tries = tries or retries.Tries(until)
            repeated = repeated or error_codes.was_repeated(error)
            if error_codes.is_condition_failure(error):
                raise Refused(repeated=repeated or tries.is_lost, item=error_codes.item_met(error)) from None
            if error_codes.is_missing_table(error):
                raise missing_table(table, error) from error
            if not tries.failed(error):
                error_codes.note_lost(error, is_lost=tries.is_lost)
                kind, message = _ERRORS[operation]
                raise kind(f"{message}: {error}", error) from error


def sharing_requests(batcher: Batcher | None) -> AbstractContextManager[None]:
    return set_variable(_shared, batcher)


def shares_requests() -> bool:
    return _shared.get() is not None


def connection_until(table: TableConnection, until: datetime | None) -> Connection:
    """Return a connection with timeouts that end a request at that time, or soon after."""
    connection = table.connection
    if until is None or not isinstance(connection, SharedConnection):
        return connection
    seconds = clock.seconds_until(until)
    if seconds >= connection.longest:  # so the deadline is not earlier, either
        return connection
    end = retries.deadline()
    return connection.within(seconds, math.inf if end is None else clock.seconds_until(end))


def read(table: TableConnection, request: Callable[[TableConnection], R]) -> R:
    tries: retries.Tries | None = None
    while True:
        try:
            end = retries.end_of_request(None)
            bounded = table
            if end is not None:
                bounded = copy(table)
                bounded.connection = connection_until(table, end)
            return request(bounded)
        except retries.NotSentError as error:
            raise exceptions.GetError(f"Failed to read: {error}", error) from error
        except exceptions.PynamoDBConnectionError as error:
            if error_codes.is_missing_table(error.cause):
                raise missing_table(table, error.cause) from error
            tries = tries or retries.Tries()
            if not tries.failed(error.cause or error):
                raise


def pages(
    table: TableConnection, query: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> Iterator[dict[str, Any]]:
    while True:
        response = read_page(table, query, *args, start=start, **options)
        yield response
        start = response.get("LastEvaluatedKey")
        if not start:
            return


def read_page(
    table: TableConnection, query: Callable[..., dict[str, Any]], *args: Any, start: Any = None, **options: Any
) -> dict[str, Any]:
    return read(table, methodcaller(query.__name__, *args, exclusive_start_key=start, **options))


def get_items(table: TableConnection, keys: Sequence[Item], *, consistent: bool = True) -> Iterator[Item]:
    """Read items by key, requesting unprocessed keys again."""
    for at in range(0, len(keys), MOST_KEYS):
        left: Any = [_plain_key(key) for key in keys[at : at + MOST_KEYS]]
        tries, requests = retries.Tries(), 0
        while left:
            response = read(table, methodcaller("batch_get_item", left, consistent_read=consistent))
            yield from response["Responses"].get(table.table_name, [])
            unprocessed = response.get("UnprocessedKeys", {}).get(table.table_name, {}).get("Keys", [])
            before, left = len(left), [_plain_key(key) for key in unprocessed]
            requests += 1
            if not left:
                break
            if requests == retries.TRIES:
                text = "the table %s returns BatchGetItem in small pieces: %d keys remain after %d requests"
                log.warning(text, table.table_name, len(left), requests)
            message = f"{len(left)} keys were not processed, which happens while the table is throttled"
            code = "ProvisionedThroughputExceededException"  # as for a single request
            error = ClientError({"Error": {"Code": code, "Message": message}}, "BatchGetItem")
            if len(left) < before:
                tries = retries.Tries()
                is_retried = retries.slept_before_retry(0)
            else:
                is_retried = tries.failed(error)
            if not is_retried:
                raise exceptions.GetError(f"Failed to batch get items: {error}", error) from error


def _plain_key(key: Item) -> dict[str, Any]:
    return {name: next(iter(value.values())) for name, value in key.items()}


def _set_user_agent(session: botocore.session.Session) -> None:
    """Give clients a constant user agent, because botocore otherwise builds it twice per request."""
    known = session.get_default_client_config()
    if known is not None and known.user_agent:
        return
    app_id = session.get_config_variable("user_agent_appid")
    parts = [session.user_agent(), "pynamodb_tracker", *([f"app/{app_id}"] if app_id else [])]
    named = Config(user_agent=" ".join(parts))
    session.set_default_client_config(named if known is None else known.merge(named))


class _Flight(threading.local):
    """A thread's current request. It watches all tries, because the SDK's error describes only the last."""

    is_sent = False  # a try is waiting for its response
    is_lost = False  # a try may have been applied without a response

    def watch(self, client: Any) -> None:
        events = client.meta.events
        events.register_last("before-send.dynamodb", self._note_sent, "pynamodb_tracker before-send")
        events.register_first("needs-retry.dynamodb", self._note_outcome, "pynamodb_tracker needs-retry")

    def end(self, error: Exception) -> None:
        error_codes.note_lost(error, is_lost=self.is_sent or self.is_lost)

    def _note_sent(self, **_: object) -> None:
        self.is_sent = True

    def _note_outcome(
        self, response: Any = None, caught_exception: Exception | None = None, **_: object
    ) -> bool | None:
        """Note a try's outcome. Return False to end the SDK's retries, because it does not know our deadline."""
        self.is_sent, asks_for_pause = False, False
        if caught_exception is not None:
            self.is_lost = self.is_lost or error_codes.is_lost(caught_exception)
        elif response is not None:
            self.is_lost = self.is_lost or response[0].status_code >= error_codes.SERVER_ERROR
            asks_for_pause = "x-amz-retry-after" in response[0].headers
        return False if retries.is_stopped() or (asks_for_pause and retries.deadline() is not None) else None


class SharedConnection(Connection):
    """PynamoDB's connection, with a client that is built only once, even if several threads need it.

    A client's timeouts are fixed. Shortly before a lock expires, requests use a connection with shorter ones.

    `with self.building` has its body on the same line. Python visits that line again to release the lock, and
    since 3.12 after an `or`. If a trace function raised there, the lock would stay locked forever.
    """

    def __init__(self, *, like: SharedConnection | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.building: threading.RLock = like.building if like else threading.RLock()
        self._settings = settings
        self._session: botocore.session.Session | None = like.session if like else None
        self._rungs: tuple[list[_Rung], list[_Rung]] | None = None
        self.longest = math.inf  # seconds that a request can take with the SDK's retries and pauses, once that is known
        self._flight = _Flight()
        self._watched: Any = None  # the client, once `_flight` watches it
        _connections.add(self)

    @property
    def session(self) -> botocore.session.Session:
        """Return the table's shared session. With it, a second client takes 3 ms instead of 70."""
        with self.building: return self._load_session()  # fmt: skip  # noqa: E701 - see the class

    @property
    def client(self) -> botocore.client.BaseClient:
        """Return this connection's only botocore client. PynamoDB replaces one without credentials."""
        client = self._watched
        if client is not None and client._request_signer._credentials:  # noqa: SLF001 - as PynamoDB asks
            return client
        try:
            with self.building: return self._load_client()  # fmt: skip  # noqa: E701 - see the class
        except BotoCoreError as error:
            if not error_codes.advise(error, self._description):
                error.args = (f"{self._description}: {error}",)
            raise error.with_traceback(None) from None

    def _make_api_call(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        self._flight.is_sent = self._flight.is_lost = False
        try:
            return super()._make_api_call(operation_name, operation_kwargs)
        except ClientError as error:
            self._flight.end(error)
            if "TransactItems" not in operation_kwargs and error_codes.is_of_another_schema(error):
                error_codes.advise(error, f"{self._description} at {endpoint_of(self.client)}")
            raise
        except BotoCoreError as error:
            if self._client is None:  # building it has failed
                raise
            self._flight.end(error)
            contacted = error.kwargs.get("endpoint_url") or self.client.meta.endpoint_url
            if error_codes.advise(error, f"{self._description} at {str(contacted).rstrip('/')}"):
                raise error.with_traceback(None) from None  # 60 lines from inside the SDK
            raise
        except Exception as error:
            if self._client is None or not error_codes.is_of_sdk(error):
                raise
            unexpected = error_codes.UnexpectedSdkError(kind=type(error).__name__, message=error)
            self._flight.end(unexpected)
            raise unexpected from error

    @property
    def _description(self) -> str:
        return f"table {next(iter(self._tables))}"

    def create_table(self, table_name: str, *args: Any, **options: Any) -> dict[str, Any]:
        """Create a table, unless it exists. An index without its own throughput gets the table's."""
        names = {"ReadCapacityUnits": "read_capacity_units", "WriteCapacityUnits": "write_capacity_units"}
        units = {name: options.get(option) for name, option in names.items()}
        for index in options.get("global_secondary_indexes") or ():
            index["provisioned_throughput"] = units | index["provisioned_throughput"]
        try:
            return super().create_table(table_name, *args, **options)
        except exceptions.TableError as error:
            if error.cause_response_code != "ResourceInUseException":
                raise
            return {}

    def update_time_to_live(self, table_name: str, ttl_attribute_name: str) -> dict[str, Any]:
        try:
            return super().update_time_to_live(table_name, ttl_attribute_name)
        except exceptions.TableError as error:
            if "multiple times" in str(error):
                found = self.client.describe_time_to_live(TableName=table_name)["TimeToLiveDescription"]
                if found["TimeToLiveStatus"] in ("ENABLING", "ENABLED"):
                    return {}
            if "already enabled" not in str(error):
                raise
            return {}

    def prepare(self) -> None:
        """Build everything now that the first request or refusal needs."""
        self._build_rungs()
        self.client.meta.service_model.shape_for_error_code("ConditionalCheckFailedException")  # indexes all errors
        "localhost".encode("idna")  # as urllib3 does, which imports large tables

    def within(self, seconds: float, strictly: float = math.inf) -> SharedConnection:
        """Return a connection that ends a request in that many seconds, or the quickest.

        `strictly` also counts the SDK's pauses after throttling, and allows connections with fewer tries.
        """
        slower, fewer = self._rungs or self._build_rungs()
        for longest, pauses, connection in slower:
            if seconds >= longest and strictly >= longest + pauses:
                return connection
        if strictly == math.inf or not fewer:
            return slower[-1][2]
        return next((found for longest, pauses, found in fewer if strictly >= longest + pauses), fewer[-1][2])

    def _build_rungs(self) -> tuple[list[_Rung], list[_Rung]]:
        """Return connections with ever shorter timeouts, and connections with fewer tries."""
        with self.building: return self._load_rungs()  # fmt: skip  # noqa: E701 - see the class

    def _load_session(self) -> botocore.session.Session:
        if self._session:
            return self._session
        session = super().session
        _set_user_agent(session)
        self._session = session
        return session

    def _load_client(self) -> botocore.client.BaseClient:
        client = super().client
        if client is not self._watched:
            self._flight.watch(client)
            self._watched = client
        return client

    def _load_rungs(self) -> tuple[list[_Rung], list[_Rung]]:
        if self._rungs:
            return self._rungs
        config = self.client.meta.config
        tries = config.retries.get("total_max_attempts") or _TRIES_OF_SDK[config.retries["mode"]]
        connect, read = config.connect_timeout, config.read_timeout
        slower, fewer = [_build_rung(tries, connect, read, self)], list[_Rung]()
        while max(connect, read) >= 2 * retries.SHORTEST_TIMEOUT:
            connect, read = (min(each, max(each / 2, retries.SHORTEST_TIMEOUT)) for each in (connect, read))
            slower.append(_build_rung(tries, connect, read, self._copy_with(connect, read)))
        while tries > 1:
            tries //= 2
            setting = {"total_max_attempts": tries, "mode": config.retries["mode"]}
            fewer.append(_build_rung(tries, connect, read, self._copy_with(connect, read, retry_configuration=setting)))
        self._rungs = slower, fewer
        self.longest = slower[0][0] + slower[0][1]
        return self._rungs

    def forget_client(self) -> None:
        """Discard the client in a forked process.

        It could read a response to its parent, or wait forever for a lock of its parent's thread.
        """
        self.building, self._local = threading.RLock(), threading.local()
        self._client = self._watched = self._rungs = self._session = None
        self._flight, self.longest = _Flight(), math.inf

    def _copy_with(self, connect: float, read: float, **settings: Any) -> SharedConnection:
        timeouts = {"connect_timeout_seconds": connect, "read_timeout_seconds": read}
        found = type(self)(like=self, **{**self._settings, **timeouts, **settings})
        found._tables = self._tables  # noqa: SLF001 - the tables are the same
        return found


_Rung = tuple[float, float, SharedConnection]
"""Seconds that a request can take, seconds that the SDK pauses after throttling, and the connection."""


def _build_rung(tries: int, connect: float, read: float, connection: SharedConnection) -> _Rung:
    pauses = 2.0 ** min(tries - 1, _LONGEST_EXPONENT) - 1  # up to 1, 2, 4 seconds and so on
    return tries * (connect + read), pauses, connection


_connections: weakref.WeakSet[SharedConnection] = weakref.WeakSet()


@in_forked_process
def _forget_clients() -> None:
    for connection in tuple(_connections):
        connection.forget_client()
