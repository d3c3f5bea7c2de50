"""Prices, and what a table needs to carry a load: shards, write units, warm throughput, a quota, and dollars.

The formulas follow from what the library writes for each task and from AWS's documented limits;
docs/explanation/scale.md derives them. Throughput is in write units per second, prices are in dollars.
"""

import math
from dataclasses import dataclass

PARTITION_UNITS = 1000
"""Write units per second of one partition, and so of one key of the index:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"""

NEW_TABLE_UNITS = 4000
"""Write units per second that a new table or index in on-demand mode supports at once:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html"""

QUOTA_UNITS = 40_000
"""Write units per second of a table, and of each index, unless AWS raises this quota of the account:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html"""

_KEY_LOAD = 0.5
"""How much of a key's throughput a load may use; the rest is a reserve for peaks."""

_TABLE_RESERVE, _INDEX_RESERVE = 2, 3
"""How much more than its units a table and an index need in order to carry them at once.

The keys of a table are task ids, which spread evenly. Those of the index are few, so some partitions get several.
"""

_SHARDS_AT_ONCE = 2
"""How many times its shards a load needs that starts at its full rate: smaller keys fill partitions more evenly."""

_POLLS_PER_HOUR = 160
"""Polls of an idle worker whose longest pause is 30 seconds."""

_STATES_OF_A_POLL, _UNITS_OF_A_QUERY = 3, 0.5
"""What a poll queries of each step in each shard, and the read units of one such query."""

_HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The tasks of one use case at their peak."""

    rate: float
    """New tasks per second."""
    steps: int = 1
    """Steps of each task."""
    attempts: float = 1
    """Attempts per step, on average: 1.1 if every tenth attempt is a retry."""
    row_kb: int = 1
    """Started KB of a row."""
    index_succeeded: bool = True
    """As of the use case: whether a task stays in the index when its last step succeeds."""


_WRITE_PRICE, _READ_PRICE = 0.625, 0.125
"""Dollars per million units, on demand in us-east-1 since November 2024:
https://aws.amazon.com/dynamodb/pricing/on-demand/"""


def dollars(*, reads: float = 0.0, writes: float = 0.0) -> float:
    """Return what these units cost."""
    return (reads * _READ_PRICE + writes * _WRITE_PRICE) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a load needs, and what it costs."""

    shards: int
    """The least `status_shards` of the use case, with a reserve."""
    shards_at_once: int
    """`status_shards` for a load that starts at its full rate, before DynamoDB has split partitions that are busy."""
    table_units: int
    """Write units per second of the table."""
    index_units: int
    """Write units per second of the index."""
    warm_table_units: int | None
    """Warm throughput of the table with which the load can start at its full rate; None if a new table has it."""
    warm_index_units: int | None
    """The same for the index."""
    quota_units: int | None
    """The least write throughput per table for which to raise the quota; None if the default is enough."""
    dollars_per_hour: float
    """Writes at the full rate."""
    dollars_per_million_tasks: float
    """Writes of a million tasks."""
    idle_worker_dollars_per_month: float
    """Reads of a worker that finds nothing to do."""


def size_for(load: Load) -> Size:
    """Return what a load needs of a table in on-demand mode, and what it costs; storage is not included."""
    table, index = write_units(load)
    warm_table = _warm_units(_TABLE_RESERVE * table)
    warm_index = _warm_units(_INDEX_RESERVE * index)
    most = max(table, index, warm_table or 0, warm_index or 0)
    shards = shards_for(load)
    at_once = shards if warm_index is None else _SHARDS_AT_ONCE * shards
    idle = _POLLS_PER_HOUR * _STATES_OF_A_POLL * load.steps * at_once * _UNITS_OF_A_QUERY
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
    """Return the write units per second of the table and of its index.

    Creating a task writes the row and adds an index entry. Each attempt writes the row twice, and each time deletes one
    entry and adds another, except the last success without `index_succeeded`. An entry is always below 1 KB.
    """
    attempts, kept = load.steps * load.attempts, int(load.index_succeeded)
    return load.rate * (1 + 2 * attempts) * load.row_kb, load.rate * (4 * attempts + kept)


def shards_for(load: Load) -> int:
    """Return for how many shards the busiest state, in_progress, uses half of what its keys support.

    Each attempt adds an entry to that state and deletes it again; a state has one key of the index for each shard.
    """
    return _ceil(2 * load.attempts * load.rate / (PARTITION_UNITS * _KEY_LOAD))


def _warm_units(units: float) -> int | None:
    """Return whole partitions for these units; None if a new table has them."""
    return None if units <= NEW_TABLE_UNITS else _ceil(units / PARTITION_UNITS) * PARTITION_UNITS


def _ceil(number: float) -> int:
    """Return the next whole number, whatever the last digits of a float add: 4.4 * 2.5 is 11."""
    return math.ceil(round(number, 6))
