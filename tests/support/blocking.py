"""Wraps the asyncio client in the interface of the blocking one, so that a test can use either."""

import asyncio
import functools
import inspect
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any
from unittest import mock

import pytest

from pynamodb_tracker import BoundStep

START = [("moto", "start"), ("dynoxide", "start")]
CLIENTS = [*START, ("moto", "astart"), ("dynoxide", "astart")]

only_blocking = pytest.mark.only_blocking


class _Blocking:
    """Wraps an async context manager for `with`. The value that it yields gets blocking methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: AbstractAsyncContextManager[Any, bool | None]) -> None:
        self._loop = loop
        self._inner = inner

    def __enter__(self) -> Any:
        entered = self._loop.run_until_complete(self._inner.__aenter__())
        return _Context(self._loop, entered) if hasattr(entered, "fencing_token") else entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._loop.run_until_complete(self._inner.__aexit__(kind, error, trace))


class _Context:
    def __init__(self, loop: asyncio.AbstractEventLoop, ctx: Any) -> None:
        self._loop = loop
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ctx, name)
        return functools.partial(self._call, found) if inspect.ismethod(found) else found

    def _call(self, method: Any, *args: object, **options: object) -> Any:
        result: object = method(*args, **options)
        if isinstance(result, Coroutine):
            return self._loop.run_until_complete(result)
        return _Blocking(self._loop, result) if isinstance(result, AbstractAsyncContextManager) else result


@contextmanager
def through_asyncio() -> Iterator[None]:
    """Make `start` use `astart` during this block."""
    with asyncio.Runner() as runner:
        loop, original = runner.get_loop(), BoundStep.start

        def start(step: BoundStep[Any], task_id: str, **options: Any) -> _Blocking:
            with mock.patch.object(BoundStep, "start", original):  # because `astart` calls it
                return _Blocking(loop, step.astart(task_id, **options))

        with mock.patch.object(BoundStep, "start", start):
            yield
