"""A simulation: how much of a load the index carries at once, depending on which keys share a partition by chance.

A partition is taken to carry 1,000 writes a second, an index to have one for each 1,000 units of its warm throughput,
and each key to lie in one of them by chance. A task goes as fast as the slowest of its keys. DynamoDB has not split a
partition for heat yet.
"""

import random
import statistics
from collections.abc import Iterator

from pynamodb_tracker.model.cost import NEW_TABLE_UNITS, PARTITION_UNITS, Load, shards_for, write_units
from pynamodb_tracker.presentation.text import count
from tests.benchmarks.tables import table

RATES = (200, 300, 400, 600, 800)
SHARDS = (1, 2, 4, 8, 16, 32)
LOADS = (Load(rate=1000), Load(rate=10_000), Load(rate=2000, steps=3, attempts=1.1))
TIMES_SHARDS = (1, 2, 4)
TIMES_UNITS = (1, 2, 3, 4)
LAYOUTS, LAYOUTS_OF_NEW = 40, 1000


def report() -> Iterator[str]:
    yield "A new index, one step: how many layouts of 100 carry all of the load, by shards"
    new = NEW_TABLE_UNITS // PARTITION_UNITS
    rows = [[f"{rate}/s", *(f"{whole(Load(rate=rate), shards, new):.0%}" for shards in SHARDS)] for rate in RATES]
    yield from table(["tasks", *map(str, SHARDS)], rows)
    yield "\nA warm index: the part of the load that it carries at once, median and worst of the layouts"
    rows = []
    for load in LOADS:
        name = f"{load.rate:,g}/s, {count(load.steps, 'step')}, {load.attempts:g} x"
        for times in TIMES_SHARDS:
            shards = times * shards_for(load)
            cells = (carried(load, shards, partitions(load, of_units)) for of_units in TIMES_UNITS)
            rows.append([name, str(shards), *(f"{statistics.median(cell):.0%}, {min(cell):.0%}" for cell in cells)])
    yield from table(["load", "shards", *(f"{times} x units" for times in TIMES_UNITS)], rows)


def partitions(load: Load, times: int) -> int:
    """Return how many partitions an index has that was warmed to so many times its units."""
    return -(-round(times * write_units(load)[1]) // PARTITION_UNITS)


def whole(load: Load, shards: int, among: int) -> float:
    carry = carried(load, shards, among, layouts=LAYOUTS_OF_NEW)
    return sum(part == 1 for part in carry) / len(carry)


def carried(load: Load, shards: int, among: int, *, layouts: int = LAYOUTS) -> list[float]:
    return [carried_by(random.Random(seed), load, shards, among) for seed in range(layouts)]


def carried_by(chance: random.Random, load: Load, shards: int, among: int) -> float:
    writes, used = writes_of_a_task(load), [0.0] * among
    places = [[chance.randrange(among) for _ in writes] for _ in range(shards)]
    for of_shard in places:
        for place, number in zip(of_shard, writes, strict=True):
            used[place] += number * load.rate / shards
    parts = [min(1, PARTITION_UNITS / max(used[place] for place in of_shard)) for of_shard in places]
    return sum(parts) / shards


def writes_of_a_task(load: Load) -> list[float]:
    """Return how often a task writes to each state that it passes: pending, in_progress and failed, then succeeded."""
    of_step = [2.0, 2 * load.attempts, 2 * (load.attempts - 1)]
    writes = [number for number in of_step * load.steps if number] + [1.0]
    assert abs(sum(writes) - write_units(Load(rate=1, steps=load.steps, attempts=load.attempts))[1]) < 1e-9
    return writes
