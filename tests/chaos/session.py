"""One chaos run: faults and killed workers for some time, then undisturbed workers, then everything is checked."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pynamodb_tracker import TaskAlreadyExistsError
from tests.chaos.checker import Violation, violations
from tests.chaos.crew import Crew, crew
from tests.chaos.events import Event, Log, read
from tests.chaos.faults import Faults, Wire
from tests.chaos.final import Final
from tests.chaos.nemesis import Nemesis
from tests.chaos.outcomes import outcome
from tests.chaos.people import pause, release_all_of
from tests.chaos.pipeline import close, parcels
from tests.chaos.queues import queues_beside
from tests.chaos.runs import History
from tests.chaos.settings import Settings
from tests.chaos.snapshot import left, snapshot

__all__ = ["Outcome", "run"]

CREATORS = 8
TICK = 0.02
LOOK_EVERY = 0.5
PAUSE_EVERY = 10.0
"""Seconds between two times that a step is paused, or resumed; a short run has none."""
AT_MOST = 4
"""How many times as long as asked the chaos lasts, where in that time there was not one of each fault and blow."""


@dataclass(frozen=True)
class Outcome:
    """What a run did, and what was broken."""

    settings: Settings
    violations: list[Violation]
    events: list[Event]
    history: History
    final: Final
    faults: Counter[str]
    in_transactions: Counter[str]
    """The faults among them that struck a transaction."""
    in_batches: Counter[str]
    """Those that struck a request of several statements."""
    blows: Counter[str]
    requests: int
    calm: float
    """Seconds that it took to work off what was left."""


def run(endpoint: str, settings: Settings) -> Outcome:
    """Run all of it on a dynoxide, and leave nothing behind."""
    with tempfile.TemporaryDirectory() as name, _table(endpoint, settings), Wire(endpoint) as wire:
        folder = Path(name)
        wire.rule = faults = Faults(settings)
        with crew(settings, wire.endpoint, folder) as workers:
            with _person(wire, settings, folder) as found:
                nemesis = Nemesis(settings, workers, found)
                _chaos(wire, faults, workers, nemesis)
            calm = _calm(endpoint, wire, workers)
        events = read(folder)
        history, final = History.of(events), snapshot(endpoint, settings)
        broken = [Violation("workers end when they are told to", told) for told in workers.died]
        broken += violations(history, final)
        return Outcome(
            settings,
            broken,
            events,
            history,
            final,
            faults.counts,
            faults.in_transactions,
            faults.in_batches,
            nemesis.counts,
            wire.requests,
            calm,
        )


@contextmanager
def _table(endpoint: str, settings: Settings) -> Iterator[None]:
    order = parcels(endpoint, settings)
    order.create_table(wait=True)
    try:
        yield
    finally:
        order.delete_table()
        close(order)


def _chaos(wire: Wire, faults: Faults, workers: Crew, nemesis: Nemesis) -> None:
    """Deal the blows and create the tasks, one after the other, until the time is over and each has struck."""
    settings = workers.settings
    order, log = parcels(wire.endpoint, settings), Log(workers.folder, "creator")
    for number in range(settings.workers):
        workers.start(number)
    workers.gather()
    begun, created, pauses = time.monotonic(), 0, 1
    with ThreadPoolExecutor(CREATORS) as pool:
        try:
            while created < settings.tasks or not (faults.all_struck and nemesis.all_struck):
                passed = time.monotonic() - begun
                if passed > AT_MOST * settings.seconds:
                    break
                nemesis.strike(passed)
                if passed > PAUSE_EVERY * pauses:
                    pool.submit(pause, log, pauses, order, settings.drawn("pause", pauses))
                    pauses += 1
                while created < settings.tasks * passed / settings.seconds and created < settings.tasks:
                    pool.submit(_create, order, log, f"parcel-{created}")
                    created += 1
                time.sleep(TICK)
            workers.end()
        finally:
            faults.stop()
    log.close()
    close(order)


@contextmanager
def _person(wire: Wire, settings: Settings, folder: Path) -> Iterator[Callable[[int], object]]:
    """Yield what a person does who finds a worker dead, or takes it for dead; each takes a while."""
    order, log, numbers = parcels(wire.endpoint, settings), Log(folder, "person"), itertools.count(1)
    with ThreadPoolExecutor(1) as person:
        yield lambda pid: person.submit(release_all_of, log, next(numbers), order, pid)
    log.close()
    close(order)


def _create(order: Any, log: Log, task_id: str) -> None:
    log.tell("create", task_id)
    try:
        order.create(task_id)
    except TaskAlreadyExistsError:
        pass  # the network repeated the request, which the SDK does not know, and this is the second answer
    except Exception as error:  # noqa: BLE001 - whatever it is: the checker knows what should not have left
        if outcome(error) != "unknown":
            log.tell("crash", task_id, trace=repr(error))
        return  # nobody knows whether it is there
    log.tell("created", task_id)


def _calm(endpoint: str, wire: Wire, workers: Crew) -> float:
    """Have healthy workers work off what is left, and return how long it took; they give up after a while."""
    settings = workers.settings
    order = parcels(endpoint, settings)
    queues = queues_beside(order, settings)
    for number in range(settings.workers // 2):
        workers.start(number, calm=True)
    begun, passed = time.monotonic(), 0.0
    # What is held first: when the last of it has arrived, what it left behind is counted.
    while (wire.holds_any or left(order, queues)) and passed < settings.patience and workers.anybody:
        time.sleep(LOOK_EVERY)
        passed = time.monotonic() - begun
    workers.dismiss()
    close(order)
    return passed
