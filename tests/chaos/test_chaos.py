"""A short chaos run keeps every promise, and the checker finds what a missing guard lets through.

The seed is fixed, and the run continues until everything that the test needs has happened. The result is the same on
each machine. `make chaos` searches with a fresh seed each time.
"""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from pynamodb_tracker.clock import StoppedClock
from tests.chaos import block
from tests.chaos.block import Block
from tests.chaos.checks_of_runs import losers_write_nothing
from tests.chaos.events import Log, read
from tests.chaos.faults import KINDS
from tests.chaos.guards import remove_guard
from tests.chaos.interrupts import Interrupts
from tests.chaos.ledger import Ledger
from tests.chaos.pipeline import close, parcels
from tests.chaos.runs import History
from tests.chaos.script import Deed, Script
from tests.chaos.session import LAST, Outcome, run
from tests.chaos.settings import Settings
from tests.chaos.summary import lines, traces
from tests.engine.engine import Engine

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("dynamodb")]

TASK = "parcel-1"
"""A task that takes no transaction, and goes the plain way."""


def told(outcome: Outcome) -> str:
    return "\n".join((*lines(outcome), *traces(outcome)))


def test_a_random_history_with_every_fault_and_crashes_of_the_database_keeps_every_promise(dynamodb: Engine) -> None:
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


@pytest.mark.parametrize("guard", ["", "MINE"])
def test_a_failure_of_a_worker_whose_task_was_taken_over_is_recorded_only_without_the_guard(
    dynamodb: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_clock: StoppedClock, guard: str
) -> None:
    settings = Settings(seed=1)
    if guard:
        remove_guard(guard, monkeypatch)
    order, ledger = parcels(dynamodb.endpoint, settings), Ledger(dynamodb.endpoint, settings)
    order.create_table(wait=True)
    order.create(TASK)

    def run_block(worker: str, script: Script) -> None:
        Block(Log(tmp_path, worker), 1, order.collect, TASK, script, ledger).run(Interrupts())

    def take_over(_: float) -> None:
        stopped_clock.advance(timedelta(seconds=settings.lock_seconds + settings.margin_seconds + 1))
        run_block("worker-1-1", Script((), "die"))

    monkeypatch.setattr(block, "time", SimpleNamespace(sleep=take_over))
    run_block("worker-0-1", Script((Deed("rest"),), "boom"))

    history = History.of(read(tmp_path))
    assert [run.worker for run in history.runs] == ["worker-0-1", "worker-1-1"]
    assert len([*losers_write_nothing(history)]) == (1 if guard else 0)
    order.delete_table()
    close(order)
