"""One function on many items, on threads."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from contextvars import Context, copy_context
from typing import Any

import pytest

from pynamodb_tracker.dynamodb.retries import NotSentError, is_stopped, stopped_by
from pynamodb_tracker.work import threads


@pytest.mark.parametrize("number", [1, 3, 16])
def test_each_item_is_taken_once(number: int) -> None:
    seen: list[int] = []
    threads.in_threads(seen.append, range(50), number)
    assert sorted(seen) == list(range(50))


def test_an_exception_stops_the_feeding_with_the_next_item(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, watched, seen = threading.Event(), threads._watched, list[int]()

    def noted(*arguments: Any) -> None:
        try:
            watched(*arguments)
        finally:
            ended.set()

    def items() -> Iterator[int]:
        yield 0
        assert ended.wait(30)
        yield from range(1, 8)

    def leave(item: int) -> None:
        seen.append(item)
        raise SystemExit(3)

    monkeypatch.setattr(threads, "_watched", noted)
    with pytest.raises(SystemExit):
        threads.in_threads(leave, items(), 8)
    assert seen == [0]


@pytest.mark.parametrize("ends", [False, True], ids=["raises", "returns"])
def test_what_a_call_has_started_in_a_copy_of_its_context_is_not_stopped_when_all_have_ended(*, ends: bool) -> None:
    contexts: list[Context] = []

    def keep(_: int) -> None:
        contexts.append(copy_context())
        if not ends:
            raise SystemExit

    with nullcontext() if ends else pytest.raises(SystemExit):
        threads.in_threads(keep, [1, 2], 2)
    assert contexts
    assert not any(context.run(is_stopped) for context in contexts)


def test_what_a_block_has_started_in_a_copy_of_its_context_is_stopped_as_long_as_the_block() -> None:
    event = threading.Event()
    event.set()
    with stopped_by(event):
        context = copy_context()
        assert context.run(is_stopped)
    assert not context.run(is_stopped)


@pytest.mark.parametrize("number", [1, 3])
def test_items_that_are_not_taken_because_of_a_stop_are_an_error(number: int) -> None:
    event, seen = threading.Event(), list[int]()

    def stop(item: int) -> None:
        seen.append(item)
        event.set()

    def items() -> Iterator[int]:
        yield 0
        event.wait(30)
        yield 1

    with stopped_by(event), pytest.raises(NotSentError):
        threads.in_threads(stop, items(), number)
    with stopped_by(event):
        threads.in_threads(stop, [], number)
    assert seen == [0]
