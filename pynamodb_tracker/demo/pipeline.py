"""The pipeline of the demo: its table, the use case with three steps, what a worker does in them, and a server."""

import hashlib
import ipaddress
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self
from unittest import mock
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import BoundStep, ExecutionContext, GiveUp, State, Status, Step, Task, UseCase, clock
from pynamodb_tracker.demo.orders import PlacedOrder, Trouble, called_off_at

log = logging.getLogger("pynamodb_tracker")

LOCK = timedelta(seconds=2)
MARGIN = timedelta(milliseconds=250)
MAX_ATTEMPTS = 4

WAITING = timedelta(days=1)
"""How long an order waits whose next event has not happened yet: longer than the demo takes."""


class OutsideError(Exception):
    """An outside service did not do what it was asked to."""


class RefusedError(OutsideError):
    """It will not do it tomorrow either: the card is declined, or the address does not exist."""


_SETTINGS: dict[str, Any] = {
    "max_attempts": MAX_ATTEMPTS,
    "lock_for": LOCK,
    "retry_delay": timedelta(seconds=1),
    "give_up_on": (RefusedError,),
}
"""Of each step. Locks and pauses are short because somebody is watching; give a real step minutes."""


class DemoTask(Task):
    """The table of the demo."""

    class Meta:
        """Where it is in memory; `Server` changes this for a server."""

        table_name = "pynamodb-tracker-demo"
        region = "us-east-1"
        host: str | None = None
        aws_access_key_id: str | None = None
        aws_secret_access_key: str | None = None
        clock_margin = MARGIN  # all workers read the clock of one machine


class Order(DemoTask):
    """The use case: an order is paid, shipped and delivered."""

    use_case_id = UseCase("order")

    confirm_payment = Step(100, **_SETTINGS)
    ship = Step(200, **_SETTINGS)
    deliver = Step(300, **_SETTINGS)

    order_status = UnicodeAttribute()
    tracking_no = UnicodeAttribute(null=True)

    @property
    def trouble(self) -> Trouble | None:
        """Why it can never succeed."""
        return Trouble(self.data["trouble"]) if "trouble" in self.data else None


PIPELINE: tuple[BoundStep[Order], ...] = (Order.confirm_payment, Order.ship, Order.deliver)


def state_of(step: str, status: Status) -> State[Order]:
    """Return a state of an order by the names of its step and status."""
    state: State[Order] = getattr(getattr(Order, step), status)
    return state


def row_of(order: PlacedOrder) -> dict[str, Any]:
    """Return what `Order.create_many` needs to create the task of an order.

    An order that waits for its next event is created in the state in which it waits.
    """
    data: dict[str, Any] = {}
    if order.times:
        data["times"] = {step: time.isoformat() for step, time in order.times.items()}
    if order.trouble:
        data["trouble"] = order.trouble
    row: dict[str, Any] = {"task_id": order.order_id, "order_status": order.status, "data": data}
    step, status = order.end
    if status is Status.PENDING:
        row |= {"state": state_of(step, status), "due_time": clock.now() + WAITING}
    return row


class Accident(StrEnum):
    """What may happen to an attempt."""

    FAILURE = "failure"
    """The outside service does not do it this time."""
    DEATH = "death"
    """The worker dies with the work done and the success not recorded."""


_CHANCE_OF_FAILURE = {"confirm_payment": 0.10, "ship": 0.02, "deliver": 0.02}
_SHARE_OF_DEATHS, _MOST_DEATHS = 0.01, 6
_MOST_FAILURES = MAX_ATTEMPTS - 2
"""Failures in a row of a run that can succeed: one attempt is left for a worker that is late on a busy machine."""


@dataclass(frozen=True, slots=True)
class Accidents:
    """Which attempts fail and which kill their worker, drawn from a seed and so independent of the timing."""

    drawn: Mapping[tuple[str, str], tuple[Accident, ...]]
    """By order and step: what happens to the first attempts."""

    @classmethod
    def draw(cls, orders: Iterable[PlacedOrder], seed: int) -> Self:
        """Draw accidents for runs that succeed in the end; at least one worker dies and one run fails."""
        chance = random.Random(f"accidents {seed}")  # noqa: S311 - a demo has no secrets
        runs = [
            (order.order_id, step)
            for order in orders
            for step in order.steps_started
            if order.end != (step, Status.IGNORED)
        ]
        chance.shuffle(runs)
        deaths = min(_MOST_DEATHS, max(1, round(len(runs) * _SHARE_OF_DEATHS)))
        drawn: dict[tuple[str, str], tuple[Accident, ...]] = dict.fromkeys(runs[:deaths], (Accident.DEATH,))
        for number, run in enumerate(runs[deaths:]):
            failures = 1 if number == 0 else 0
            while failures < _MOST_FAILURES and chance.random() < _CHANCE_OF_FAILURE[run[1]]:
                failures += 1
            if failures:
                drawn[run] = (Accident.FAILURE,) * failures
        return cls(drawn)

    def of(self, order: Order, step: str, attempt: int) -> Accident | None:
        """Return what happens to this attempt of a step."""
        if order.trouble and order.trouble.step == step:
            return {Trouble.SILENT: Accident.FAILURE, Trouble.CRASHING: Accident.DEATH}.get(order.trouble)
        drawn = self.drawn.get((order.task_id, step), ())
        return drawn[attempt - 1] if attempt <= len(drawn) else None


