"""A demo in which runs fail and workers die, and every order still ends where it should."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from typing import Any

from pynamodb_tracker.instrumentation import log

if parent_process() is not None:  # in a worker process
    log.addHandler(logging.NullHandler())


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the library's log, because the demo shows failures itself."""
    handler = logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class DemoError(Exception):
    """The demo cannot run. The message has one line per reason."""


def say(console: Any, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
