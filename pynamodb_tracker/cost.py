"""Estimates what a load needs: shards, write units, warm throughput, quota and dollars.

docs/explanation/scale.md derives the formulas from the library's requests and AWS's documented limits. Throughput is in
write units per second, prices are in dollars.
"""

import math
from dataclasses import dataclass

PARTITION_UNITS = 1000
"""Write units per second of one partition, and therefore of one index key:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"""

NEW_TABLE_UNITS = 4000
"""Write units per second that a new table or index in on-demand mode supports at once:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html"""

QUOTA_UNITS = 40_000
"""Write units per second for a table and for each index, unless AWS raises the account's quota:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html"""

_KEY_LOAD = 0.5
"""The share of a key's throughput that a load may use. The rest is a reserve for peaks."""

_TABLE_RESERVE, _INDEX_RESERVE = 2, 3
"""Factors by which table and index must exceed their units to carry a load immediately.

Task ids spread evenly over a table's partitions. An index has few keys, so some partitions get several of them.
"""

_SHARDS_AT_ONCE = 2
"""Shards are multiplied by this if a load starts at its full rate. Smaller keys fill partitions more evenly."""

IDLE_READS = 1100
"""Read units that an idle worker takes at most, per hour, step and shard, if it looks every 2 seconds."""

_HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The peak load of one use case."""

    rate: float
    """New tasks per second."""
    steps: int = 1
    """Steps per task."""
    attempts: float = 1
    """Attempts per step, on average: 1.1 if every tenth attempt is a retry."""
    row_kb: int = 1
    """Row size in KB, rounded up."""
    index_succeeded: bool = True
    """The use case's option: whether tasks stay in the index after their last step succeeds."""


_WRITE_PRICE, _READ_PRICE = 0.625, 0.125
"""Dollars per million units, on demand in us-east-1 since November 2024:
https://aws.amazon.com/dynamodb/pricing/on-demand/"""


def dollars(*, reads: float = 0.0, writes: float = 0.0) -> float:
    """Return the price of these units."""
    return (reads * _READ_PRICE + writes * _WRITE_PRICE) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The capacity that a load needs, and its price."""

    shards: int
    """The smallest `status_shards` for the use case, including a reserve."""
    shards_at_once: int
    """`status_shards` for a load that starts at its full rate, before DynamoDB has split busy partitions."""
    table_units: int
    """Write units per second on the table."""
    index_units: int
    """Write units per second on the index."""
    warm_table_units: int | None
    """Warm throughput that lets the table start at the full rate, or None if a new table is enough."""
    warm_index_units: int | None
    """The same for the index."""
    quota_units: int | None
    """The write quota per table to ask AWS for, or None if the default is enough."""
    dollars_per_hour: float
    """Price of writing at the full rate."""
    dollars_per_million_tasks: float
    """Price of writing a million tasks."""
    idle_worker_dollars_per_month: float
    """Price of one idle worker's reads."""


def size_for(load: Load) -> Size:
    """Return the size and price of an on-demand table for this load, without storage."""
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

    Creating a task writes the row and adds an index entry. Each attempt writes the row twice, and both writes replace
    the index entry, except that the last success without `index_succeeded` only deletes it. An entry is below 1 KB.
    """
    attempts, kept = load.steps * load.attempts, int(load.index_succeeded)
    return load.rate * (1 + 2 * attempts) * load.row_kb, load.rate * (4 * attempts + kept)


def shards_for(load: Load) -> int:
    """Return the number of shards that lets in_progress, the busiest state, use half of what its keys support.

    Each attempt adds an entry to that state and deletes it again. A state has one index key per shard.
    """
    return _ceil(2 * load.attempts * load.rate / (PARTITION_UNITS * _KEY_LOAD))


def _warm_units(units: float) -> int | None:
    """Return whole partitions for these units, or None if a new table is enough."""
    return None if units <= NEW_TABLE_UNITS else _ceil(units / PARTITION_UNITS) * PARTITION_UNITS


def _ceil(number: float) -> int:
    """Round up, but ignore float noise: 4.4 * 2.5 becomes 11."""
    return math.ceil(round(number, 6))
