"""What a worker prints when it is asked what it is doing."""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["say"]


def say(text: str) -> None:
    """Print to stderr; where that is closed, or nobody reads it any more, there is nobody to be told."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
