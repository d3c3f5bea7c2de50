"""What a batch tries next: in order while it is alone, and from a place of its own once it has met another worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pynamodb_tracker.batch.candidates import Feed

TASKS = [f"o-{number:04}" for number in range(2000)]


class Index:
    """What is due, as it is read; tasks that somebody took are gone."""

    def __init__(self, tasks: list[str]) -> None:
        self.tasks = tasks
        self.taken: set[str] = set()
        self.reads: list[int] = []

    def read(self) -> Iterator[str]:
        """Read from the oldest on, lazily."""
        self.reads.append(0)
        for task in self.tasks:
            if task not in self.taken:
                self.reads[-1] += 1
                yield task


def test_alone_it_reads_once_lazily_and_keeps_the_order() -> None:
    index = Index(TASKS)
    feed = iter(Feed(index.read))
    assert [next(feed) for _ in range(3)] == TASKS[:3]
    assert index.reads == [3]
    assert list(feed) == TASKS[3:]
    assert index.reads == [2000]


def test_who_meets_another_worker_reads_anew_and_begins_somewhere_among_the_oldest_500() -> None:
    begins = set()
    for _ in range(40):
        feed = Feed(Index(TASKS).read)
        ids = iter(feed)
        next(ids)
        feed.note_taken()
        begins.add(next(ids))
    assert len(begins) > 20
    assert begins <= set(TASKS[1:501])


@pytest.mark.parametrize(("threads", "widest"), [(1, 500), (3, 500), (4, 1000), (8, 1500), (16, 2000), (256, 2000)])
def test_workers_with_many_threads_spread_over_more(threads: int, widest: int) -> None:
    index = Index([f"o-{number:04}" for number in range(3000)])
    feed = Feed(index.read, threads=threads)
    ids = iter(feed)
    next(ids)
    feed.note_taken()
    next(ids)
    assert index.reads == [1, widest + 1]


def test_from_there_it_goes_on_in_order_for_a_stretch_and_looks_again() -> None:
    index = Index(TASKS)
    feed = Feed(index.read)
    ids = iter(feed)
    next(ids)
    feed.note_taken()
    stretch = [next(ids) for _ in range(50)]
    begin = TASKS.index(stretch[0])
    after = [TASKS[1 + (begin - 1 + number) % 500] for number in range(50)]
    assert stretch == after
    assert index.reads == [1, 501]  # the one that was tried is read, and left out
    next(ids)
    assert len(index.reads) == 3


def test_it_returns_to_the_oldest_while_it_meets_no_other_worker() -> None:
    index = Index(TASKS)
    feed = Feed(index.read)
    tried = []
    for number, task in enumerate(feed):
        tried.append(task)
        index.taken.add(task)
        if number == 0:
            feed.note_taken()
    assert sorted(tried) == TASKS
    assert tried[-1000:] == sorted(tried[-1000:])


def test_each_is_tried_once_though_it_is_still_there_when_it_looks_again() -> None:
    index = Index(TASKS[:120])
    feed = Feed(index.read)
    tried = []
    for task in feed:
        tried.append(task)
        feed.note_taken()
    assert sorted(tried) == TASKS[:120]


def test_nothing_to_do_is_read_once() -> None:
    index = Index([])
    assert list(Feed(index.read)) == []
    assert index.reads == [0]
