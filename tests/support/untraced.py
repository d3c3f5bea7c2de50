"""What coverage leaves out because it takes long and shows nothing: requests, most processes, and some folders."""

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
FOLDERS = ("chaos", "compat", "infra", "machine", "model", "race")
"""Tests of races, of faults and of many steps in a row, which run lines that the contract runs anyway."""


def leave_requests_out() -> None:
    """Have coverage pause in this process while botocore, moto below it, or a server of the tests is at work.

    Coverage by a trace function, which is the only way before Python 3.14, is asked about each line that is run, also
    where it keeps nothing. None of these calls the library, but for the rule of a proxy that lets a rival act.
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
        if not type(tracer).__module__.startswith("coverage"):  # none, or that of a test
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)

    return call


_VARIABLES = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


def leave_processes_out() -> None:
    """Let processes that tests start run without coverage, in two thirds of the time: most repeat what is covered."""
    for name in _VARIABLES:
        os.environ.pop(name, None)


@contextlib.contextmanager
def measured() -> Iterator[None]:
    """Have coverage measure the processes that are started meanwhile."""
    with mock.patch.dict(os.environ, _VARIABLES):
        yield


@contextlib.contextmanager
def measuring(file: Path) -> Iterator[None]:
    """Have coverage pause while the tests of a file run, if it is in one of those folders."""
    with unmeasured() if file.relative_to(_TESTS).parts[0] in FOLDERS else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Have coverage, where it measures this process, pause."""
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
