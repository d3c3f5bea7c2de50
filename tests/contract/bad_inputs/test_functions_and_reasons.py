"""Functions, which are called with the context and done when they return; and reasons of a person, which are text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, NoReturn

import pytest

from tests.contract.odd_values import STATE, STEP, Colour, Plain, Text, columns, refuses
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")


async def asynchronous(_ctx: object) -> NoReturn:
    pytest.fail("it runs")


def generating(_ctx: object) -> Iterator[None]:
    yield pytest.fail("it runs")


async def streaming(_ctx: object) -> AsyncIterator[None]:
    yield pytest.fail("it runs")


class AsynchronousObject:
    async def __call__(self, _ctx: object) -> NoReturn:
        pytest.fail("it runs")

    async def method(self, _ctx: object) -> NoReturn:
        pytest.fail("it runs")


NO_FUNCTIONS: list[Any] = [
    *((value, "takes a function of the context, not ") for value in (None, "print", 5, {}, STEP, object())),
    *((value, "done when it returns, not the async") for value in (asynchronous, streaming, partial(asynchronous))),
    *((value, "not the async") for value in (AsynchronousObject(), AsynchronousObject().method)),
    *((value, "done when it returns, not the generator") for value in (generating, partial(generating))),
]


@columns("function", "message")(NO_FUNCTIONS)
def test_what_is_no_function_of_the_context_is_refused(function: Any, message: str) -> None:
    Order.create("o-1")
    refuses(lambda: STEP.run_all(function), message)
    refuses(lambda: STEP.run("o-1", function), message)
    assert Order.get_task("o-1").state == STATE


@pytest.mark.parametrize("function", [lambda: None, lambda _one, _two: None, int, "{0.nothing}".format])
def test_a_function_that_does_not_take_the_context_fails_the_attempt(function: Any) -> None:
    Order.create("o-1")
    assert STEP.run_all(function).failed == ["o-1"]
    assert Order.get_task("o-1").state == STEP.failed


@columns("reason")([None, 5, True, b"why", ["why"], ValueError("why"), Plain.A])
def test_a_reason_that_is_no_text_is_refused(reason: Any) -> None:
    refuses(lambda: STEP.ignore("o-1", reason=reason), "the reason is text, not ")


@columns("reason", "message")(
    [
        ("", ""),
        ("   ", "   "),
        ("a\n\0b\t😀", "a\n\0b\t😀"),
        ("x" * 200, "x" * 200),
        ("\ud800", "\\ud800"),
        (Text("why"), "why"),
        (Colour.RED, "red"),
    ]
)
def test_a_reason_reads_back_as_it_was_given(reason: str, message: str) -> None:
    Order.create("o-1")
    STEP.ignore("o-1", reason=reason)
    task = Order.get_task("o-1")
    assert (task.state, task.errors[-1].message) == (STEP.ignored, message)
    assert task.last_error
    assert "\n" not in task.last_error
