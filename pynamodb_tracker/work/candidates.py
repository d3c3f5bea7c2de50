"""Orders the due tasks of one step so that workers rarely try the same ones.

Urgent tasks have their own shard, which comes first. The other shards take turns in a random order, oldest task first.
So the first task costs as many requests in 400 shards as in one, and no shard blocks the others.

If all workers began with the oldest task, all but one would be refused. Two rules keep that rare:

- Claims begin one by one. While they succeed, more are sent at once: 1, 2, 4, up to one per thread.
- After losing a task, a worker continues at a random place in the next shard. While it loses no more, that place moves
  back towards the oldest task.

Nothing here waits. The iterator yields an id, `ANSWER` if a claim has to be answered first, or seconds to pause.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Final

from pynamodb_tracker.dynamodb.backoff import RANDOM, jittered_pause

_WIDEST = 500  # workers spread over so many oldest tasks, which one index request reads
_THREADS_PER_SHARE = 4  # so many threads spread over `_WIDEST` more
_MOST_SHARES = 4  # the most times `_WIDEST`, each of which costs a request
_RUN_LENGTH = 50  # tasks per turn
_NARROWEST = 1.0  # how many claims may be unanswered at first
_GROWTH = 1.0  # per successful claim, so that the window doubles while all succeed
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.2  # seconds between two places without a successful claim
_CAREFUL_GROWTH = 0.125  # near other workers: at most one claim is refused per eight successes
ANSWER: Final = math.inf  # a claim has to be answered before the next id

Next = str | float  # an id, seconds to pause, or ANSWER


class ClaimWindow:
    """How many claims may be unanswered: a congestion window, as in TCP."""

    def __init__(self, threads: int) -> None:
        self.width = _NARROWEST if threads > 1 else math.inf
        self._most = threads if threads > 1 else math.inf
        self.unanswered = 0
        self.collided = False  # another worker had a task first
        self.is_careful = False  # other workers are near
        self._misses = 0  # places in a row without a successful claim

    @property
    def has_room(self) -> bool:
        return self.unanswered < self.width

    @property
    def may_go(self) -> bool:
        """Whether to ask for the next id. After a collision, all claims must be answered first."""
        return not self.unanswered if self.collided else self.has_room

    def note_sent(self) -> None:
        self.unanswered += 1

    def note_answer(self, *, lost_to_other: bool | None) -> None:
        """Count a response. `lost_to_other` is None if it says nothing about other workers."""
        self.unanswered -= 1
        if lost_to_other:
            self.collided = True
        elif lost_to_other is False and not self.collided:
            self._misses = 0
            self.width = min(self.width + (_CAREFUL_GROWTH if self.is_careful else _GROWTH), self._most)

    def reset(self) -> float:
        """Go back to one claim after a collision. Return the seconds to pause."""
        self.collided, self.width = False, _NARROWEST
        misses, self._misses = self._misses, self._misses + 1
        return jittered_pause(misses, base=_FIRST_PAUSE, longest=_LONGEST_PAUSE) if misses else 0.0


class Candidates:
    """The ids of a step's due tasks, each once."""

    def __init__(
        self,
        read: Callable[[int, int | None], Iterator[str]],
        *,
        shards: int = 1,
        lane: int | None = None,
        threads: int = 1,
        limit: int | None = None,
        is_wanted: Callable[[str], bool] | None = None,
        patience: int | None = None,
        selects: bool = False,
    ) -> None:
        """Order the ids for this many threads. About `limit` tasks are needed. `read` returns a shard's, oldest first.

        After `patience` empty shards in a row, continue with one that has tasks, or end. If this `selects` tasks,
        others are not added later.
        """
        self.rotation = deque(RANDOM.sample(range(shards), shards))  # the first one has the next turn
        self.lane = lane  # the urgent tasks' shard, which is not in `rotation`
        self.shard = 0  # which has its turn now
        self.window = ClaimWindow(threads)
        self.goes_on: Callable[[], bool] = lambda: True  # asked for each shard and index entry
        self._read = read
        self._limit = limit
        self._is_wanted = is_wanted
        self._patience = math.inf if patience is None else patience
        self.selects = selects
        self._widest = _WIDEST * min(_MOST_SHARES, threads // _THREADS_PER_SHARE + 1)
        self.tried: set[str] = set()  # and left out
        self._open: set[int] = set()  # shards that may have untried tasks
        self._is_lane_open = lane is not None
        self._begun: dict[int, Iterator[str]] = {}  # the remaining ids of shards after their turn
        self._spread = 0  # the next place is drawn from so many oldest tasks
        self._is_stale = False  # the index has to be read again

    def count_in(self, task_id: str) -> bool:
        """Count a task that does not come from the index. Return False if it was tried."""
        if task_id in self.tried:
            return False
        self.tried.add(task_id)
        return True

    def put_back(self, task_id: str) -> None:
        """Take back an untried id, and read the index again."""
        self.tried.discard(task_id)
        self._is_stale = True

    def beginning_with(self, shard: int) -> Iterator[Next]:
        self._is_lane_open = shard == self.lane
        if not self._is_lane_open:
            self._put_first(shard)
        return iter(self)

    def open_lane(self) -> None:
        self._is_lane_open = True
        self._begun.pop(self.lane or 0, None)

    def _put_first(self, shard: int) -> None:
        self.rotation.remove(shard)
        self.rotation.appendleft(shard)

    def next_shard(self) -> int:
        self.rotation.rotate(-1)
        return self.rotation[-1]

    def __iter__(self) -> Iterator[Next]:
        self.tried, self._open, self._begun = set(), set(self.rotation), {}
        empty, with_more = 0, deque[int]()  # shards that have more tasks than one turn
        while (self._open or self._is_lane_open) and self.goes_on():
            if self._is_lane_open and self.lane is not None:
                self.shard, self._is_lane_open = self.lane, False  # unless it is opened during its turn
                is_done = yield from self._turn(self.lane)
                self._is_lane_open |= not is_done
                continue
            if empty >= self._patience:
                if not with_more:
                    return
                self._put_first(with_more[0])
            shard = self.next_shard()
            if shard not in self._open:
                continue
            self.shard, before = shard, len(self.tried)
            is_done = yield from self._turn(shard)
            if shard in with_more:
                with_more.remove(shard)
            if is_done:
                self._open.discard(shard)
            else:
                with_more.append(shard)
            empty = empty + 1 if is_done and len(self.tried) == before else 0

    def _turn(self, shard: int) -> Generator[Next, None, bool]:
        """Yield a shard's tasks until its turn ends. Return whether all were tried."""
        window = self.window
        spread, self._spread = self._spread, self._spread // 2
        if window.collided:
            while window.unanswered:
                yield ANSWER
            if pause := window.reset():
                yield pause
            spread, self._spread, self._is_stale = self._widest, self._widest // 2, True
        if self._is_stale:
            self._begun, self._is_stale = {}, False
        window.is_careful = bool(self._spread)
        ids = self._ids_from_random_place(shard, spread) if spread else self._remaining_ids(shard)
        most = _RUN_LENGTH if spread or len(self._open) > 1 else math.inf
        number = 0
        while number < most:
            if (task_id := next(ids, None)) is None:
                return not spread or not number  # the ids from a random place are only some of the shard's
            while not (window.has_room or window.collided):
                yield ANSWER
            if window.collided:
                return False
            self.tried.add(task_id)
            number += 1
            yield task_id
            if self._is_stale or self._is_lane_open:
                return False
        return False

    def _remaining_ids(self, shard: int) -> Iterator[str]:
        if shard not in self._begun:
            page = self._limit if len(self._open) == 1 else min(_RUN_LENGTH, self._limit or _RUN_LENGTH)
            self._begun[shard] = self._untried_ids(shard, page)
        return self._begun[shard]

    def _ids_from_random_place(self, shard: int, spread: int) -> Iterator[str]:
        share = spread if shard == self.lane else math.ceil(spread / len(self._open))
        oldest = list(islice(self._untried_ids(shard, share), share))
        begin = RANDOM.randrange(len(oldest)) if oldest else 0
        return iter(oldest[begin:] + oldest[:begin])

    def _untried_ids(self, shard: int, limit: int | None) -> Iterator[str]:
        # An urgent task's cooldown says when a poll may try it again.
        tried = () if shard == self.lane and self._is_wanted is not None else self.tried
        for task_id in self._read(shard, limit):
            if task_id not in tried and (self._is_wanted is None or self._is_wanted(task_id)):
                yield task_id