class WorkerDiedError(Exception):
    """The worker dies now."""


@dataclass(frozen=True)
class Work:
    """The function of all steps, which `run_all` and `Worker` call; accidents included."""

    accidents: Accidents

    def __call__(self, ctx: ExecutionContext[Order]) -> None:
        """Do the step that the order is in; raises what the attempt fails with, and WorkerDiedError for a death."""
        order, step = ctx.task, ctx.task.state.step
        accident = self.accidents.of(order, step, ctx.attempt)
        if accident is Accident.FAILURE:
            raise OutsideError(_FAILURES[step])
        if called_off_at(order.order_status, order.data.get("times", {})) == step:
            raise GiveUp(order.order_status)
        if order.trouble in _REFUSALS and order.trouble.step == step:
            raise RefusedError(_REFUSALS[order.trouble])
        _do(order, step)
        if accident is Accident.DEATH:
            raise WorkerDiedError


def _do(order: Order, step: str) -> None:
    """Do a step as an outside service would that honours idempotency keys: a later attempt has the same effect."""
    number = hashlib.sha256(f"{order.task_id}/{step}".encode()).hexdigest()[:12]
    if step == "confirm_payment":
        order.data["receipt"] = number
    elif step == "ship":
        order.tracking_no = number
    else:
        order.data["delivered"] = order.data.get("times", {}).get("deliver", "at an unknown time")


_FAILURES = {
    "confirm_payment": "the payment gateway did not answer in time",
    "ship": "the carrier came without a van",
    "deliver": "nobody was at home",
}
_REFUSALS = {Trouble.DECLINED: "the card was declined", Trouble.UNKNOWN: "nobody knows the address"}


_TRANSPORT_ERRORS = (BotoCoreError, ClientError, PynamoDBException)
"""What PynamoDB and botocore raise if the server is not there or refuses a request."""

_DIED = 75
"""The exit code of a worker process that dies as planned."""


class ServerError(Exception):
    """The server cannot be used as asked; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and the demo's own table there."""

    endpoint_url: str
    table_name: str

    def connect(self) -> None:
        """Make this the demo's table in this process."""
        # A local server takes any keys; AWS SDKs send nothing without some.
        key = "demo" if _is_loopback(self.endpoint_url) and not _has_credentials() else None
        meta = DemoTask.Meta
        meta.host, meta.table_name = self.endpoint_url, self.table_name
        meta.region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        meta.aws_access_key_id = meta.aws_secret_access_key = key
        DemoTask.tracker.table.reconnect()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Make this the demo's table until the end of the block."""
        settings = ("host", "table_name", "region", "aws_access_key_id", "aws_secret_access_key")
        before = {name: getattr(DemoTask.Meta, name) for name in settings}
        self.connect()
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(DemoTask.Meta, name, value)
            DemoTask.tracker.table.reconnect()

    @contextmanager
    def table(self, *, keep: bool) -> Iterator[None]:
        """Create the table, and delete it at the end of the block unless it is kept; no other table is touched.

        Requests that fail in the block are a ServerError.
        """
        with self.connected():
            with self._errors():
                if DemoTask.exists():
                    raise ServerError(f"the table {self.table_name!r} exists already: give --table-name another name")
            try:
                with self._errors():
                    DemoTask.create_table(wait=True)
                    yield
            except BaseException as error:
                if left := self._delete(keep=keep):
                    error.add_note(left)
                raise
            if left := self._delete(keep=keep):
                raise ServerError(left)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _TRANSPORT_ERRORS as error:
            raise ServerError(f"{self.endpoint_url}: {_first_line(error)}") from error

    def _delete(self, *, keep: bool) -> str | None:
        """Delete the table unless it is kept; return why that failed."""
        try:
            if not keep and DemoTask.exists():
                DemoTask.delete_table()
        except _TRANSPORT_ERRORS as error:
            return f"the table {self.table_name} could not be deleted, so delete it by hand: {_first_line(error)}"
        return None


@dataclass(frozen=True)
class ProcessWork:
    """The function of a step as a worker process calls it: sent to one, it connects that process to the table."""

    function: Callable[[ExecutionContext[Any]], None]
    server: Server

    def __call__(self, ctx: ExecutionContext[Any]) -> None:
        """Do the step; a death ends the process as a power cut does: no `finally` of Python runs."""
        try:
            self.function(ctx)
        except WorkerDiedError:
            os._exit(_DIED)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Connect the process that unpickles this to the table."""
        vars(self).update(state)
        log.addHandler(logging.NullHandler())
        self.server.connect()


def is_url(text: str) -> bool:
    """Return whether this can be the address of a server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _is_loopback(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _has_credentials() -> bool:
    """Return whether access keys are configured; a server on this machine is no reason to ask EC2 for some."""
    with mock.patch.dict(os.environ, AWS_EC2_METADATA_DISABLED="true"):
        return botocore.session.Session().get_credentials() is not None
