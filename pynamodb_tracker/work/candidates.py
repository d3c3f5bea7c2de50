"""Orders the due tasks of one step, away from other workers where they are active.

Urgent tasks come first, from a shard of their own. The other shards take turns, in an order that each worker draws.
Within a shard, the oldest task is first, whether it is pending, failed or abandoned. While most shards have tasks, the
first one costs as many requests in 400 shards as in one, and no shard or state blocks the others.

If all workers began with the oldest task, they would try the same tasks, and all but one would be refused. Two rules
keep that rare:

- Claims begin one by one. While they succeed, more are sent at the same time: 1, 2, 4, 8 and so on, up to one per
  thread. A worker that meets another one is refused few tasks, however many threads it has.
- After a refusal because of another worker, a worker continues from a random place in the next shard, and stays there
  until that happens again. While it is not refused, the place moves back to the oldest task.

Nothing here waits. Iterating yields an id, or `ANSWER` if a claim has to be answered first, or the seconds to pause.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Final

from pynamodb_tracker.dynamodb.backoff import RANDOM, jittered_pause

_WIDEST = 500
"""How many of the oldest tasks workers spread over: as many as one index request reads."""

_THREADS_PER_SHARE = 4
"""Workers with this many threads spread over twice as many tasks, and so on."""

_MOST_SHARES = 4
"""The widest range is this many times `_WIDEST`, and costs as many requests."""

_RUN_LENGTH = 50
"""How many tasks to try from one place before another shard has its turn, or the index is read again."""

_NARROWEST = 1.0
"""How many claims may be unanswered at first. Where others are active, the first one is refused."""

_GROWTH = 1.0
"""How many more per successful claim. They double while all succeed."""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.2
"""Seconds between two places in a row without a successful claim: few tasks are left, or the index is behind."""

_CAREFUL_GROWTH = 0.125
"""The growth near other workers. At most an eighth as many claims are refused as have succeeded."""

Read = Callable[[int, int | None], Iterator[str]]
"""Reads the ids of a shard's due tasks, oldest first. The second argument is about how many are needed."""


ANSWER: Final = math.inf
"""What `Candidates` yields if a claim has to be answered before it may give an id."""

Next = str | float
"""An id, or the seconds to pause before the next one, or ANSWER."""


class ClaimWindow:
    """How many claims may be unanswered: a congestion window, as in TCP."""

    def __init__(self, threads: int) -> None:
        """One thread needs no window until it meets another worker."""
        self.width = _NARROWEST if threads > 1 else math.inf
        self._most = threads if threads > 1 else math.inf
        self.unanswered = 0
        self.collided = False
        """Whether another worker had a task first since the last place was chosen."""
        self.is_careful = False
        """Whether other workers were met a short while ago."""
        self._misses = 0  # places in a row without a successful claim

    @property
    def has_room(self) -> bool:
        """Whether another claim may be sent."""
        return self.unanswered < self.width

    @property
    def may_go(self) -> bool:
        """Whether it is worth asking for the next id. After a collision, all claims must be answered."""
        return not self.unanswered if self.collided else self.has_room

    def sent(self) -> None:
        """Count a claim that is about to be sent."""
        self.unanswered += 1

    def answered(self, *, was_taken: bool | None) -> None:
        """Count a response. `was_taken` is None if it says nothing about other workers in the index."""
        self.unanswered -= 1
        if was_taken:
            self.collided = True
        elif was_taken is False and not self.collided:
            self._misses = 0
            self.width = min(self.width + (_CAREFUL_GROWTH if self.is_careful else _GROWTH), self._most)

    def reset(self) -> float:
        """Begin again with one claim after a collision. Return the seconds to pause."""
        self.collided, self.width = False, _NARROWEST
        misses, self._misses = self._misses, self._misses + 1
        return jittered_pause(misses, base=_FIRST_PAUSE, longest=_LONGEST_PAUSE) if misses else 0.0


