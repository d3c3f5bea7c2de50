"""Limits and threads, which are whole numbers from 1; and flags, which are True or False."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tests.contract.odd_values import NAN, STATE, STEP, Level, columns, nothing, refuses
from tests.support.shop import Order

pytestmark = pytest.mark.usefixtures("table")

TAKES_A_LIMIT: list[Callable[[Any], Any]] = [
    lambda limit: list(STATE.query(limit=limit)),
    lambda limit: STATE.page(limit=limit).tasks,
    lambda limit: list(STEP.todo(limit=limit)),
    lambda limit: list(STEP.due_ids(limit=limit)),
    lambda limit: STEP.run_all(nothing, limit=limit).succeeded,
]

TAKES_THREADS: list[Callable[[Any], Any]] = [
    lambda threads: STEP.run_all(nothing, threads=threads),
    lambda threads: Order.create_many(["o-2"], threads=threads),
    lambda threads: Order.delete_use_case(threads=threads),
]

NO_COUNTS = [0, -1, -(10**30), True, False, 1.0, NAN, "10", b"1", [1], Level.HIGH, Decimal(1)]

TAKES_A_FLAG: list[Any] = [
    ("heartbeat", lambda flag: STEP.start("o-1", heartbeat=flag)),
    ("heartbeat", lambda flag: STEP.run("o-1", nothing, heartbeat=flag)),
    ("heartbeat", lambda flag: STEP.run_all(nothing, heartbeat=flag)),
    ("with_data", lambda flag: STATE.query(with_data=flag)),
    ("with_data", lambda flag: STATE.page(with_data=flag)),
    ("with_data", lambda flag: STEP.todo(with_data=flag)),
    ("with_data", lambda flag: Order.get_task("o-1", with_data=flag)),
    ("detailed_error", lambda flag: STEP.start("o-1", detailed_error=flag)),
    ("detailed_error", lambda flag: STEP.run("o-1", nothing, detailed_error=flag)),
    ("skip_error", lambda flag: STEP.start("o-1", skip_error=flag)),
    ("latest_first", lambda flag: STATE.query(latest_first=flag)),
    ("latest_first", lambda flag: STATE.page(latest_first=flag)),
]


@columns("limit")([*NO_COUNTS, sys.maxsize + 1, 10**30, 10**5000])
def test_what_is_no_limit_is_refused(limit: object) -> None:
    for method in TAKES_A_LIMIT:
        refuses(partial(method, limit), "limit is (a whole number|1 or more and at most [0-9]+), not ")


@columns("threads")([*NO_COUNTS, None])
def test_what_is_no_number_of_threads_is_refused(threads: object) -> None:
    for method in TAKES_THREADS:
        refuses(partial(method, threads), "threads is a whole number from 1, not ")


@pytest.mark.parametrize("method", TAKES_A_LIMIT, ids=["query", "page", "todo", "due_ids", "run_all"])
def test_a_limit_may_be_as_large_as_can_be(method: Callable[[Any], list[object]]) -> None:
    Order.create_many(["o-1", "o-2"])
    assert len(method(sys.maxsize)) == 2


@pytest.mark.parametrize("method", TAKES_THREADS, ids=["run_all", "create_many", "delete_use_case"])
def test_more_threads_than_tasks_do_no_harm(method: Callable[[Any], Any]) -> None:
    Order.create("o-1")
    assert len(method(10**30).succeeded) == 1


@columns("name", "method")(TAKES_A_FLAG)
def test_a_flag_is_true_or_false(name: str, method: Callable[[Any], object]) -> None:
    Order.create("o-1")
    for flag in ("no", "", 0, 1, None, NAN, []):
        refuses(partial(method, flag), f"{name} is True or False, not ")
