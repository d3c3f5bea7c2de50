"""A short chaos run: the library keeps its promises, and without a guard the checker finds violations.

The seeds are fixed, and a run continues until everything that a test needs has happened. The result is the same on each
machine. `make chaos` searches with a fresh seed each time.
"""

import pytest

from tests.chaos.faults import KINDS
from tests.chaos.guards import NAMES
from tests.chaos.session import LAST, Outcome, run
from tests.chaos.settings import ROUGH, Settings
from tests.chaos.summary import lines, traces
from tests.engine.engine import Engine

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("dynamodb")]

OF_THE_LOCK = {"one owner at a time", "losers write nothing", "no success is repeated"}


def told(outcome: Outcome) -> str:
    return "\n".join((*lines(outcome), *traces(outcome)))


def test_in_a_random_history_with_every_fault_and_crashes_of_the_database_every_promise_is_kept(
    dynamodb: Engine,
) -> None:
    settings = Settings(
        seed=3,
        seconds=3,
        until="struck",
        workers=5,
        tasks=20,
        kill_every=1.5,
        terminate_every=2,
        freeze_every=0.8,
        crash_every=1.2,
        longest_freeze=0.5,
        longest_hold=2,
        skew=0.3,
        margin_seconds=0.6,
    )
    outcome = run(settings)

    assert not outcome.violations, told(outcome)
    assert len(outcome.history.asked) > settings.tasks, told(outcome)
    assert outcome.faults.keys() == KINDS, told(outcome)
    assert len(outcome.in_transactions) > 1, told(outcome)
    assert outcome.in_batches, told(outcome)
    assert outcome.blows.keys() >= {"kill", "freeze", "wake"}, told(outcome)
    assert dynamodb.server is None or outcome.blows["crash"], told(outcome)
    assert outcome.final.ledger[LAST].keys() >= {"weigh", "deliver"}, told(outcome)
    done = {event.task.partition("/")[0] for event in outcome.history.of_queues("done")}
    assert done >= {"index", "sale", "report"}, told(outcome)


def test_without_a_guard_the_same_history_breaks_promises() -> None:
    guard = "MINE"  # the one that breaks soonest; tests/race removes all of them
    assert guard in NAMES
    # Each block outlasts its lock, and there are more workers than tasks.
    settings = ROUGH | {"tasks": 3, "long_runs": 100, "guesses": Settings.guesses}
    outcome = run(Settings(seed=1, seconds=2, until="broken", without=guard, **settings))

    assert {violation.promise for violation in outcome.violations} & OF_THE_LOCK, told(outcome)
