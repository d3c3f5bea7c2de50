"""A worker's signs of life, for the probe of a container."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

log = logging.getLogger("pynamodb_tracker")

SILENCE = timedelta(minutes=2)
"""How long a request of a living worker may take, with all its retries."""

_EVERY = 5.0
"""Seconds between two signs of life."""


@contextmanager
def signs_of_life(is_alive: Callable[[], bool], give: Callable[[], object]) -> Iterator[None]:
    """Give a sign of life when the block starts, and then every five seconds while the worker is alive."""
    has_ended = threading.Event()

    def keep_giving() -> None:
        while not has_ended.wait(_EVERY):
            try:
                if is_alive():
                    give()
            except OSError:
                log.exception("the worker cannot say that it is alive")

    give()
    threading.Thread(target=keep_giving, name="pynamodb_tracker liveness", daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
