"""The fixtures of these tests: see tests/support/fixtures.py. All are measured with one host name."""

from collections.abc import Iterator

import pytest

from tests.support.fixtures import freeze, name, new_worker, order, quick_sdk, rival, session, table

__all__ = ["freeze", "name", "new_worker", "order", "quick_sdk", "rival", "session", "table"]


@pytest.fixture(scope="package", autouse=True)
def _host_name() -> Iterator[None]:
    """Name the worker after a short host: a long name is stored with each failure, and may cost a write unit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "worker-1")
        yield
