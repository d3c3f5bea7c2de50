"""What a load needs of a table: the formulas, by examples worked out by hand."""

import pytest

from pynamodb_tracker.model.cost import Load, shards_for, size_for, write_units


@pytest.mark.parametrize(
    ("load", "table", "index"),
    [
        pytest.param(Load(rate=1), 3, 5, id="created, claimed, finished"),
        pytest.param(Load(rate=100, steps=3), 700, 1300, id="three steps"),
        pytest.param(Load(rate=100, steps=2, attempts=1.5), 700, 1300, id="three attempts at two steps"),
        pytest.param(Load(rate=100, steps=3, index_succeeded=False), 700, 1200, id="three steps, then no entry"),
        pytest.param(Load(rate=100, row_kb=4), 1200, 500, id="an entry is small whatever the row has"),
    ],
)
def test_write_units_follow_from_what_each_attempt_writes(load: Load, table: float, index: float) -> None:
    assert write_units(load) == (table, index)


@pytest.mark.parametrize(
    ("load", "shards"),
    [
        (Load(rate=1), 1),
        (Load(rate=250), 1),  # 500 writes a second of in_progress: half of what a key supports
        (Load(rate=251), 2),
        (Load(rate=800), 4),
        (Load(rate=800, steps=3), 4),  # each step has states of its own
        (Load(rate=800, attempts=2), 7),
        (Load(rate=2500, attempts=1.1), 11),  # 11.000000000000002 in floats
    ],
    ids=str,
)
def test_shards_leave_half_of_the_busiest_key_as_a_reserve(load: Load, shards: int) -> None:
    assert shards_for(load) == shards


def test_a_new_table_needs_no_preparation_for_200_tasks_a_second() -> None:
    found = size_for(Load(rate=200))
    assert (found.warm_table_units, found.warm_index_units, found.quota_units) == (None, None, None)


def test_whole_partitions_are_warmed_twice_the_units_of_the_table_and_three_times_those_of_the_index() -> None:
    found = size_for(Load(rate=1500))
    assert (found.table_units, found.index_units) == (4500, 7500)
    assert (found.warm_table_units, found.warm_index_units) == (9000, 23_000)


def test_a_quota_that_the_warm_throughput_exceeds_is_to_be_raised() -> None:
    assert size_for(Load(rate=2600)).quota_units is None
    assert size_for(Load(rate=2700)).quota_units == 41_000


def test_dollars_are_those_of_all_write_units() -> None:
    load = Load(rate=2000, steps=3)
    assert size_for(load).dollars_per_hour == pytest.approx(40_000 * 3600 * 0.625 / 1_000_000)
    assert size_for(load).dollars_per_million_tasks == pytest.approx(12.50)
