"""Processes for tests of pauses: a worker, a handler, a batch, and a person who pauses the step.

Each process prints "read" once it has read the pause, and works until it gets a line. It reports when it read the
pause, and when its blocks began: [step, task id, thread, time of day].
"""

import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from pynamodb_tracker import Step, UseCase, Worker
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.control import watch
from pynamodb_tracker.testing import sqs_event
from tests.support import processes
from tests.support.orders import table_at
from tests.support.worker_process import obey, tell

READ_AFTER = 0.2
"""Seconds between two reads of the control item, instead of five."""

S = TypeVar("S")
Starts = list[tuple[str, str, int, float]]

stopped = threading.Event()
when_stopped: list[Callable[[], object]] = [stopped.set]
reads: list[float] = []
"""When this process first read the person's command."""


class PauseWorker(processes.Worker):
    main = "tests.support.pause_process"


def orders(endpoint: str, table: str, name: str, lock_for: float, margin: float) -> Any:
    """Return a use case with two steps that can be paused."""
    at: Any = table_at(endpoint, table, timedelta(seconds=margin))

    class Order(at):  # type: ignore[misc]  # the base is created by this call
        use_case_id = UseCase(name, pausable=True)

        reserve = Step(100, lock_for=timedelta(seconds=lock_for))
        ship = Step(200, lock_for=timedelta(seconds=lock_for))

    return Order


def noting(starts: Starts, step: str) -> Callable[..., None]:
    def work(ctx: Any, _event: object = None) -> None:
        starts.append((step, ctx.task.task_id, threading.get_ident(), time.time()))
        stopped.wait(processes.TIMEOUT if ctx.task.task_id == "long" else 0.05)

    return work


def work(order: Any) -> Starts:
    starts: Starts = []
    worker = Worker(
        {step: noting(starts, step.name) for step in (order.reserve, order.ship)},
        threads=2,
        max_poll_interval=timedelta(seconds=0.2),
    )
    when_stopped.append(worker.stop)
    worker.run()
    return starts


def batch(order: Any) -> Starts:
    """Run the due tasks at ship, repeatedly."""
    starts: Starts = []
    while not stopped.wait(0.05):
        order.ship.run_all(noting(starts, "ship"), limit=5)
    return starts


def handle(order: Any) -> Starts:
    """Handle messages about new tasks, repeatedly."""
    starts: Starts = []
    handler = handles(order.ship, task_id="id", create_if_missing=True)(noting(starts, "ship"))
    while not stopped.wait(0.05):
        answer = handler(sqs_event({"id": f"m-{time.time_ns()}"}), None)
        assert answer == {"batchItemFailures": []}
    return starts


def pause(order: Any, seconds: str) -> None:
    pause = order.ship.pause(until=timedelta(seconds=float(seconds)), reason="the bank is down", by="ada")
    tell(str(pause.until.timestamp()))
    time.sleep(processes.TIMEOUT)


def say_when_it_is_read(is_in: Callable[[watch._Known], object]) -> None:
    """Read the control item more often, and print "read" once it contains what is waited for."""
    watch.INTERVAL = timedelta(seconds=READ_AFTER)
    read = watch._Known._read

    def read_and_say(known: watch._Known, model: Any) -> None:
        read(known, model)
        if is_in(known) and not reads:
            reads.append(time.time())
            tell("read")

    watch._Known._read = read_and_say  # type: ignore[method-assign, assignment]


def until_stopped(command: Callable[[Any], S]) -> Callable[[Any], tuple[float, S]]:
    """Return a function that runs the command until a line arrives."""

    def stop() -> None:
        sys.stdin.readline()
        for call in when_stopped:
            call()

    def run(order: Any) -> tuple[float, S]:
        threading.Thread(target=stop).start()
        starts = command(order)
        return reads[0], starts

    return run


def main(settings: dict[str, Any], command: str, *arguments: str) -> None:
    say_when_it_is_read(lambda known: known.pauses)
    function = globals()[command]
    obey(orders(**settings), function if command == "pause" else until_stopped(function), *arguments)
