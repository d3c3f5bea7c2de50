"""The scene of the kill: a worker is killed with SIGKILL while it charges a card, and another one goes on.

Once with a queue and a status column by hand, once with this library. Processes, requests and the kill are real; the
table is in memory, in this process, behind a server on the loopback interface.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from urllib.parse import urlsplit

import requests
from moto import mock_aws
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pynamodb_tracker import ExecutionContext, Step, UseCase
from pynamodb_tracker.demo import pipeline
from pynamodb_tracker.demo.pipeline import DemoTask, Server
from pynamodb_tracker.demo.session import Options, quiet
from pynamodb_tracker.demo.summary import say

_LONGEST = 30
"""Seconds after which a worker that does not come to its end has failed."""


class Payment(DemoTask):
    """A payment, tracked by this library."""

    use_case_id = UseCase("payment")

    charge = Step(100, lock_for=pipeline.LOCK)


class RowByHand(Model):
    """A payment with a status column, beside a queue."""

    class Meta(DemoTask.Meta):
        """Another table, on the same server."""

        table_name = "pynamodb-tracker-demo-by-hand"
        aws_access_key_id = aws_secret_access_key = "demo"  # noqa: S105 - for the server in this process

    order_id = UnicodeAttribute(hash_key=True)
    status = UnicodeAttribute()


def go_on_by_hand(url: str, order_id: str) -> None:
    """Charge the order that the queue has delivered, in any state of the row: the worker before may have died."""
    _by_hand(url, order_id, leave={"paid"})


def leave_by_hand(url: str, order_id: str) -> None:
    """Leave what is in progress alone: the worker before may still be at it."""
    _by_hand(url, order_id, leave={"paid", "in progress"})


def _by_hand(url: str, order_id: str, leave: set[str]) -> None:
    RowByHand.Meta.host = url
    row = RowByHand.get(order_id, consistent_read=True)
    if row.status in leave:
        return
    row.update([RowByHand.status.set("in progress")])
    _charge(url, order_id, str(uuid.uuid4()))
    row.update([RowByHand.status.set("paid")])


def run_tracked(url: str, order_id: str) -> None:
    """Run the step of a payment."""

    def charge(ctx: ExecutionContext[Payment]) -> None:
        _charge(url, order_id, ctx.idempotency_key)

    Server(url, DemoTask.Meta.table_name).connect()
    Payment.charge.run(order_id, charge)


def _charge(url: str, order_id: str, key: str) -> None:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_LONGEST)
    connection.request("POST", f"/charge/{order_id}/{key}")
    connection.getresponse().read()


WAYS: dict[str, Callable[[str, str], None]] = {
    "a queue and a status column": go_on_by_hand,
    "the same, more careful": leave_by_hand,
    "pynamodb_tracker": run_tracked,
}


@dataclass
class Gateway:
    """The payment system: it remembers keys, and answers the first request about an order only when it is closed."""

    charges: list[str] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _booked: threading.Condition = field(default_factory=threading.Condition)
    closed: threading.Event = field(default_factory=threading.Event)

    def charge(self, order_id: str, key: str) -> bool:
        """Charge the card, unless the key is known; return whether somebody is left to be answered."""
        with self._booked:
            is_first = order_id not in self.charges
            if key not in self._keys:
                self._keys.add(key)
                self.charges.append(order_id)
            self._booked.notify_all()
        return not (is_first and self.closed.wait())

    def wait_for(self, order_id: str) -> None:
        """Wait until the card of an order is charged."""
        with self._booked:
            if not self._booked.wait_for(lambda: order_id in self.charges, timeout=_LONGEST):
                raise pipeline.ServerError(f"no worker has charged {order_id}")


@contextmanager
def serving(gateway: Gateway) -> Iterator[str]:
    """Serve the payment system and DynamoDB, on moto, to other processes of this machine; yield the address."""
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.startswith("/charge/"):
                if gateway.charge(*self.path.split("/")[2:]):
                    self._answer(200, b"{}")
                return
            sent = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            with one_at_a_time:  # moto answers what requests sends to AWS
                answer = requests.post("https://dynamodb.us-east-1.amazonaws.com/", data=body, headers=sent, timeout=9)
            self._answer(answer.status_code, answer.content)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with mock_aws(), ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            gateway.closed.set()
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How often each order was charged, and what its row says; by the name of the way."""

    charges: dict[str, int]
    rows: dict[str, str]

    @property
    def differences(self) -> list[str]:
        """A line if this library did not charge once and finish."""
        found = self.charges["pynamodb_tracker"], self.rows["pynamodb_tracker"]
        return [] if found == (1, "succeeded at attempt 2") else [f"pynamodb_tracker: {found}"]


def run(options: Options, console: Console, stopped: threading.Event | None = None) -> Outcome:
    """Run the scene from beginning to end, print what happens, and return what was charged."""
    gateway, stopped = Gateway(), stopped or threading.Event()
    with quiet(), serving(gateway) as url, Server(url, DemoTask.Meta.table_name).table(keep=False):
        RowByHand.Meta.host = url
        RowByHand.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
        orders = {way: f"o-{number}" for number, way in enumerate(WAYS, 1)}
        for way, order_id in orders.items():
            Payment.create(order_id) if WAYS[way] is run_tracked else RowByHand(order_id, status="new").save()
        with options.beside():
            say(console, "three orders, a worker process for each; each is killed while it charges the card")
            _kill_in_the_middle(orders, url, gateway)
            say(console, f"the lock and the visibility timeout are {pipeline.LOCK.seconds} s; then others take over")
            if stopped.wait((pipeline.LOCK + pipeline.MARGIN).total_seconds()):
                raise KeyboardInterrupt
            for worker in _started(orders, url).values():
                worker.join(_LONGEST)
                worker.kill()
            outcome = Outcome({way: gateway.charges.count(orders[way]) for way in WAYS}, _rows(orders))
            _print(outcome, console)
    return outcome


def _started(orders: dict[str, str], url: str) -> dict[str, SpawnProcess]:
    workers = {
        way: get_context("spawn").Process(target=WAYS[way], args=(url, orders[way]), daemon=True) for way in orders
    }
    for worker in workers.values():
        worker.start()
    return workers


def _kill_in_the_middle(orders: dict[str, str], url: str, gateway: Gateway) -> None:
    workers = _started(orders, url)
    try:
        for order_id in orders.values():
            gateway.wait_for(order_id)
    finally:
        for worker in workers.values():
            worker.kill()  # SIGKILL: nothing is recorded, nothing is given back
            worker.join()


def _rows(orders: dict[str, str]) -> dict[str, str]:
    rows = {way: RowByHand.get(orders[way]).status for way in WAYS if WAYS[way] is not run_tracked}
    payment = Payment.get_task(orders["pynamodb_tracker"])
    return rows | {"pynamodb_tracker": f"{payment.state.status} at attempt {payment.fence}"}


def _print(outcome: Outcome, console: Console) -> None:
    table = Table("", *WAYS, title="after a worker was killed while it charged a card", expand=True)
    words = {1: Text("once"), 2: Text("twice", "bold red")}
    rows = [Text(f"{row} for ever", "bold red") if row == "in progress" else row for row in outcome.rows.values()]
    table.add_row("charged", *(words.get(number, f"{number} times") for number in outcome.charges.values()))
    table.add_row("its row says", *rows)
    console.print(table)
