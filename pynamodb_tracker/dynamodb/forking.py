"""Resets state in forked processes, because a thread in the parent may have held a lock."""

import os
from collections.abc import Callable


def in_forked_process(reset: Callable[[], None]) -> Callable[[], None]:
    """Call this function in each forked process, before its own code runs."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=reset)
    return reset
