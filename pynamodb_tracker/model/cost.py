"""Estimates the shards, write units, warm throughput, quota and dollars that a load needs.

docs/explanation/scale.md derives the formulas.
"""

import math
from dataclasses import dataclass

PARTITION_UNITS = 1000
"""A partition's, and therefore an index key's, write units per second:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"""

NEW_TABLE_UNITS = 4000
"""A new on-demand table's or index's write units per second:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html"""

QUOTA_UNITS = 40_000
"""The default quota of write units per second for a table and for each index:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html"""

_KEY_LOAD = 0.5  # the share of a key's throughput that a load may use

_TABLE_RESERVE, _INDEX_RESERVE = 2, 3
"""Factors by which table and index must exceed their units to carry a load immediately.

An index has few keys, so some of its partitions get several of them."""

_SHARDS_AT_ONCE = 2
"""Shards are multiplied by this if a load starts at its full rate. Smaller keys fill partitions more evenly."""

IDLE_READS = 1100
"""An idle worker's most read units per hour, step and shard, if it polls every 2 seconds."""

_HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A use case's peak load: new tasks per second, and a row's size in KB, rounded up."""

    rate: float
    steps: int = 1
    attempts: float = 1
    """Average attempts per step: 1.1 if every tenth attempt is a retry."""
    row_kb: int = 1
    index_succeeded: bool = True


_WRITE_PRICE, _READ_PRICE = 0.625, 0.125
"""Dollars per million units, on demand in us-east-1 since November 2024:
https://aws.amazon.com/dynamodb/pricing/on-demand/"""


def dollars(*, reads: float = 0.0, writes: float = 0.0) -> float:
    return (reads * _READ_PRICE + writes * _WRITE_PRICE) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The capacity that a load needs, in write units per second, and its price."""

    shards: int
    """The smallest `status_shards`, including a reserve."""
    shards_at_once: int
    """`status_shards` for a load that starts at its full rate, before DynamoDB has split busy partitions."""
    table_units: int
    index_units: int
    warm_table_units: int | None
    """Warm throughput to start at the full rate, or None if a new table is enough."""
    warm_index_units: int | None
    quota_units: int | None
    """The quota per table to ask AWS for, or None if the default is enough."""
    dollars_per_hour: float
    dollars_per_million_tasks: float
    idle_worker_dollars_per_month: float


def size_for(load: Load) -> Size:
    """Return an on-demand table's size and price, without storage."""
    table, index = write_units(load)
    warm_table = _warm_units(_TABLE_RESERVE * table)
    warm_index = _warm_units(_INDEX_RESERVE * index)
    most = max(table, index, warm_table or 0, warm_index or 0)
    shards = shards_for(load)
    at_once = shards if warm_index is None else _SHARDS_AT_ONCE * shards
    idle = IDLE_READS * load.steps * at_once
    return Size(
        shards=shards,
        shards_at_once=at_once,
        table_units=_ceil(table),
        index_units=_ceil(index),
        warm_table_units=warm_table,
        warm_index_units=warm_index,
        quota_units=_ceil(most) if most > QUOTA_UNITS else None,
        dollars_per_hour=dollars(writes=(table + index) * 3600),
        dollars_per_million_tasks=dollars(writes=(table + index) / load.rate * 1_000_000),
        idle_worker_dollars_per_month=dollars(reads=idle * _HOURS_PER_MONTH),
    )


def write_units(load: Load) -> tuple[float, float]:
    """Return the write units per second on the table and on its index.

    Creating a task takes one write on each. An attempt writes the row twice, and each write replaces the index entry,
    except that the last success without `index_succeeded` only deletes it. An entry is below 1 KB.
    """
    attempts, kept = load.steps * load.attempts, int(load.index_succeeded)
    return load.rate * (1 + 2 * attempts) * load.row_kb, load.rate * (4 * attempts + kept)


def shards_for(load: Load) -> int:
    """Return the shards that keep in_progress, the busiest state, at half of its keys' throughput.

    Each attempt adds an entry to that state and deletes it again.
    """
    return _ceil(2 * load.attempts * load.rate / (PARTITION_UNITS * _KEY_LOAD))


def _warm_units(units: float) -> int | None:
    return None if units <= NEW_TABLE_UNITS else _ceil(units / PARTITION_UNITS) * PARTITION_UNITS


def _ceil(number: float) -> int:
    """Round up, but ignore float noise: 4.4 * 2.5 becomes 11."""
    return math.ceil(round(number, 6))
