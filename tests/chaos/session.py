"""One run of the chaos: faults and blows for some time, then calm workers, then everything is read and checked."""

from __future__ import annotations

import inspect
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker.bound_step import BoundStep
from pynamodb_tracker.context import ExecutionContext
from tests.chaos.checker import Violation, violations
from tests.chaos.crew import Crew, crew
from tests.chaos.events import Event, Log, read
from tests.chaos.faults import Faults, Wire
from tests.chaos.final import Final
from tests.chaos.nemesis import Nemesis
from tests.chaos.pipeline import close, effects, parcels
from tests.chaos.runs import History
from tests.chaos.settings import Settings
from tests.chaos.snapshot import left, snapshot

__all__ = ["Outcome", "run"]

CREATORS = 4
LOOK_EVERY = 0.5
TICK = 0.02


@dataclass(frozen=True)
class Outcome:
    """What a run did, and what was broken."""

    settings: Settings
    violations: list[Violation]
    events: list[Event]
    history: History
    final: Final
    faults: Counter[str]
    blows: Counter[str]
    requests: int
    calm: float
    """Seconds that it took to work off what was left."""


def run(endpoint: str, settings: Settings) -> Outcome:
    """Run all of it on a DynamoDB Local, and leave nothing behind."""
    settings = with_features(settings)
    with tempfile.TemporaryDirectory() as name, _tables(endpoint, settings), Wire(endpoint) as wire:
        folder = Path(name)
        faults = Faults(settings)
        wire.rule = faults
        with crew(settings, wire.endpoint, folder) as workers:
            nemesis = Nemesis(settings, workers)
            log = Log(folder, "creator")
            _chaos(endpoint, wire, workers, nemesis, log)
            log.close()
            faults.stop()
            calm = _calm(endpoint, settings, workers)
        events = read(folder)
        history, final = History.of(events), snapshot(endpoint, settings)
        broken = [Violation("workers end when they are told to", told) for told in workers.died]
        broken += violations(history, final)
        return Outcome(settings, broken, events, history, final, faults.counts, nemesis.counts, wire.requests, calm)


def with_features(settings: Settings) -> Settings:
    """Return the settings with everything switched on that this version of the library has."""
    return replace(
        settings,
        heartbeats="heartbeat" in inspect.signature(BoundStep.start).parameters,
        transactions=hasattr(ExecutionContext, "transaction"),
    )


@contextmanager
def _tables(endpoint: str, settings: Settings) -> Iterator[None]:
    models: list[Any] = [parcels(endpoint, settings), effects(endpoint, settings)]
    for model in models:
        model.create_table(wait=True)
    try:
        yield
    finally:
        for model in models:
            model.delete_table()
        close(models[0])


def _chaos(endpoint: str, wire: Wire, workers: Crew, nemesis: Nemesis, log: Log) -> None:
    """Deal the blows, and create a task for each one that has ended, until the time is over."""
    settings = workers.settings
    direct, order = parcels(endpoint, settings), parcels(wire.endpoint, settings)
    for number in range(settings.workers):
        workers.start(number)
    begun, created, looked = time.monotonic(), 0, -1.0
    with ThreadPoolExecutor(CREATORS) as pool:
        while (passed := time.monotonic() - begun) < settings.seconds:
            nemesis.strike(passed)
            if passed > looked + LOOK_EVERY:
                wanted = min(settings.tasks, created + settings.open_tasks - left(direct))
                for number in range(created, wanted):
                    pool.submit(_create, order, log, f"parcel-{number}")
                created, looked = max(created, wanted), passed
            time.sleep(TICK)
        workers.end()
    close(direct)
    close(order)


def _create(order: Any, log: Log, task_id: str) -> None:
    log.tell("create", task_id)
    try:
        order.create(task_id)
    except PynamoDBException:
        return  # nobody knows whether it is there
    log.tell("created", task_id)


def _calm(endpoint: str, settings: Settings, workers: Crew) -> float:
    """Have healthy workers work off what is left, and return how long it took; they give up after a while."""
    order = parcels(endpoint, settings)
    for number in range(settings.workers // 2):
        workers.start(number, calm=True)
    begun = time.monotonic()
    passed = 0.0
    while (left(order) or passed < settings.longest_hold) and passed < settings.patience:
        time.sleep(0.5)
        passed = time.monotonic() - begun
    workers.dismiss()
    close(order)
    return passed