class Candidates:
    """The ids of the due tasks of a step, each once."""

    def __init__(
        self,
        read: Read,
        *,
        shards: int = 1,
        lane: int | None = None,
        threads: int = 1,
        limit: int | None = None,
        is_wanted: Callable[[str], bool] | None = None,
        patience: int | None = None,
        selects: bool = False,
    ) -> None:
        """Order the ids for so many threads. About `limit` tasks are needed.

        Ids that are not wanted are left out. After `patience` shards in a row without a task, it continues with one
        that is known to have some, and ends if there is none. If it `selects` tasks, it counts no other ones in.
        """
        self.rotation = deque(RANDOM.sample(range(shards), shards))
        """The shards. The first one has the next turn, and the last one had its turn last."""
        self.lane = lane
        """The number of the shard of urgent tasks, which is not in `rotation`."""
        self.shard = 0
        """The shard that has the present turn."""
        self.window = ClaimWindow(threads)
        self.goes_on: Callable[[], bool] = lambda: True
        """Asked for each shard and, by `read`, for each index entry. The ids end when it returns False."""
        self._read = read
        self._limit = limit
        self._is_wanted = is_wanted
        self._patience = math.inf if patience is None else patience
        self._selects = selects
        self._widest = _WIDEST * min(_MOST_SHARES, threads // _THREADS_PER_SHARE + 1)
        self._tried: set[str] = set()
        self._open: set[int] = set()  # shards that may have untried tasks
        self._is_lane_open = lane is not None  # the lane may have untried tasks
        self._begun: dict[int, Iterator[str]] = {}
        """The remaining ids of shards that have had a turn."""
        self._spread = 0
        """How many of the oldest tasks the next place is drawn from. 0 begins with the oldest."""
        self._is_stale = False  # the index has to be read again

    def count_in(self, task_id: str) -> bool:
        """Count a task as tried that a run has made due. Return False if it was tried, or if only some are wanted."""
        if self._selects or task_id in self._tried:
            return False
        self._tried.add(task_id)
        return True

    def leave_out(self, task_id: str) -> None:
        """Leave out a task whose run has ended. The index may have been read before that."""
        self._tried.add(task_id)

    def was_tried(self, task_id: str) -> bool:
        """Return whether a task was tried, or left out, since the ids began."""
        return task_id in self._tried

    def put_back(self, task_id: str) -> None:
        """Take back an id that was not tried, and read the index again."""
        self._tried.discard(task_id)
        self._is_stale = True

    def beginning_with(self, shard: int) -> Iterator[Next]:
        """Iterate over the ids, of that shard first."""
        self._is_lane_open = shard == self.lane
        if not self._is_lane_open:
            self._put_first(shard)
        return iter(self)

    def open_lane(self) -> None:
        """Read the lane again. It has the next turn."""
        self._is_lane_open = True
        self._begun.pop(self.lane or 0, None)

    def _put_first(self, shard: int) -> None:
        self.rotation.remove(shard)
        self.rotation.appendleft(shard)

    def next_shard(self) -> int:
        """Return the shard that has the next turn."""
        self.rotation.rotate(-1)
        return self.rotation[-1]

    def __iter__(self) -> Iterator[Next]:
        """Yield ids until every due task was tried."""
        self._tried, self._open, self._begun = set(), set(self.rotation), {}
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
            self.shard, before = shard, len(self._tried)
            is_done = yield from self._turn(shard)
            if shard in with_more:
                with_more.remove(shard)
            if is_done:
                self._open.discard(shard)
            else:
                with_more.append(shard)
            empty = empty + 1 if is_done and len(self._tried) == before else 0

    def _turn(self, shard: int) -> Generator[Next, None, bool]:
        """Yield tasks of one shard until its turn ends. Return whether all of its tasks were tried."""
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
        ids = self._some(shard, spread) if spread else self._rest(shard)
        most = _RUN_LENGTH if spread or len(self._open) > 1 else math.inf
        number = 0
        while number < most:
            if (task_id := next(ids, None)) is None:
                return not (spread and number)
            while not (window.has_room or window.collided):
                yield ANSWER
            if window.collided:
                return False
            self._tried.add(task_id)
            number += 1
            yield task_id
            if self._is_stale or self._is_lane_open:
                return False
        return False

    def _rest(self, shard: int) -> Iterator[str]:
        """Return the untried ids of a shard, oldest first, that follow those of its last turn."""
        if shard not in self._begun:
            page = self._limit if len(self._open) == 1 else min(_RUN_LENGTH, self._limit or _RUN_LENGTH)
            self._begun[shard] = self._untried(shard, page)
        return self._begun[shard]

    def _some(self, shard: int, spread: int) -> Iterator[str]:
        """Return a shard's part of the `spread` oldest untried ids, from a random one on."""
        share = spread if shard == self.lane else math.ceil(spread / len(self._open))
        oldest = list(islice(self._untried(shard, share), share))
        begin = RANDOM.randrange(len(oldest)) if oldest else 0
        return iter(oldest[begin:] + oldest[:begin])

    def _untried(self, shard: int, limit: int | None) -> Iterator[str]:
        # A poll may find an urgent task again while it goes through the others, and knows when it may be tried.
        tried = () if shard == self.lane and self._is_wanted is not None else self._tried
        for task_id in self._read(shard, limit):
            if task_id not in tried and (self._is_wanted is None or self._is_wanted(task_id)):
                yield task_id
