"""Async functions: which calls take them, and which refuse them with the name of what does."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from pynamodb_tracker import AsyncContext, Step, UseCase, Worker
from tests.support.recorder import recorded
from tests.support.shop import AppTask

pytestmark = pytest.mark.usefixtures("table")


class Note(AppTask):
    """Its first step has an async function, its second one has another one, its third has none."""

    use_case_id = UseCase("async note")

    write = Step(10)
    send = Step(20)
    file = Step(30)


@Note.write.does
async def write(ctx: AsyncContext[Note]) -> str:
    ctx.task.data["text"] = "Dear"
    return "written"


@Note.send.does
def send(_ctx: object) -> str:
    return "sent"


def test_arun_and_arun_all_run_the_bound_function() -> None:
    Note.create_many(["n-1", "n-2"])
    assert asyncio.run(Note.write.arun("n-1")) == "written"
    assert asyncio.run(Note.write.arun_all()).succeeded == ["n-2"]
    assert Note.get_task("n-1").data == {"text": "Dear"}
    Note.create("n-3")
    assert asyncio.run(Note.write.arun("n-3", write)) == "written"


def test_calls_without_an_event_loop_refuse_an_async_function_and_name_those_that_take_it() -> None:
    message = r"not the async .*\.write: await Note.write.arun\(\.\.\.\) or Note.write.arun_all.*AsyncWorker"
    calls: list[Callable[[], Any]] = [lambda: Note.write.run("n-1"), Note.write.run_all]
    with recorded(AppTask) as requests:
        for call in calls:
            with pytest.raises(TypeError, match=message):
                call()
    assert requests == []


def test_an_async_function_that_is_given_is_refused_in_the_same_way() -> None:
    for call in (lambda: Note.file.run("n-1", write), lambda: Note.file.run_all(write)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"await Note.file.arun"):
            call()


def test_arun_refuses_a_function_that_is_not_async_and_names_what_takes_it() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: Note.send.arun("n-1"),
        Note.send.arun_all,
        lambda: Note.file.arun("n-1", send),  # type: ignore[arg-type]
    ]
    with recorded(AppTask) as requests:
        for call in calls:
            with pytest.raises(TypeError, match=r"an async function of the context, not .*send: .* Note.\w+.run\("):
                asyncio.run(call())
    assert requests == []


def test_a_lambda_or_a_wrapper_of_an_async_function_is_awaited() -> None:
    Note.create_many(["n-1", "n-2"])

    @functools.wraps(write)
    def wrapper(ctx: AsyncContext[Note]) -> Any:
        return write(ctx)

    async def main() -> list[object]:
        for task_id in ("n-3", "n-4"):
            Note.create(task_id, state=Note.file.pending)
        return [
            await Note.file.arun("n-3", lambda ctx: write(ctx)),  # noqa: PLW0108 - the lambda is what is tested
            await Note.file.arun("n-4", wrapper),
        ]

    assert asyncio.run(main()) == ["written", "written"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: 7, "returned 7, which cannot be awaited"),
        (lambda _: (each for each in "ab"), "a generator, so its body has not run"),
        (lambda _: awaits_twice(), "an awaitable, so its work is not done"),
    ],
    ids=["number", "generator", "awaitable"],
)
def test_what_is_not_done_when_it_was_awaited_fails_the_attempt(function: Any, message: str) -> None:
    Note.create("n-1", state=Note.file.pending)
    with pytest.raises(TypeError, match=message):
        asyncio.run(Note.file.arun("n-1", function))
    assert Note.get_task("n-1").state == Note.file.failed


def test_an_async_generator_is_not_taken_and_the_error_says_what_to_write() -> None:
    async def pages(_ctx: Any) -> Any:
        yield 1

    calls: list[Callable[[], object]] = [
        lambda: Note.file.does(pages),
        lambda: asyncio.run(Note.file.arun("n-1", pages)),
        lambda: asyncio.run(Note.file.arun_all(pages)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"async generator .*pages.*: write return for yield"):
            call()


def test_a_coroutine_in_place_of_the_function_is_refused_as_what_it_is() -> None:
    coroutine: Any = awaits_twice()
    with pytest.raises(TypeError, match="a function of the context, not <coroutine object awaits_twice"):
        asyncio.run(Note.file.arun("n-1", coroutine))
    coroutine.close()


def test_a_wrapper_that_is_not_async_fails_on_a_thread_and_the_error_says_what_to_change() -> None:
    Note.create("n-1", state=Note.file.pending)

    @functools.wraps(write)
    def wrapper(ctx: Any) -> Any:
        return write(ctx)

    Worker({Note.file: wrapper}).run(until_idle=True)
    assert "A decorator must return one, too" in str(Note.get_task("n-1").last_error)


async def awaits_twice() -> Any:
    return asyncio.sleep(0)
