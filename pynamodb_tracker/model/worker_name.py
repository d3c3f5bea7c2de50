"""The name of the worker that claims a task."""

import functools
import os
import socket
import string
from contextlib import AbstractContextManager
from contextvars import ContextVar

from pynamodb_tracker.dynamodb.around import set_variable
from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.dynamodb.forking import in_forked_process


@functools.cache
def _life() -> str:
    """Return random letters, because a container's next life has the same host name, and often the same process id."""
    return "".join(RANDOM.choices(string.ascii_lowercase + string.digits, k=4))


in_forked_process(_life.cache_clear)

_name: ContextVar[str | None] = ContextVar("pynamodb_tracker_worker", default=None)


def this_worker() -> str:
    """Return the name set by `working_as`, or else this process: `host:pid:` and four random letters."""
    return _name.get() or f"{socket.gethostname()}:{os.getpid()}:{_life()}"


def working_as(name: str | None) -> AbstractContextManager[None]:
    """Use this name for claims in the block. None changes nothing."""
    return set_variable(_name, name or _name.get())
