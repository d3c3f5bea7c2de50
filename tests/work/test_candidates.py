"""What a batch tries next: in order while it is alone, and from a place of its own once it has met another worker."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pynamodb_tracker.dynamodb.backoff import RANDOM
from pynamodb_tracker.work.candidates import ANSWER, Candidates, Next

TASKS = [f"o-{number:04}" for number in range(2000)]


class Index:
    """What is due in each shard, as it is read; tasks that somebody took are gone."""

    def __init__(self, *shards: list[str]) -> None:
        self.shards = shards
        self.taken: set[str] = set()
        self.reads: list[int] = []

    def read(self, shard: int, _limit: int | None) -> Iterator[str]:
        """Read from the oldest on, lazily."""
        self.reads.append(0)
        read = len(self.reads) - 1
        for task in self.shards[shard]:
            if task not in self.taken:
                self.reads[read] += 1
                yield task


class Feed:
    """Candidates whose user counts each claim, and skips pauses."""

    def __init__(self, *arguments: Any, shard: int | None = None, **options: Any) -> None:
        self.candidates = Candidates(*arguments, **options)
        self.pauses: list[float] = []
        self._ids = iter(self.candidates) if shard is None else self.candidates.beginning_with(shard)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        found = self.next()
        assert isinstance(found, str), "it waits for an answer"
        return found

    def next(self) -> Next:
        while isinstance(found := next(self._ids), float) and found != ANSWER:
            self.pauses.append(found)
        if isinstance(found, str):
            self.candidates.window.note_sent()
        return found

    def note_response(self, *, lost_to_other: bool) -> None:
        self.candidates.window.note_answer(lost_to_other=lost_to_other)


def test_alone_it_reads_once_lazily_and_keeps_the_order() -> None:
    index = Index(TASKS)
    feed = iter(Feed(index.read))
    assert ([next(feed) for _ in range(3)], index.reads) == (TASKS[:3], [3])
    assert list(feed) == TASKS[3:]
    assert index.reads == [2000]


def test_who_meets_another_worker_reads_anew_and_begins_somewhere_among_the_oldest_500() -> None:
    begins = set()
    for _ in range(40):
        feed = Feed(Index(TASKS).read)
        ids = iter(feed)
        next(ids)
        feed.note_response(lost_to_other=True)
        begins.add(next(ids))
    assert len(begins) > 20
    assert begins <= set(TASKS[1:501])


@pytest.mark.parametrize(("threads", "widest"), [(1, 500), (3, 500), (4, 1000), (8, 1500), (16, 2000), (256, 2000)])
def test_workers_with_many_threads_spread_over_more(threads: int, widest: int) -> None:
    index = Index([f"o-{number:04}" for number in range(3000)])
    feed = Feed(index.read, threads=threads)
    ids = iter(feed)
    next(ids)
    feed.note_response(lost_to_other=True)
    next(ids)
    assert index.reads[-1] == widest + 1


def test_from_there_it_goes_on_in_order_for_a_stretch_and_looks_again() -> None:
    index = Index(TASKS)
    feed = Feed(index.read)
    ids = iter(feed)
    next(ids)
    feed.note_response(lost_to_other=True)
    stretch = []
    for _ in range(50):
        stretch.append(next(ids))
        feed.note_response(lost_to_other=False)
    begin = TASKS.index(stretch[0])
    assert stretch == [TASKS[1 + (begin - 1 + number) % 500] for number in range(50)]
    assert index.reads == [2, 501]  # the one that was tried is read, and left out
    next(ids)
    assert len(index.reads) == 3


def test_it_returns_to_the_oldest_while_it_meets_no_other_worker() -> None:
    index = Index(TASKS)
    feed = Feed(index.read)
    tried = []
    for number, task in enumerate(feed):
        tried.append(task)
        index.taken.add(task)
        feed.note_response(lost_to_other=number == 0)
    assert (sorted(tried), tried[-1000:]) == (TASKS, sorted(tried[-1000:]))


def test_each_is_tried_once_though_it_is_still_there_when_it_looks_again() -> None:
    feed = Feed(Index(TASKS[:60], TASKS[60:120]).read, shards=2)
    tried = []
    for task in feed:
        tried.append(task)
        feed.note_response(lost_to_other=True)
    assert sorted(tried) == TASKS[:120]


def test_nothing_to_do_is_read_once() -> None:
    index = Index([])
    assert (list(Feed(index.read)), index.reads) == ([], [0])


def test_shards_take_turns_of_50_tasks_and_within_each_the_oldest_is_first() -> None:
    index = Index(TASKS[:500], TASKS[500:1000], TASKS[1000:1010])
    tried = list(Feed(index.read, shards=3))
    assert sorted(tried) == TASKS[:1010]
    for shard in index.shards:
        assert [task for task in tried if task in shard] == shard
    for begin in range(10, 910, 50):
        assert len({task < TASKS[500] for task in tried[begin : begin + 101]}) == 2
    assert sum(index.reads) == 1010  # none is read again for its next turn


def test_workers_begin_with_different_shards_and_read_no_other_before() -> None:
    begins = set()
    for _ in range(60):
        index = Index(*([task] for task in TASKS[:8]))
        begins.add(next(iter(Feed(index.read, shards=8))))
        assert index.reads == [1]
    assert len(begins) > 4


def test_who_meets_another_worker_in_a_shard_continues_in_another_one() -> None:
    index = Index(TASKS[:500], TASKS[500:1000])
    feed = Feed(index.read, shards=2)
    ids = iter(feed)
    first = next(ids)
    feed.note_response(lost_to_other=True)
    assert (first < TASKS[500]) != (next(ids) < TASKS[500])
    assert index.reads[-1] == 250  # both shards together have the oldest 500


def test_claims_begin_one_by_one_and_one_more_is_sent_for_each_that_succeeds() -> None:
    feed, widths = Feed(Index(TASKS).read, threads=8), list[int]()
    for _ in range(5):
        given = 0
        while feed.next() is not ANSWER:
            given += 1
        widths.append(given)
        for _ in range(given):
            feed.note_response(lost_to_other=False)
    assert widths == [1, 2, 4, 8, 8]


def test_who_meets_another_worker_awaits_all_answers_and_begins_one_by_one_again() -> None:
    feed = Feed(Index(TASKS).read, threads=8)
    for _ in range(20):
        next(feed)
        feed.note_response(lost_to_other=False)
    for _ in range(3):
        next(feed)
    for _ in range(3):
        feed.note_response(lost_to_other=True)
        may_go = feed.candidates.window.may_go
        assert may_go == (feed.candidates.window.unanswered == 0)
        assert (feed.next() is ANSWER) == (not may_go)
    assert (feed.candidates.window.unanswered, feed.candidates.window.width) == (1, 1)


def test_who_meets_others_again_and_again_waits_longer_and_longer_and_is_quick_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RANDOM, "uniform", lambda _low, high: high)
    feed, pauses = Feed(Index(TASKS).read), list[int]()
    for lost_to_other in [*[True] * 7, False, True, False]:
        next(feed)
        pauses.append(round(1000 * sum(feed.pauses)))
        feed.pauses.clear()
        feed.note_response(lost_to_other=lost_to_other)
    assert pauses == [0, 0, 20, 40, 80, 160, 200, 200, 0, 0]


def test_an_id_that_was_not_tried_is_read_again() -> None:
    index = Index(TASKS[:4])
    feed = Feed(index.read)
    assert next(feed) == TASKS[0]
    feed.candidates.put_back(TASKS[0])
    index.taken.add(TASKS[1])
    assert list(feed) == [TASKS[0], *TASKS[2:4]]


def test_ids_that_are_not_wanted_are_left_out_and_hold_up_no_others() -> None:
    feed = Feed(Index(TASKS[:6]).read, threads=2, is_wanted=lambda task: task in TASKS[3:6])
    tried = []
    for task in feed:
        tried.append(task)
        feed.note_response(lost_to_other=False)
    assert tried == TASKS[3:6]


def test_it_ends_after_some_shards_without_a_task_and_continues_behind_them() -> None:
    index = Index(*[[]] * 6)
    feed = Feed(index.read, shards=6, patience=4)
    assert (list(feed), index.reads) == ([], [0] * 4)
    assert sorted([feed.candidates.next_shard() for _ in range(6)]) == list(range(6))


def test_it_reads_no_further_shard_once_it_is_not_to_go_on() -> None:
    index, stopped = Index(TASKS[:1], TASKS[1:2]), threading.Event()
    ids = Feed(index.read, shards=2)
    ids.candidates.goes_on = lambda: not stopped.is_set()
    next(ids)
    stopped.set()
    assert (list(ids), len(index.reads)) == ([], 1)


def test_after_its_patience_it_goes_on_with_a_shard_that_has_more() -> None:
    index = Index(TASKS[:1000], *[list[str]() for _ in range(63)])
    assert (list(Feed(index.read, shards=64, patience=8, shard=0)), len(index.reads)) == (TASKS[:1000], 64)


def test_after_its_patience_it_ends_if_no_shard_is_known_to_have_more() -> None:
    index = Index(TASKS[:3], *[list[str]() for _ in range(63)])
    assert (list(Feed(index.read, shards=64, patience=8, shard=0)), len(index.reads)) == (TASKS[:3], 9)
