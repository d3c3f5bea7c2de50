"""Several requests at the same time, such as one to each shard of a state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Generic, TypeVar

Q = TypeVar("Q")
R = TypeVar("R")

_THREADS = 8
"""Few, because a client keeps a limited number of connections, and the program needs most of them itself."""


def side_by_side(ask: Callable[[Q], R], questions: Iterable[Q]) -> list[R]:
    """Call the function on each question, here and on a few threads in this context; return the responses in order.

    If a call raises, so does this one, once no other call is running; questions whose turn has not come are then not
    asked.
    """
    asked = _Questions(ask, list(questions))
    threads = [
        threading.Thread(target=copy_context().run, args=(asked.ask_all,), name="pynamodb_tracker")
        for _ in range(min(_THREADS, len(asked.left)) - 1)
    ]
    started = []
    try:
        for thread in threads:
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends, or the system has no more threads: this one asks the rest
                break
            started.append(thread)
        asked.ask_all()
        for thread in started:
            thread.join()
    finally:
        asked.left.clear()  # Ctrl-C waits for nothing
    for error in sorted(asked.errors, key=lambda error: isinstance(error, Exception)):
        raise error  # Ctrl-C first, before any other failure
    return [asked.responses[number] for number in range(len(asked.responses))]


class _Questions(Generic[Q, R]):
    """Questions, each of which is asked by whichever thread takes it."""

    def __init__(self, ask: Callable[[Q], R], questions: list[Q]) -> None:
        self.ask = ask
        self.left = list(enumerate(questions))[::-1]
        self.responses: dict[int, R] = {}
        self.errors: list[BaseException] = []

    def ask_all(self) -> None:
        """Ask until no question is left, or a call has raised."""
        while self.left and not self.errors:
            try:
                number, question = self.left.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                self.responses[number] = self.ask(question)
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                self.errors.append(error)
