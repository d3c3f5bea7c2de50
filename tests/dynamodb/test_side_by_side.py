"""Questions that are asked at the same time."""

import threading
from contextvars import ContextVar
from queue import Queue

import pytest

from pynamodb_tracker.dynamodb.side_by_side import side_by_side

var: ContextVar[int] = ContextVar("var", default=0)


def test_questions_are_asked_at_the_same_time_and_answered_in_their_order() -> None:
    together = threading.Barrier(5)

    def answer(question: int) -> int:
        together.wait(timeout=60)
        return question * 2

    assert side_by_side(answer, range(5)) == [0, 2, 4, 6, 8]


def test_a_single_question_is_asked_in_this_thread() -> None:
    assert side_by_side(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_each_question_is_asked_in_the_context_of_the_caller() -> None:
    token = var.set(7)
    try:
        assert side_by_side(lambda _: var.get(), range(3)) == [7, 7, 7]
    finally:
        var.reset(token)


def test_the_error_of_one_question_is_raised_once_no_other_one_is_under_way() -> None:
    together, ended = threading.Barrier(3), []

    def fail_first(question: int) -> None:
        together.wait(timeout=60)
        if question == 0:
            raise ZeroDivisionError
        ended.append(question)

    with pytest.raises(ZeroDivisionError):
        side_by_side(fail_first, range(3))
    assert sorted(ended) == [1, 2]


def test_where_no_thread_can_be_started_this_one_asks_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert side_by_side(lambda question: question * 2, range(20)) == list(range(0, 40, 2))


def test_ctrl_c_is_raised_even_if_another_question_has_failed_before() -> None:
    together, others = threading.Barrier(2), Queue[threading.Thread]()

    def ask(_: int) -> None:
        together.wait(timeout=60)
        if threading.current_thread() is not threading.main_thread():
            others.put(threading.current_thread())
            raise ZeroDivisionError
        others.get(timeout=60).join(timeout=60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side(ask, range(2))
