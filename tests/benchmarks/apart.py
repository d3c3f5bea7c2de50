"""A process of its own for each way: ways that share code in one process change each other's times.

Python specialises code to what runs through it, so PynamoDB is slower for each of two libraries that both use it.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 120.0


class Apart:
    """An object that was made in another process, whose methods are called there."""

    def __init__(self, make: Callable[..., object], *args: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, make, args), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, method: str, *args: object) -> Any:
        self._ours.send((method, args))
        if not self._ours.poll(PATIENCE):
            raise TimeoutError(f"{method} has taken more than {PATIENCE:.0f} s")
        return self._ours.recv()

    def close(self) -> None:
        self._ours.close()
        self._process.join(PATIENCE)


def serve(calls: Connection, make: Callable[..., object], args: tuple[object, ...]) -> None:
    made = make(*args)
    while True:
        try:
            method, given = calls.recv()
        except EOFError:
            return
        calls.send(getattr(made, method)(*given))


@contextmanager
def all_apart(make: Callable[..., object], ways: Mapping[str, Callable[..., Any]]) -> Iterator[dict[str, Apart]]:
    """Have what `make` makes of each way, in a process for each."""
    with ExitStack() as stack:
        made = {name: Apart(make, way) for name, way in ways.items()}
        for each in made.values():
            stack.callback(each.close)
        yield made
