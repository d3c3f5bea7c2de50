"""The script that moves tasks of pynamodb_mate: each arrives in its state, also after an interruption."""

import runpy
from datetime import UTC, datetime
from typing import Any

import pytest

from pynamodb_tracker.testing import LocalTable
from tests.infra.template import INFRA


@pytest.fixture
def script(local_table: LocalTable) -> dict[str, Any]:
    names = runpy.run_path(str(INFRA / "migrate" / "pynamodb_mate.py"), run_name="migrate")
    local_table(names["AppTask"])
    names["OldTask"].create_table(wait=True, billing_mode="PAY_PER_REQUEST")
    return names


def old_task(script: dict[str, Any], task_id: str, status: int, **attributes: Any) -> None:
    at_rest = {"lock": "__not_locked__", "lock_time": datetime.fromtimestamp(0, UTC)}
    key, value = f"{script['USE_CASE']}{task_id}", f"{script['USE_CASE']}{status:03}____001"
    script["OldTask"](key=key, value=value, status=status, **{**at_rest, **attributes}).save()


def test_each_task_arrives_in_its_state(script: dict[str, Any]) -> None:
    for task_id, status in enumerate(script["STATES"]):
        old_task(script, f"o-{task_id}", status, data={"amount": 1})
    assert script["move_all"]() == 0
    for task_id, state in enumerate(script["STATES"].values()):
        moved = script["Order"].get_task(f"o-{task_id}")
        assert (moved.state, moved.data) == (state, {"amount": 1})


def test_a_move_that_was_interrupted_is_finished_by_the_next_round(script: dict[str, Any]) -> None:
    old_task(script, "o-1", 6, errors={"history": [{"error": "ConnectionError('bank')"}]})
    assert script["take_away"](script["OldTask"].get(f"{script['USE_CASE']}o-1"))  # and then the program was killed

    assert script["move_all"]() == 0
    assert script["move_all"]() == 0

    moved = script["Order"].get_task("o-1")
    assert moved.state == script["Order"].confirm_payment.failed
    assert moved.data == {"old_error": "ConnectionError('bank')"}


def test_a_task_that_a_worker_is_running_stays(script: dict[str, Any]) -> None:
    old_task(script, "o-1", 3, lock="worker", lock_time=datetime.now(UTC))
    assert script["move_all"]() == 1
