"""A short run of the chaos: the library keeps its promises, and without one of its guards the checker sees it."""

from __future__ import annotations

import os
import secrets
import sys

import pytest

from tests.chaos.session import Outcome, run
from tests.chaos.settings import Settings
from tests.chaos.summary import lines, traces
from tests.engine.dynamodb_local import Engine

pytestmark = pytest.mark.race

TABLE = f"chaos-{os.getpid()}"


@pytest.fixture
def seed(capsys: pytest.CaptureFixture[str]) -> int:
    """Return the seed in CHAOS_SEED, or a fresh one, and print it so that it can be put there."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or secrets.randbelow(10**9) + 1
    with capsys.disabled():
        sys.stdout.write(f"\nCHAOS_SEED={seed} ")
    return seed


def told(outcome: Outcome) -> str:
    return "\n".join((*lines(outcome), *traces(outcome)))


def test_in_a_long_random_history_every_promise_is_kept(dynamodb_local: Engine, seed: int) -> None:
    outcome = run(dynamodb_local.endpoint, Settings(seed=seed, seconds=25, table=TABLE))

    assert not outcome.violations, told(outcome)
    assert sum(run.succeeded for run in outcome.history.runs) > 50, told(outcome)
    assert outcome.blows["kill"], told(outcome)
    assert outcome.faults["dropped answer UpdateItem"], told(outcome)


@pytest.mark.parametrize("guard", ["MINE", "lock is over"])
def test_without_a_guard_the_same_history_breaks_promises(dynamodb_local: Engine, seed: int, guard: str) -> None:
    settings = Settings(
        seed=seed,
        seconds=12,
        open_tasks=12,
        lock_seconds=0.6,
        margin_seconds=0.2,
        skew=0.1,
        freeze_every=0.7,
        table=TABLE,
        without=guard,
    )

    outcome = run(dynamodb_local.endpoint, settings)

    broken = {violation.promise for violation in outcome.violations}
    assert broken & {"one owner at a time", "losers write nothing", "no success is repeated"}, told(outcome)
