"""Makes each form that a stored item can have. `python -m tests.compat.rows` writes them into the file of this version.

Later versions must read and write the items of a released file, so that file never changes.
"""

import base64
import itertools
import json
import os
import random
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pynamodb.attributes import NumberAttribute

from pynamodb_tracker import (
    ConcurrencyLimit,
    ExecutionContext,
    GiveUp,
    LockLostError,
    Repeat,
    RetryLater,
    Signal,
    Step,
    Task,
    UseCase,
    __version__,
    clock,
)
from pynamodb_tracker.control import flow, watch
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.model import failure
from pynamodb_tracker.model.worker_name import working_as
from pynamodb_tracker.testing import StoppedClock, local_table, stopped_clock
from pynamodb_tracker.writes import lock
from tests.support.rows import Item, all_rows

FILE = Path(__file__).with_name(f"rows-{__version__}.json")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TRACEBACK = 'Traceback (most recent call last):\n  File "/app/orders.py", line 12, in pay\n    raise OSError\n'


class AppTask(Task):
    class Meta:
        table_name = "compat"
        region = "us-east-1"


class Order(AppTask):
    use_case_id = UseCase("order", urgent=True)

    pay = Step(100)
    pack = Step(200, give_up_after=HOUR)
    ship = Step(300)
    refund = Step(900, branch=True)

    paid, approved = Signal(), Signal()
    amount = NumberAttribute(null=True)


class Receipt(AppTask):
    use_case_id = UseCase("receipt", index_succeeded=False, keep_for=timedelta(days=30))

    send = Step(100)


class Transfer(AppTask):
    """Has the items of a use case that are no rows: its control item, its counters and the slots of its limit."""

    use_case_id = UseCase("transfer", count_transitions=True, pausable=True)

    book = Step(100, concurrency_limit=ConcurrencyLimit("bank", 2))
    tell = Step(200)
    audit = Step(300)


USE_CASES: list[Any] = [Order, Receipt, Transfer]
Form = Callable[[str, StoppedClock], Any]
FORMS: list[Form] = []


def form(make: Form) -> Form:
    """Register a function that makes one form. One that yields is in a block whose task stays in progress."""
    FORMS.append(make)
    return make


def work(_: ExecutionContext[Any]) -> None: ...


def raising(error: BaseException) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def fail(step: Any, task_id: str, error: BaseException | None = None) -> None:
    error = error or OSError("no answer")
    with suppress(type(error)):
        step.run(task_id, raising(error))


def paid(task_id: str, **options: Any) -> None:
    Order.create(task_id, **options)
    Order.pay.run(task_id, work)


@form
def pending(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id, amount=1, due_time=HOUR, trace={"traceparent": "00-1-2-01"})


@form
def in_progress(task_id: str, _: StoppedClock) -> Iterator[None]:
    Order.create(task_id, data={"page": 1})
    with Order.pay.start(task_id) as ctx:
        ctx.task.data["page"] = 2
        ctx.save()
        yield


@form
def taken_over(task_id: str, time: StoppedClock) -> Iterator[None]:
    Order.create(task_id)
    with suppress(LockLostError), Order.pay.start(task_id):
        time.advance(HOUR)
        with Order.pay.start(task_id):
            yield


