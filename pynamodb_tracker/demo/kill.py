"""The scene `kill`: workers are killed with SIGKILL while they charge a card, and others take over.

Two of them use a queue and a status column, and one uses this library. The table is in memory, behind a local server.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from urllib.parse import urlsplit

import requests
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pynamodb_tracker import ExecutionContext, Step, UseCase
from pynamodb_tracker.demo import DemoError, quiet, say
from pynamodb_tracker.demo.pipeline import LOCK, MARGIN, DemoTask
from pynamodb_tracker.testing import local_table
from pynamodb_tracker.worker.shutdown import block_signals

_LONGEST = 30  # seconds


class Payment(DemoTask):
    use_case_id = UseCase("payment")

    charge = Step(100, lock_for=LOCK)


class RowByHand(Model):
    class Meta(DemoTask.Meta):
        """Another table on the same server."""

        table_name = "pynamodb-tracker-demo-by-hand"

    order_id = UnicodeAttribute(hash_key=True)
    status = UnicodeAttribute()


def charge_by_hand(url: str, order_id: str, *, unless: Collection[str]) -> None:
    """Charge the order, unless its row has one of these statuses."""
    RowByHand.Meta.host = url
    row = RowByHand.get(order_id, consistent_read=True)
    if row.status not in unless:
        row.update([RowByHand.status.set("in progress")])
        _send_charge(url, order_id, str(uuid.uuid4()))
        row.update([RowByHand.status.set("paid")])


def run_step(url: str, order_id: str) -> None:
    def charge(ctx: ExecutionContext[Payment]) -> None:
        _send_charge(url, order_id, ctx.idempotency_key)

    DemoTask.Meta.host = url
    Payment.charge.run(order_id, charge)


def _send_charge(url: str, order_id: str, key: str) -> None:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_LONGEST)
    connection.request("POST", f"/charge/{order_id}/{key}")
    connection.getresponse().read()


WORK: Mapping[str, Callable[[str, str], None]] = {
    # The previous worker may have died, or may still be running: either guess can be wrong.
    "by-hand": partial(charge_by_hand, unless=("paid",)),
    "careful": partial(charge_by_hand, unless=("paid", "in progress")),
    "tracked": run_step,
}
"""The workers' functions by order id."""


class Gateway:
    """The payment system, which charges once per key."""

    def __init__(self) -> None:
        self.charges = defaultdict[str, set[str]](set)
        self.first_charges = threading.Semaphore(0)  # released by each order's first charge


@contextmanager
def serving(gateway: Gateway) -> Iterator[str]:
    """Serve the payment system and DynamoDB to other processes, and yield the address."""
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):  # the worker was killed, or repeated a slow request
                super().handle()

        def do_POST(self) -> None:
            status, body = 200, self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.startswith("/charge/"):
                order_id, key = self.path.split("/")[2:]
                is_first = not gateway.charges[order_id]
                gateway.charges[order_id].add(key)
                if is_first:
                    gateway.first_charges.release()
                    self.rfile.read(1)  # until the worker is killed
            else:
                sent = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                with one_at_a_time:  # moto intercepts requests to AWS
                    found = requests.post("https://dynamodb.us-east-1.amazonaws.com/", body, headers=sent, timeout=9)
                status, body = found.status_code, found.content
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def run(console: Console, stopped: threading.Event | None = None) -> bool:
    """Run the scene, and return whether this library charged once and finished.

    Raise DemoError if it cannot run, and KeyboardInterrupt soon after `stopped` is set.
    """
    gateway, stopped = Gateway(), stopped or threading.Event()
    with quiet(), local_table(DemoTask), serving(gateway) as url:
        RowByHand.create_table(billing_mode="PAY_PER_REQUEST")
        for order_id in ("by-hand", "careful"):
            RowByHand(order_id, status="new").save()
        Payment.create("tracked")
        say(console, "Three worker processes, each with its own order, are killed while they charge the card.")
        _kill_in_the_middle(url, gateway)
        say(console, f"The lock and the visibility timeout end after {LOCK.seconds} s. Then other workers take over.")
        if stopped.wait((LOCK + MARGIN).total_seconds()):
            raise KeyboardInterrupt
        for worker in _start_workers(url):
            worker.join(_LONGEST)
            worker.kill()
        payment, charges = Payment.get_task("tracked"), [len(gateway.charges[order_id]) for order_id in WORK]
        rows = [RowByHand.get(order_id).status for order_id in ("by-hand", "careful")]
        rows.append(f"{payment.state.status} at attempt {payment.fence}")
    _print(console, charges, rows)
    return charges[-1] == 1 and payment.state == Payment.charge.succeeded


def _start_workers(url: str) -> list[SpawnProcess]:
    new = get_context("spawn").Process
    workers = [new(target=work, args=(url, order_id), daemon=True) for order_id, work in WORK.items()]
    resource_tracker.ensure_running()  # or the first start would unblock signals
    with block_signals("SIGINT"):  # Ctrl-C reaches all processes, but the demo ends its workers itself
        for worker in workers:
            worker.start()
    return workers


def _kill_in_the_middle(url: str, gateway: Gateway) -> None:
    workers = _start_workers(url)
    try:
        for _ in workers:
            if not gateway.first_charges.acquire(timeout=_LONGEST):
                raise DemoError(f"a worker has not charged its order within {_LONGEST} s")
    finally:
        for worker in workers:
            worker.kill()  # with SIGKILL
            worker.join()


def _print(console: Console, charges: list[int], rows: list[str]) -> None:
    columns = ("a queue and a status column", "the same, more careful", "this library")
    table = Table("", *columns, title="after a worker was killed while it charged a card", expand=True)
    words = {1: Text("once"), 2: Text("twice", "bold red")}
    table.add_row("charged", *(words.get(number, f"{number} times") for number in charges))
    table.add_row(
        "its row says", *(Text(f"{row} forever", "bold red") if row == "in progress" else row for row in rows)
    )
    console.print(table)
