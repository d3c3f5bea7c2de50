"""The tables of the shop, in memory, and a clock that stands still."""

import signal
from collections.abc import Iterator
from unittest import mock

import pytest

from pynamodb_tracker.testing.tables import OneAtATime
from tests.cli.shop import BoundTask, OtherTask, StoreTask
from tests.support.engines import empty_tables, opened


@pytest.fixture(scope="package", autouse=True)
def hangup() -> Iterator[None]:
    """Let a closed terminal be heard of, as from a terminal, also where all tests run below nohup."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="package", autouse=True)
def _as_on_aws() -> Iterator[None]:
    """Let tables in memory stand for those on AWS."""
    with mock.patch.object(OneAtATime, "is_in_memory", False):  # noqa: FBT003 - the value of an attribute
        yield


engine, store = opened(StoreTask, OtherTask, BoundTask), empty_tables
