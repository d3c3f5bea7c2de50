"""Log records: those about a task, or a step, have the same five fields, wherever they come from."""

import contextlib
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import GiveUp, Step, Task, TaskNotFoundError, UseCase, Worker
from pynamodb_tracker.aws_lambda import handles
from pynamodb_tracker.instrumentation import Hook, RunDetails, add_hook
from pynamodb_tracker.testing import StoppedClock
from tests.support.engines import empty_tables, opened
from tests.support.workers import Broken

FIELDS = ("use_case_id", "step", "task_id", "attempt", "fence")


class LogTask(Task):
    class Meta:
        table_name = "log"
        region = "us-east-1"


def breaks(*_: object) -> Any:
    raise Broken


class Order(LogTask):
    use_case_id = UseCase("order")

    ship = Step(10, retry_delay=breaks)
    deliver = Step(20, when_ignored=breaks)


engine, tables = opened(LogTask, scope="module"), empty_tables


@pytest.fixture
def _orders(tables: StoppedClock) -> None:  # noqa: ARG001 - the tables
    Order.create("o-1")
    Order.create("o-2", state=Order.deliver.pending)


def retry_delay_that_raises() -> None:
    with contextlib.suppress(Broken), Order.ship.start("o-1"):
        raise Broken


def when_ignored_that_raises() -> None:
    with contextlib.suppress(GiveUp), Order.deliver.start("o-2"):
        raise GiveUp


def error_after_the_success() -> None:
    with contextlib.suppress(Broken), Order.ship.start("o-1") as ctx:
        with ctx.transaction(succeed=True):
            pass
        raise Broken


def run_without_an_end() -> None:
    Order.ship.start("o-1").__enter__()
    gc.collect()


def worker_whose_function_fails() -> None:
    def gives_up(_: object) -> None:
        raise GiveUp

    Worker({Order.ship: gives_up}).run(until_idle=True)


def handler_of_a_task_that_does_not_exist() -> None:
    with contextlib.suppress(TaskNotFoundError):
        handles(Order.ship, task_id="id")(lambda _ctx, _event: None)({"id": "nobody"}, None)


def hook_that_raises() -> None:
    class Raising(Hook):
        def on_create(self, use_case_id: str, task_id: str) -> None:
            breaks(use_case_id, task_id)

        def on_end(self, run: RunDetails) -> None:
            breaks(run)

    with contextlib.ExitStack() as stack:
        stack.callback(add_hook(Raising()))
        Order.create("o-3")
        with Order.ship.start("o-3"):
            pass


CASES: dict[Callable[[], None], list[tuple[object, ...]]] = {
    retry_delay_that_raises: [("order", "ship", "o-1", 1, 1)],
    when_ignored_that_raises: [("order", "deliver", "o-2", None, None)],
    error_after_the_success: [("order", "ship", "o-1", 1, 1)],
    run_without_an_end: [("order", "ship", "o-1", 1, 1)],
    worker_whose_function_fails: [("order", "ship", "o-1", 1, 1)],
    handler_of_a_task_that_does_not_exist: [("order", "ship", "nobody", None, None)],
    hook_that_raises: [("order", None, "o-3", None, None), ("order", "ship", "o-3", 1, 1)],
}


@pytest.mark.usefixtures("_orders")
@pytest.mark.parametrize(("happens", "fields"), CASES.items(), ids=[each.__name__ for each in CASES])
def test_a_record_about_a_task_says_which_run_it_is_about(
    happens: Callable[[], None], fields: list[tuple[object, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="pynamodb_tracker"):
        happens()
    assert [tuple(vars(record)[name] for name in FIELDS) for record in caplog.records] == fields
