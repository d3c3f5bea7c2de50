"""Sends several requests at the same time, such as one per shard."""

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

Q = TypeVar("Q")
R = TypeVar("R")
_THREADS = 8  # the program needs most of the client's connections


def side_by_side(ask: Callable[[Q], R], questions: Iterable[Q], *, threads: int = _THREADS) -> list[R]:
    """Call the function with each question, on a few threads in this context. Return the responses in order.

    After an error, no more questions are asked. It is raised once the running calls have ended.
    """
    left = list(enumerate(questions))[::-1]
    if len(left) == 1:
        return [ask(left[0][1])]
    responses: dict[int, R] = {}
    errors: list[BaseException] = []

    def ask_all() -> None:
        while left and not errors:
            try:
                number, question = left.pop()
            except IndexError:  # another thread was faster
                return
            try:
                responses[number] = ask(question)
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)

    started = []
    try:
        for _ in range(min(threads, len(left)) - 1):
            thread = threading.Thread(target=copy_context().run, args=(ask_all,), name="pynamodb_tracker")
            try:
                thread.start()
            except RuntimeError:  # shutting down, or out of threads
                break
            started.append(thread)
        ask_all()
        for thread in started:
            thread.join()
    finally:
        left.clear()  # so that Ctrl-C ends the threads soon
    for error in sorted(errors, key=lambda error: isinstance(error, Exception)):
        raise error  # Ctrl-C before any other failure
    return [responses[number] for number in range(len(responses))]
