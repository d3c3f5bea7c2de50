"""The name of the worker that claims a task: `host:pid`, or the name that a Lambda invocation sets."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Iterator
from contextvars import ContextVar

from pynamodb_tracker.dynamodb.around import around


@functools.cache
def _host() -> str:
    return socket.gethostname()


_name: ContextVar[str | None] = ContextVar("pynamodb_tracker_worker", default=None)


def this_worker() -> str:
    """Return the name set by `working_as`, or else `host:pid`, which changes when a process forks."""
    return _name.get() or f"{_host()}:{os.getpid()}"


@around
def working_as(name: str | None) -> Iterator[None]:
    """Use this name for claims in the block. None changes nothing."""
    before = _name.set(name or _name.get())
    try:
        yield
    finally:
        _name.reset(before)
