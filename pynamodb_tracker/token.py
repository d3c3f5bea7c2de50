"""What a claim signs with: tokens that only grow, and the name of the worker."""

from __future__ import annotations

import functools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["new_token", "this_worker", "working_as"]

_guard = threading.Lock()
_last = 0


def _renew() -> None:
    """Give a forked process a lock of its own: a thread of its parent may hold this one for ever."""
    global _guard  # noqa: PLW0603 - the order holds for the whole process
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_renew)


def new_token(above: str | None = None) -> str:
    """Return a token later than every earlier one of this process, and than `above`.

    16 hex digits of the real clock in nanoseconds, so that the tokens of a row are in the order in which they were
    drawn, then 8 random ones. A stopped clock does not stop them: two runs at one stopped moment are two runs.
    """
    global _last  # noqa: PLW0603 - the order holds for the whole process
    with _guard:
        floor = int(above[:16], 16) if above else 0
        _last = max(time.time_ns(), _last + 1, floor + 1)
        return f"{_last:016x}{secrets.token_hex(4)}"


@functools.cache
def _host() -> str:
    return socket.gethostname()


_name: ContextVar[str | None] = ContextVar("pynamodb_tracker_worker", default=None)


def this_worker() -> str:
    """Return who claims: by `working_as`, or else `host:pid`, read anew each time because processes fork."""
    return _name.get() or f"{_host()}:{os.getpid()}"


@contextmanager
def working_as(name: str | None) -> Iterator[None]:
    """Let what is claimed in this block be claimed under that name; None changes nothing."""
    before = _name.set(name or _name.get())
    try:
        yield
    finally:
        _name.reset(before)
