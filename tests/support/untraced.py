"""Leaves slow and irrelevant code out of coverage: requests, most processes, and some folders."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock

import botocore.client
import botocore.session

_TESTS = Path(__file__).parents[1]
FOLDERS = ("chaos", "compat", "infra", "machine", "race", "search")
"""Tests of races, faults and long sequences. The contract tests cover the same lines."""


def leave_requests_out() -> None:
    """Pause coverage while botocore, moto below it, or a test's server is working.

    Before Python 3.14, coverage calls a trace function for every line, even for lines that it ignores. None of these
    calls the library, except a proxy rule that lets a rival act.
    """
    if "coverage" not in sys.modules:
        return
    for owner, name in (
        (botocore.client.BaseClient, "_make_api_call"),
        (botocore.session.Session, "create_client"),
        (BaseHTTPRequestHandler, "handle"),
    ):
        setattr(owner, name, _untraced(getattr(owner, name)))


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = sys.gettrace()
        if not type(tracer).__module__.startswith("coverage"):  # there is none, or a test's own
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)

    return call


_VARIABLES = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


def leave_processes_out() -> None:
    """Run the processes that tests start without coverage, in two thirds of the time."""
    for name in _VARIABLES:
        os.environ.pop(name, None)


@contextlib.contextmanager
def measured() -> Iterator[None]:
    """Let coverage measure the processes that this block starts."""
    with mock.patch.dict(os.environ, _VARIABLES):
        yield


@contextlib.contextmanager
def measuring(file: Path) -> Iterator[None]:
    """Pause coverage while the tests in a file run, if it is in one of those folders."""
    with unmeasured() if file.relative_to(_TESTS).parts[0] in FOLDERS else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Pause coverage if it measures this process."""
    coverage = sys.modules.get("coverage")
    measured_by = coverage.Coverage.current() if coverage else None
    if measured_by is None:
        yield
        return
    measured_by.stop()
    try:
        yield
    finally:
        measured_by.start()
