"""One chaos run: faults and killed workers for some time, then undisturbed workers, then the check."""

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
from tests.chaos.merges import ask
from tests.chaos.nemesis import Nemesis
from tests.chaos.outcomes import outcome
from tests.chaos.people import pause, release_all_of
from tests.chaos.pipeline import close, is_urgent, parcels
from tests.chaos.queues import Queues, queues_beside
from tests.chaos.runs import History
from tests.chaos.settings import Settings
from tests.chaos.snapshot import left, snapshot
from tests.engine.engine import Engine, start

CREATORS = 8
TICK = 0.02
LOOK_EVERY = 0.5
MORE, MORE_EVERY = 0.2, 3.0
"""The share of tasks created later, and the seconds between two of them, until a run has reached its goal."""
LAST = "parcel-1000002"
"""The last task. Transactions record its successes of weigh and deliver."""
PAUSE_EVERY = 10.0
"""Seconds between a pause and a resume. A short run has none."""


@dataclass(frozen=True)
class Outcome:
    settings: Settings
    violations: list[Violation]
    events: list[Event]
    history: History
    final: Final
    faults: Counter[str]
    in_transactions: Counter[str]
    """Faults in transactions."""
    in_batches: Counter[str]
    """Faults in requests with several statements."""
    blows: Counter[str]
    requests: int
    lost: int
    """Requests that lost their response in a crash of the database."""
    calm: float
    """Seconds that the rest of the work took."""


def run(settings: Settings) -> Outcome:
    """Run everything on a dynoxide with its tables in a file, or on the given endpoint, and leave nothing behind."""
    with (
        tempfile.TemporaryDirectory() as name,
        _engine(Path(name) / "tables.sqlite") as engine,
        _table(engine, settings),
        Wire(engine.endpoint) as wire,
    ):
        folder = Path(name)
        wire.rule = faults = Faults(settings)
        with crew(settings, wire.endpoint, folder) as workers:
            with _person(wire, settings, folder) as found:
                nemesis = Nemesis(workers, wire, engine.server, found)
                _chaos(wire, faults, workers, nemesis)
            calm = _calm(engine.endpoint, wire, workers)
        events = read(folder)
        history, final = History.of(events), snapshot(engine.endpoint, settings)
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
            wire.lost,
            calm,
        )


@contextmanager
def _engine(path: Path) -> Iterator[Engine]:
    engine = start(path)
    try:
        yield engine
    finally:
        engine.stop()


@contextmanager
def _table(engine: Engine, settings: Settings) -> Iterator[None]:
    order = parcels(engine.endpoint, settings)
    order.create_table(wait=True)
    try:
        yield
    finally:
        if engine.server is None:  # the table would stay
            order.delete_table()
        close(order)


def _chaos(wire: Wire, faults: Faults, workers: Crew, nemesis: Nemesis) -> None:
    """Strike, and create the tasks one by one, until the time is over and the goal is reached."""
    settings = workers.settings
    order, log = parcels(wire.endpoint, settings), Log(workers.folder, "creator")
    for number in range(settings.workers):
        workers.start(number)
    workers.gather()
    begun, created, pauses = time.monotonic(), 0, 1
    goals: dict[str, Callable[[], bool]] = {
        "over": lambda: True,
        "struck": lambda: faults.all_struck and nemesis.all_struck,
    }
    goal = goals[settings.until]
    with ThreadPoolExecutor(CREATORS) as pool:
        try:
            while created < settings.tasks or not goal():
                passed = time.monotonic() - begun
                if passed > settings.seconds + settings.patience:
                    break
                nemesis.strike(passed)
                if passed > PAUSE_EVERY * pauses:
                    pool.submit(pause, log, pauses, order, settings.drawn("pause", pauses))
                    pauses += 1
                while created < _due(settings, passed):
                    pool.submit(_create, order, log, f"parcel-{created}")
                    created += 1
                time.sleep(TICK)
            nemesis.heal()
            workers.end()
        finally:
            faults.stop()
    log.close()
    close(order)


def _due(settings: Settings, passed: float) -> float:
    """Return how many tasks there should be after that many seconds."""
    late = max(0.0, passed - settings.seconds)
    return settings.tasks * (min(1.0, passed / settings.seconds) + MORE * (late // MORE_EVERY))


@contextmanager
def _person(wire: Wire, settings: Settings, folder: Path) -> Iterator[Callable[[int], object]]:
    """Yield the actions of a person who finds a worker dead, or thinks so. Each takes a while."""
    order, log, numbers = parcels(wire.endpoint, settings), Log(folder, "person"), itertools.count(1)
    with ThreadPoolExecutor(1) as person:
        yield lambda pid: person.submit(release_all_of, log, next(numbers), order, pid)
    log.close()
    close(order)


def _create(order: Any, log: Log, task_id: str) -> None:
    log.tell("create", task_id)
    try:
        order.create(task_id, urgent=is_urgent(task_id))
    except TaskAlreadyExistsError:
        pass  # the network repeated the request, which the SDK does not know, and this is the second answer
    except Exception as error:  # noqa: BLE001 - the checker judges it
        if outcome(error) != "unknown":
            log.tell("crash", task_id, trace=repr(error))
        return  # nobody knows whether it is there
    log.tell("created", task_id)


def _create_last(order: Any, queues: Queues, workers: Crew) -> None:
    """Create the tasks that lead healthy workers to each kind of success."""
    settings, log = workers.settings, Log(workers.folder, "successor")
    _create(order, log, LAST)
    if settings.queues:
        for use_case in (queues.sale, queues.report):
            log.tell("make", f"{use_case.tracker.use_case.name}/last")
            use_case.create("last")
            log.tell("made", f"{use_case.tracker.use_case.name}/last")
        ask(log, 1, queues.index, "last", settings.drawn("last"))
    log.close()


def _calm(endpoint: str, wire: Wire, workers: Crew) -> float:
    """Let healthy workers finish the work, and return how long that took. They give up after a while."""
    settings = workers.settings
    order = parcels(endpoint, settings)
    queues = queues_beside(order, settings)
    _create_last(order, queues, workers)
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
