"""A short chaos run: the library keeps its promises, and without one of its guards the checker finds violations."""

from __future__ import annotations

import os
import secrets

import pytest

from tests.chaos.faults import KINDS
from tests.chaos.guards import NAMES
from tests.chaos.session import Outcome, run
from tests.chaos.settings import Settings
from tests.chaos.summary import lines, traces
from tests.engine.engine import Engine

pytestmark = pytest.mark.race

TASKS = 90
BURSTS = 10
"""How often a run without a guard is tried again with the next seed: one alone may be lucky, above all on a slow
machine."""

OF_THE_LOCK = {"one owner at a time", "losers write nothing", "no success is repeated"}


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed in CHAOS_SEED, or a fresh one; a test that fails says how to run it again with the same one."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or secrets.randbelow(10**9) + 1
    again = f"CHAOS_SEED={seed} python -m pytest '{request.node.nodeid}'"
    request.node.add_report_section("setup", "to run it again", again)
    return seed


def told(outcome: Outcome) -> str:
    return "\n".join((*lines(outcome), *traces(outcome)))


def test_in_a_long_random_history_every_promise_is_kept(dynamodb: Engine, seed: int) -> None:
    outcome = run(dynamodb.endpoint, Settings(seed=seed, seconds=9, tasks=TASKS))

    assert not outcome.violations, told(outcome)
    assert len(outcome.history.asked) == TASKS, told(outcome)
    assert len(outcome.final.rows) > TASKS / 2, told(outcome)  # the rest was asked for, and got no answer
    assert outcome.faults.keys() == KINDS, told(outcome)
    assert len(outcome.in_transactions) > 1, told(outcome)  # they are few, so some kinds may be missing
    assert outcome.in_batches, told(outcome)
    assert sum(len(accounts.get("weigh", ())) for accounts in outcome.final.ledger.values()) > TASKS / 10, told(outcome)
    done = {event.task.partition("/")[0] for event in outcome.history.of_queues("done")}
    assert done >= {"index", "sale", "report"}, told(outcome)
    assert all(outcome.blows[kind] for kind in ("kill", "freeze", "wake")), told(outcome)


def test_without_a_guard_the_same_history_breaks_promises(dynamodb: Engine, seed: int) -> None:
    guard = "MINE"  # the one that breaks soonest; tests/race removes all of them
    assert guard in NAMES
    outcomes = (run(dynamodb.endpoint, rough(seed + burst, guard)) for burst in range(BURSTS))
    found = ({violation.promise for violation in outcome.violations} for outcome in outcomes)

    assert any(promises & OF_THE_LOCK for promises in found)


def rough(seed: int, guard: str) -> Settings:
    """Return a short run in which few tasks are often taken over: locks are short, and blocks outlast them."""
    return Settings(
        seed=seed,
        seconds=3,
        workers=8,
        on_loops=0,
        tasks=16,
        lock_seconds=0.6,
        margin_seconds=0.2,
        skew=0.1,
        freeze_every=0.7,
        longest_freeze=1.5,
        longest_hold=1.5,
        long_runs=40,
        queues=0.0,
        without=guard,
    )
