"""What a scan remembers of the tasks that it has met."""

import tracemalloc

import pytest

from pynamodb_tracker.query import state_scan
from pynamodb_tracker.query.state_scan import SeenIds


@pytest.mark.parametrize("recent", [1, 2, 7, 4096])
def test_an_id_is_new_once(monkeypatch: pytest.MonkeyPatch, recent: int) -> None:
    monkeypatch.setattr(state_scan, "_RECENT", recent)
    known = SeenIds()
    ids = [f"o-{number}" for number in range(200)]
    assert all(map(known.is_new, ids))
    assert not any(map(known.is_new, reversed(ids)))
    assert known.is_new("another one")


def test_no_two_scans_give_an_id_the_same_digest() -> None:
    first, second = SeenIds(), SeenIds()
    assert first.is_new("a")
    assert second.is_new("a")
    assert first._recent != second._recent


def test_ids_of_any_text_are_distinguished() -> None:
    known = SeenIds()
    assert [known.is_new(task_id) for task_id in ("a", "A", "\u00e9", "e\u0301", "a")] == [
        True,
        True,
        True,
        True,
        False,
    ]


def test_forty_thousand_ids_take_about_half_a_megabyte() -> None:
    known = SeenIds()
    tracemalloc.start()
    try:
        for number in range(40_000):
            known.is_new(f"order-{number:020}")
        assert tracemalloc.get_traced_memory()[1] < 700_000
    finally:
        tracemalloc.stop()
