"""What coverage leaves out because it takes long and shows nothing: botocore, and processes that races start."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import botocore.client
import botocore.session

__all__ = ["leave_botocore_out", "unmeasured"]


def leave_botocore_out() -> None:
    """Have coverage pause in this process while botocore, and moto below it, are at work.

    Coverage by a trace function, which is the only way before Python 3.14, is asked about each line that is run, also
    where it keeps nothing. No module of the library is called by botocore.
    """
    if "coverage" not in sys.modules:
        return
    for owner, name in ((botocore.client.BaseClient, "_make_api_call"), (botocore.session.Session, "create_client")):
        setattr(owner, name, _untraced(getattr(owner, name)))


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = sys.gettrace()
        if not type(tracer).__module__.startswith("coverage"):  # none, or that of a test
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)

    return call


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Let processes that are started meanwhile run without coverage, in half of the time: others cover what they do."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    with mock.patch.dict(os.environ, kept, clear=True):
        yield
