"""A late request sets or removes the time to live of off-row items: it does not undo a later operation."""

import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynamodb_tracker import GiveUp
from pynamodb_tracker.testing import StoppedClock
from tests.engine.actions import PASS, THROTTLED, Action, Hold, Rule, pass_everything
from tests.engine.proxy import Proxy
from tests.support.proxy_rules import arrive
from tests.support.rows import off_row_items

pytestmark = pytest.mark.usefixtures("stopped_clock")

PRECIOUS = {"scan": "precious" * 1_000}


@pytest.fixture
def kept(new_worker: Callable[..., Any], proxy: Proxy) -> Any:
    """Return a use case behind the proxy whose finished tasks are kept for a day, with one task in it."""
    order = new_worker(proxy.endpoint, keep_for=timedelta(days=1), keep_ignored_for=timedelta(days=1))
    order.create("o", data=PRECIOUS)
    return order


def of_a_piece(late: Hold) -> Rule:
    """Hold the first write of the time to live of a chunk."""
    held: list[Hold] = []

    def rule(target: str, body: dict[str, Any], _ordinal: int) -> Action:
        if held or target != "UpdateItem" or "#data#" not in body["Key"]["use_case_id"]["S"]:
            return PASS
        held.append(late)
        return late

    return rule


def give_up(order: Any) -> None:
    with contextlib.suppress(GiveUp), order.confirm.start("o"):
        raise GiveUp


def ends(order: Any) -> set[str | None]:
    """Return the times to live of the off-row items."""
    return {item.get("expire_time", {}).get("N") for item in off_row_items(order, "o").values()}


def test_a_late_time_to_live_does_not_affect_a_reopened_task(kept: Any, proxy: Proxy) -> None:
    late = Hold()
    proxy.rule = of_a_piece(late)
    give_up(kept)
    proxy.rule = pass_everything
    kept.confirm.reopen("o")
    assert (arrive(proxy, late).status, ends(kept)) == (400, {None})
    assert kept.confirm.run("o", lambda ctx: ctx.task.data) == PRECIOUS


def test_a_late_removal_of_the_time_to_live_does_not_affect_a_task_that_ended_since(
    kept: Any, proxy: Proxy, stopped_clock: StoppedClock
) -> None:
    give_up(kept)
    late = Hold()
    proxy.rule = of_a_piece(late)
    kept.confirm.reopen("o")
    proxy.rule = pass_everything
    stopped_clock.advance(timedelta(hours=1))
    give_up(kept)
    before = ends(kept)
    assert arrive(proxy, late).status == 400
    assert ends(kept) == before != {None}


def test_a_time_to_live_that_is_restored_late_does_not_affect_a_reopened_task(
    kept: Any, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    give_up(kept)
    late, kept_by_now = list[Hold](), threading.Event()

    def rule(target: str, _body: dict[str, Any], _ordinal: int) -> Action:
        if target == "BatchGetItem":
            kept_by_now.set()
        if target == "TransactWriteItems":
            late.append(Hold())
            return late[-1]
        return THROTTLED if target == "UpdateItem" and kept_by_now.is_set() else PASS

    proxy.rule = rule
    with pytest.raises(UpdateError):
        kept.confirm.reopen("o")
    proxy.rule = pass_everything
    assert "will not expire" in caplog.text
    kept.confirm.reopen("o")
    assert ({arrive(proxy, copy).status for copy in late}, ends(kept)) == ({400}, {None})
