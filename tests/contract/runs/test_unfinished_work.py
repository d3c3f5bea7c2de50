"""Functions that return before their work is done: the attempt fails, and the error says what to write."""

import functools
import re
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pynamodb_tracker import Worker
from tests.contract.declaring.test_bound_functions import logged
from tests.support.shop import Order
from tests.support.workers import fail

pytestmark = pytest.mark.usefixtures("table", "task")

STEP = Order.confirm_payment


async def work(_ctx: object) -> None:
    pytest.fail("nobody awaits this")


def produce(_ctx: object) -> Iterator[int]:
    yield 1


async def produce_later(_ctx: object) -> AsyncIterator[int]:
    yield 1


class Later:
    async def __call__(self, _ctx: object) -> None:
        pytest.fail("nobody awaits this")


class Promise:
    def __await__(self) -> Iterator[None]:
        yield


UNFINISHED = [
    pytest.param(lambda ctx: work(ctx.task), "in an async function", id="lambda"),
    pytest.param(logged(work), "in an async function", id="decorator"),
    pytest.param(functools.partial(Later()), "in an async function", id="partial"),
    pytest.param(lambda _: Promise(), "in an async function", id="awaitable"),
    pytest.param(lambda _: Future(), r"return its result\(\)", id="future"),
    pytest.param(lambda ctx: produce(ctx.task), "return for yield", id="generator"),
    pytest.param(lambda ctx: produce_later(ctx.task), "in an async function", id="async generator"),
]


@pytest.mark.parametrize("way", ["run", "run_all"])
@pytest.mark.parametrize(("function", "remedy"), UNFINISHED)
def test_a_function_whose_work_is_not_done_fails_the_task(function: Any, remedy: str, way: str) -> None:
    if way == "run":
        with pytest.raises(TypeError, match=remedy):
            STEP.run("o-1", function)
    else:
        assert STEP.run_all(function, limit=1).failed == ["o-1"]
    task = Order.get_task("o-1")
    assert (task.state, task.attempt, task.errors[-1].type) == (STEP.failed, 1, "TypeError")
    assert re.search(remedy, task.errors[-1].message)


def test_a_worker_with_a_function_whose_work_is_not_done_fails_the_task() -> None:
    tally = Worker({STEP: lambda ctx: work(ctx.task)}).run(until_idle=True)[STEP]
    assert (tally.succeeded, tally.ignored) == (0, 1)
    assert "in an async function" in Order.get_task("o-1").errors[0].message


@pytest.mark.parametrize(
    "value", [None, "a receipt", [1], {"a": 1}, iter([1]), threading.Event()], ids=lambda value: type(value).__name__
)
def test_any_other_result_is_returned_as_it_is(value: object) -> None:
    assert STEP.run("o-1", lambda _: value) is value


def test_a_generator_that_is_created_in_the_block_of_a_with_is_no_result() -> None:
    fail(STEP, "o-1")
    with STEP.start("o-1") as ctx:
        list(produce(ctx))
    assert Order.get_task("o-1").state == Order.ship.pending
