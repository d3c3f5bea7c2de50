"""What plain tasks send: the requests of some lives, with the names and values of their expressions filled in.

`python -m tests.cost.plain_requests` writes them to plain_requests.txt; the test compares them with that file.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, RetryLater, TaskNotStartableError
from pynamodb_tracker.exceptions import TaskError
from pynamodb_tracker.model.worker_name import this_worker
from pynamodb_tracker.testing import StoppedClock, stopped_clock
from tests.support.engines import Moto
from tests.support.recorder import Request, recorded
from tests.support.shop import AppTask, Order, Receipt
from tests.support.workers import Broken, die, fail, succeed

FILE = Path(__file__).with_suffix(".txt")
START = datetime(2026, 1, 1, tzinfo=UTC)

_EXPRESSIONS = ("ConditionExpression", "UpdateExpression", "KeyConditionExpression", "FilterExpression")
_PIECE = re.compile(r'"B": "[^"]+"')
_PLACE = re.compile(r"[#:]\w+")
_TOKEN = re.compile(r"\b[0-9a-f]{24,32}\b")


def three_steps(_: StoppedClock) -> None:
    """Create a task, and run all of its steps; one of them changes it."""
    Order.create("o-1", amount=4200, data={"paid": False})
    with Order.confirm_payment.start("o-1") as ctx:
        ctx.task.data["paid"] = True
    succeed(Order.ship, "o-1")
    with Order.deliver.start("o-1") as ctx:
        ctx.task.tracking_no = "T-1"
        ctx.task.amount = None


def failure_and_retry(clock: StoppedClock) -> None:
    """Fail an attempt, be refused before the next one is due, and succeed after a retry."""
    Order.create("o-1", state=Order.ship.pending, due_time=START + timedelta(minutes=1))
    for _ in range(2):
        with contextlib.suppress(TaskNotStartableError):
            fail(Order.ship, "o-1", RetryLater(timedelta(hours=1)))
        clock.advance(timedelta(minutes=5))
    clock.advance(timedelta(hours=1))
    succeed(Order.ship, "o-1")


def commands(_: StoppedClock) -> None:
    """Ignore a task, reopen it, and delete it, with a time to live."""
    Receipt.create("r-1")
    Receipt.send.ignore("r-1", reason="cancelled", by="ann")
    Receipt.send.reopen("r-1", by="ann")
    Receipt.delete_task("r-1")


def surrender(_: StoppedClock) -> None:
    """Give a task up, with a time to live."""
    Receipt.create("r-1")
    fail(Receipt.send, "r-1", GiveUp("no such address"))


def kept_success(_: StoppedClock) -> None:
    """Succeed at the last step, with a time to live."""
    Receipt.create("r-1")
    succeed(Receipt.send, "r-1")


def release(_: StoppedClock) -> None:
    """Release a task in its run, and by command."""
    Order.create("o-1")
    fail(Order.confirm_payment, "o-1", KeyboardInterrupt())
    die(Order.confirm_payment, "o-1")
    Order.confirm_payment.unlock("o-1", reason="its worker died", by="ann", worker=this_worker())


def takeover(clock: StoppedClock) -> None:
    """Take a task over until no attempt is left."""
    Order.create("o-1")
    for _ in range(3):
        die(Order.confirm_payment, "o-1")
        clock.advance(timedelta(minutes=6))
    with contextlib.suppress(TaskNotStartableError):
        succeed(Order.confirm_payment, "o-1")


def progress(_: StoppedClock) -> None:
    """Extend the lock, save, commit a transaction, and succeed with another one."""
    Order.create("o-1", state=Order.deliver.pending)
    Order.create("o-2")
    with Order.deliver.start("o-1") as ctx:
        ctx.extend_lock(timedelta(hours=1))
        ctx.task.amount = 1
        ctx.save()
        with ctx.transaction() as transaction:
            transaction.update(Order("o-2", "order"), [Order.amount.set(1)])
        ctx.task.amount = 2
        ctx.store_result({"amount": 2})
        with ctx.transaction(succeed=True) as transaction:
            transaction.update(Order("o-2", "order"), [Order.amount.set(2)])


def refusals(_: StoppedClock) -> None:
    """Be refused a second create, a start with and without its reason, a reopening and a deletion."""
    Order.create("o-1", state=Order.ship.pending)
    die(Order.ship, "o-1")
    for refused in (
        lambda: Order.create("o-1"),
        lambda: Order.ship.run("o-1", print),
        lambda: Order.ship.run("o-1", print, detailed_error=False),
        lambda: Order.confirm_payment.run("o-2", print),
        lambda: Order.confirm_payment.reopen("o-1"),
        lambda: Order.delete_task("o-1"),
    ):
        with pytest.raises(TaskError):
            refused()


def batch(_: StoppedClock) -> None:
    """Find what is due, and run it."""
    Order.create_many(["o-1", "o-2"])
    Order.confirm_payment.run_all(lambda ctx: setattr(ctx.task, "amount", 1))
    Order.ship.run_all(_break, limit=1)


def _break(_: object) -> None:
    raise Broken("it broke")


LIVES: dict[str, Callable[[StoppedClock], None]] = {
    life.__name__: life
    for life in (
        three_steps,
        failure_and_retry,
        commands,
        surrender,
        kept_success,
        release,
        takeover,
        progress,
        refusals,
        batch,
    )
}


def sent(life: str) -> str:
    """Return what is sent in a life, in its order."""
    with stopped_clock(START) as clock, recorded() as requests:
        LIVES[life](clock)
    told = "\n\n".join("\n".join(_told(request)) for request in requests)
    for number, token in enumerate(dict.fromkeys(_TOKEN.findall(told)), 1):
        told = told.replace(token, f"<token {number}>")
    return told.replace(this_worker(), "<worker>")


def in_file() -> dict[str, str]:
    parts = re.split(r"^== (\w+)$", FILE.read_text(), flags=re.MULTILINE)
    return {life: told.strip() for life, told in zip(parts[1::2], parts[2::2], strict=True)}


def _told(request: Request) -> Iterator[str]:
    yield request.operation
    for name, part in request.body.items():
        if name == "TransactItems":
            for item in part:
                for kind, action in item.items():
                    yield f"  {kind}"
                    yield from (f"    {line}" for line in _lines(action))
    yield from (f"  {line}" for line in _lines(request.body))


def _lines(body: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a request, or of an action of a transaction."""
    names, values = body.get("ExpressionAttributeNames", {}), body.get("ExpressionAttributeValues", {})
    places = {**names, **{place: _plain(value) for place, value in values.items()}}
    for name, part in body.items():
        if name in _EXPRESSIONS:
            yield f"{name}: {_PLACE.sub(lambda place: places[place[0]], part)}"
        elif name not in {"TransactItems", "ExpressionAttributeNames", "ExpressionAttributeValues"}:
            yield f"{name}: {_plain(part)}"
    used = {place for name in _EXPRESSIONS for place in _PLACE.findall(body.get(name, ""))}
    assert used == places.keys()


def _plain(value: Any) -> str:
    """Return a value on one line, without what differs from run to run."""
    text = _PIECE.sub('"B": "<piece>"', json.dumps(value))
    return "<errors>" if "Traceback" in text else text


if __name__ == "__main__":
    with Moto.of([AppTask]) as engine:
        lives = []
        for each in LIVES:
            engine.empty()
            lives.append(f"== {each}\n\n{sent(each)}\n")
    FILE.write_text("\n".join(lives))