@form
def failed(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    fail(Order.pay, task_id)


@form
def failed_with_a_log_item(task_id: str, time: StoppedClock) -> None:
    Order.create(task_id)
    for _ in range(2):
        fail(Order.pay, task_id, OSError("no answer " * 99))
        time.advance(HOUR)


@form
def failed_with_a_time_to_give_up(task_id: str, _: StoppedClock) -> None:
    paid(task_id)
    fail(Order.pack, task_id)


@form
def postponed(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    fail(Order.pay, task_id, RetryLater(HOUR, "too early", use_attempt=False))


@form
def released(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    fail(Order.pay, task_id, KeyboardInterrupt())


@form
def given_up(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    fail(Order.pay, task_id, GiveUp("no such card"))


@form
def ignored(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    Order.pay.ignore(task_id, reason="a test order", by="ada")


@form
def reopened(task_id: str, time: StoppedClock) -> None:
    given_up(task_id, time)
    Order.pay.reopen(task_id, by="ada")


@form
def succeeded(task_id: str, time: StoppedClock) -> None:
    for step in (paid, lambda _: Order.pack.run(task_id, work), lambda _: Order.ship.run(task_id, work)):
        step(task_id)
        time.advance(HOUR)


@form
def succeeded_without_index(task_id: str, _: StoppedClock) -> None:
    Receipt.create(task_id)
    Receipt.send.run(task_id, work)


@form
def cancelled(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    Order.cancel(task_id, reason="moved away", by="ada")


@form
def cancelled_to_a_branch(task_id: str, _: StoppedClock) -> None:
    paid(task_id)
    Order.cancel(task_id, reason="moved away", by="ada", go_to=Order.refund)


@form
def cancelled_after_a_branch(task_id: str, time: StoppedClock) -> None:
    cancelled_to_a_branch(task_id, time)
    Order.refund.run(task_id, work)


@form
def waits_for_a_signal(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id, wait_for=Order.paid)


@form
def waits_for_signals_with_a_limit(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    with Order.pay.start(task_id) as ctx:
        ctx.wait_for(Order.paid, until=HOUR)
        ctx.wait_for(Order.approved)
    Order.approved.send(task_id, "yes", by="ada", key="1")


@form
def got_a_signal(task_id: str, time: StoppedClock) -> None:
    waits_for_a_signal(task_id, time)
    Order.paid.send(task_id, {"amount": "42.50"}, by="bank", key="event-7")


@form
def missed_a_signal(task_id: str, time: StoppedClock) -> None:
    Order.create(task_id, wait_for=Order.paid, until=HOUR)
    time.advance(2 * HOUR)
    Order.pay.run(task_id, work)


@form
def waits_for_children(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    with Order.pay.start(task_id) as ctx:
        ctx.create(Receipt, f"{task_id}/receipt", wait=True)
        ctx.create(Order, f"{task_id}/gift", wait=True, trace={"traceparent": "00-1-2-01"})
        ctx.create(Receipt, f"{task_id}/copy")
        ctx.wait_until(HOUR)


@form
def group(task_id: str, _: StoppedClock) -> None:
    for name in ("turn", "second", "third"):
        Order.create(f"{task_id}/{name}", group=task_id)
    with Order.pay.start(f"{task_id}/turn") as ctx:
        ctx.group.data["total"] = 1


@form
def repeating(task_id: str, time: StoppedClock) -> None:
    Receipt.create(task_id, repeat=Repeat.rrule("FREQ=DAILY;COUNT=3", tz="Europe/Berlin"))
    time.advance(timedelta(days=1))
    Receipt.send.run(task_id, work)


@form
def repeating_earlier(task_id: str, time: StoppedClock) -> None:
    repeating(task_id, time)
    Receipt.create_or_merge(task_id)


@form
def queued(task_id: str, _: StoppedClock) -> None:
    paid(task_id, amount=1)
    Order.create_or_merge(task_id, amount=2, due_time=HOUR)


@form
def restarted(task_id: str, time: StoppedClock) -> None:
    succeeded(task_id, time)
    Order.create_or_merge(task_id, amount=2)


@form
def checkpoints(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    with suppress(OSError), Order.pay.start(task_id) as ctx:
        ctx.checkpoint("charge", lambda: {"receipt": "r-1"})
        raise OSError("no answer")


@form
def data_in_chunks(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    with Order.pay.start(task_id) as ctx:
        ctx.task.data["lines"] = ["a line"] * 300
    with Order.pack.start(task_id) as ctx:
        ctx.task.data["lines"] = random.Random(1).sample(range(10**9), 999)


@form
def urgent(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id, urgent=True)


@form
def payload_and_result(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    Order.pay.run(task_id, lambda _: {"receipt": "r-1"}, must_match={"amount": 1}, store_result=True)


@form
def skipped_steps(task_id: str, _: StoppedClock) -> None:
    Order.create(task_id)
    with Order.pay.start(task_id) as ctx:
        ctx.go_to(Order.ship)


@form
def control(_: str, time: StoppedClock) -> None:
    from tests.cli.command import run  # noqa: PLC0415 - only this form needs the command line

    of = f"{__name__}:Transfer"
    for command in (
        ("pause", "book", "--until", "1h", "--reason", "no answer", "--by", "ada"),
        ("pause", "tell", "--until", "1h", "--reason", "no answer", "--by", "ada"),
        ("resume", "tell", "--by", "ada"),
        ("steps", "require", "transfer", "300", "--by", "ada"),
    ):
        ended = run(*command, of=of)
        assert ended.code == 0, ended.err
    time.advance(HOUR)
    Transfer.tell.run_all(work)


@form
def slots_and_counters(task_id: str, time: StoppedClock) -> Iterator[None]:
    time.advance(HOUR)
    Transfer.create(f"{task_id}/done")
    Transfer.book.run_all(work)
    time.advance(HOUR)
    Transfer.create(task_id)
    with Transfer.book.start(task_id):
        yield
    Transfer.book.run_all(work)  # gives back its slots


@contextmanager
def fixed() -> Iterator[StoppedClock]:
    """Fix what differs between two runs: time, tokens, random numbers, the worker, and lines in tracebacks."""
    numbers = random.Random(1)
    with ExitStack() as stack:
        time = stack.enter_context(stopped_clock(BEGIN))
        stack.enter_context(working_as("host:1:abcd"))
        nanoseconds = SimpleNamespace(time_ns=lambda: int(clock.now().timestamp()) * 10**9)
        system = SimpleNamespace(urandom=numbers.randbytes, getpid=os.getpid)
        stack.enter_context(mock.patch.multiple(lock, time=nanoseconds, os=system, _last=0, _passed=itertools.count(1)))
        stack.enter_context(mock.patch.multiple(RANDOM, random=numbers.random, getrandbits=numbers.getrandbits))
        stack.enter_context(mock.patch.object(failure, "_traceback_of", return_value=TRACEBACK))
        for known in (watch._known._known, flow._counts._known):
            stack.enter_context(mock.patch.dict(known, clear=True))
        yield time


def made() -> list[str]:
    """Make each form in the open, empty table, and return its items as lines of JSON."""
    runs = []
    for make in FORMS:
        with fixed() as time:
            if isinstance(run := make(make.__name__, time), Generator):
                next(run)
                runs.append(run)
    lines = sorted(json.dumps(item, default=_coded, sort_keys=True) for item in map(_in_order, all_rows(AppTask)))
    with fixed():
        for run in reversed(runs):
            next(run, None)
    return lines


def stored(file: Path) -> list[Item]:
    """Return the items of a file."""
    return [json.loads(line, object_hook=_decoded) for line in file.read_text().splitlines()]


def unpacked(lines: list[str]) -> dict[tuple[str, str], Item]:
    """Return the items by key, without compression, which differs between versions of zlib."""
    items = [json.loads(line, object_hook=lambda value: _unpacked(_decoded(value))) for line in lines]
    return {(item["task_id"]["S"], item["use_case_id"]["S"]): item for item in items}


def _in_order(item: Item) -> Item:
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in item.items()}


def _coded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decoded(value: Item) -> Item:
    return {"B": base64.b64decode(value["B"])} if value.keys() == {"B"} else value


def _unpacked(value: Item) -> Item:
    with suppress(zlib.error):
        return {"B": zlib.decompress(value["B"])} if value.keys() == {"B"} else value
    return value


def write() -> None:
    """Write the file of this version."""
    with local_table(AppTask):
        FILE.write_text("\n".join(made()) + "\n")


if __name__ == "__main__":
    import_module("tests.compat.rows").write()  # the command line imports the module by this name, too
