"""The tokens of claims and commands: each is later than those before it."""

from __future__ import annotations

import os
import secrets
import threading
import time

_guard = threading.Lock()
_last = 0


def _renew() -> None:
    """Give a forked process a lock of its own: a thread of its parent may have held this one when it forked."""
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
