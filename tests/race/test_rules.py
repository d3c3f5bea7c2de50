"""Rules of the lock protocol that do not depend on a single guard."""

import time
from typing import Any

import pytest

from pynamodb_tracker.writes import lock as lock_module
from tests.support.world import fail

pytestmark = pytest.mark.usefixtures("stopped_clock")


@pytest.mark.parametrize("behind", ["reopen", "ignore"])
def test_a_command_from_a_clock_behind_the_last_claimers_is_applied(
    order: Any, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    order.create("o")
    with monkeypatch.context() as ahead:
        ahead.setattr(lock_module, "_last", max(time.time_ns(), lock_module._last) + 3_600_000_000_000)
        fail(order.confirm)
    task = order.confirm.reopen("o") if behind == "reopen" else order.confirm.ignore("o", reason="cancelled")
    assert task.state == {"reopen": order.confirm.pending, "ignore": order.confirm.ignored}[behind]
