"""The shop's tables in memory, a clock that stands still, and clients of its page."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from pynamodb_tracker import Task
from pynamodb_tracker.control import flow
from pynamodb_tracker.testing import StoppedClock
from pynamodb_tracker.web import dashboard, decisions
from tests.support.engines import empty_tables, opened
from tests.web.shop import Order, ShopTask
from tests.web.trouble import plant

OWN = {"Sec-Fetch-Site": "same-origin"}
"""What a browser says of a request from a page's own form."""

Open = Callable[..., TestClient]


def slices_of(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    """Let each request change so many of the tasks that a decision is about."""
    monkeypatch.setattr(decisions, "SLICE", tasks)
    monkeypatch.setattr(decisions, "SLICE_SECONDS", -1)


engine, shop = opened(ShopTask, in_memory=False), empty_tables


@pytest.fixture
def counted(shop: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001 - empty tables
    """Count what passes through the steps of an order; no other test finds what was not sent."""
    monkeypatch.setattr(Order.use_case_id, "count_transitions", True)
    yield
    flow._counts.forget()


@pytest.fixture
def trouble(shop: StoppedClock, monkeypatch: pytest.MonkeyPatch, counted: None) -> StoppedClock:  # noqa: ARG001 - it counts
    """Plant every trouble, in steps that can be paused, and send each count at once."""
    monkeypatch.setattr(flow, "_MOST", 1)
    monkeypatch.setattr(Order.use_case_id, "pausable", True)
    plant(shop)
    return shop


@pytest.fixture
def open_page() -> Open:
    """Return what opens a page as a browser of ada, who may do everything unless the test says otherwise."""

    def opened(*models: type[Task], headers: dict[str, str] = OWN, **options: Any) -> TestClient:
        given: dict[str, Any] = {"user": lambda _: "ada", "actions": True} | options
        return TestClient(dashboard(*(models or (ShopTask,)), **given), headers=headers, follow_redirects=False)

    return opened
