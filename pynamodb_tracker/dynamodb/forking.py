"""What begins anew in a forked process: it has none of its parent's threads, one of which may have held a lock."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_forked_process(begin_anew: Callable[[], None]) -> Callable[[], None]:
    """Call this function in each process that is forked from this one, before anything else of it runs."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=begin_anew)
    return begin_anew
