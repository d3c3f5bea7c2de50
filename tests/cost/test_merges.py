"""What it costs to merge a request, and to run with what was asked for: counted on their way, as the engine charges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.engine.proxy import Proxy
from tests.support.fixtures import Frozen
from tests.support.proxy_rules import targets, writes

pytestmark = pytest.mark.usefixtures("stopped_clock")

Freeze = Callable[..., Frozen]
ID = "0e8fdfe2-5d54-4b4d-9d7e-5b8c7a1f0a11"
HOUR = timedelta(hours=1)


def add(task: Any, new: Mapping[str, Any]) -> None:
    task.note = f"{task.note}{new['note']}"


def nothing(*_: object) -> None: ...


def is_there(order: Any, _: Freeze) -> None:
    order.create(ID, note="a", due_time=2 * HOUR)


def runs(order: Any, freeze: Freeze) -> None:
    order.create(ID, note="a")
    freeze(order.confirm, ID)


def has_succeeded(order: Any, _: Freeze) -> None:
    order.create(ID, note="a", state=order.ship.succeeded)


@pytest.mark.parametrize(
    ("how", "state", "options", "requests", "units"),
    [
        ("created", nothing, {}, ["PutItem"], [2]),
        ("merged", is_there, {"due_time": 3 * HOUR}, ["PutItem"], []),
        ("merged", is_there, {"merge": add, "due_time": 3 * HOUR}, ["PutItem", "UpdateItem"], [1]),
        ("merged", is_there, {"due_time": HOUR}, ["PutItem", "UpdateItem"], [3]),
        ("again", runs, {}, ["PutItem", "UpdateItem"], [1]),
        ("anew", has_succeeded, {}, ["PutItem", "UpdateItem"], [3]),
    ],
    ids=["created", "nothing to change", "merged", "due earlier", "again", "anew"],
)
def test_a_merge_is_one_request_or_two(
    order: Any,
    rival: Any,
    proxy: Proxy,
    freeze: Freeze,
    *,
    how: str,
    state: Callable[[Any, Freeze], None],
    options: dict[str, Any],
    requests: list[str],
    units: list[float],
) -> None:
    """A refused PutItem is charged 1 unit more, which the engine does not report."""
    state(rival, freeze)

    assert order.create_or_merge(ID, note="b", **options).how == how

    assert targets(proxy) == requests
    assert writes(proxy) == units


def test_a_run_that_takes_in_what_was_asked_for_is_a_read_and_a_refused_write_more(
    order: Any, rival: Any, proxy: Proxy, freeze: Freeze, stopped_clock: StoppedClock
) -> None:
    rival.create(ID, note="a", state=order.ship.pending)
    run = freeze(order.ship, ID)
    rival.create_or_merge(ID, note="b")

    run.wake()

    assert targets(proxy) == ["UpdateItem", "UpdateItem", "GetItem", "UpdateItem"]
    assert writes(proxy) == [3, 3]
    task = rival.get_task(ID)
    assert (task.state, task.note, task.due_time) == (order.confirm.pending, "b", stopped_clock.now())
