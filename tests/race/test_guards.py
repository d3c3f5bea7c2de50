"""Every guard of the lock protocol protects a trace; without the guard, the same trace breaks a promise."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pynamodb_tracker.testing import StoppedClock
from tests.engine.engine import Engine
from tests.engine.proxy import Proxy
from tests.race.guards import GUARDS, Guard
from tests.support.fixtures import Frozen
from tests.support.world import World


@pytest.fixture
def world(
    new_worker: Any, proxy: Proxy, dynamodb: Engine, stopped_clock: StoppedClock, freeze: Callable[..., Frozen]
) -> World:
    keep_for = timedelta(days=30)
    mine, theirs = (
        new_worker(each.endpoint, keep_for=keep_for, keep_ignored_for=keep_for, urgent=True)
        for each in (proxy, dynamodb)
    )
    return World(mine, theirs, proxy, stopped_clock, freeze, partial(new_worker, dynamodb.endpoint))


@pytest.mark.parametrize("trace", dict.fromkeys(guard.trace for guard in GUARDS), ids=lambda trace: trace.__name__)
def test_with_its_guard_a_trace_breaks_no_promise(world: World, trace: Callable[[World], bool]) -> None:
    assert not trace(world)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_without_its_guard_a_trace_breaks_a_promise(
    world: World, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.remove(monkeypatch)  # conditions are rendered when they are first needed: after this
    assert guard.trace(world)
