"""Chooses the task that a batch or a worker tries next, away from other workers where they are active.

Shards take turns, in an order that each worker draws. Within a shard, the oldest task is first, whether it is pending,
failed or abandoned. While most shards have tasks, the first one costs as many requests in 400 shards as in one, and no
shard or state blocks the others.

If all workers began with the oldest task, they would try the same tasks, and all but one would be refused. Two rules
keep that rare:

- Claims begin one by one. While they succeed, more are sent at the same time: 1, 2, 4, 8 and so on, up to one per
  thread. A worker that meets another one is refused few tasks, however many threads it has.
- After a refusal because of another worker, a worker continues from a random place in the next shard, and stays there
  until that happens again. While it is not refused, the place moves back to the oldest task.

One call tries the tasks of each step in turn that were due when it began, and then those that its own runs made due.
The index shows new due tasks late, so each run tells which ones its end made due: the next step of the same task, the
next task of its group, the parent of a last child. Each task is tried once per step, and tasks created after the call
began wait for the next call. That way the call ends even if its tasks always create others or repeat.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.backoff import RANDOM, jittered_pause
from pynamodb_tracker.status import Codes
from pynamodb_tracker.transitions.lock import new_token
from pynamodb_tracker.transitions.participants import MadeDue

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


class Rotation:
    """The order in which one worker visits the shards."""

    def __init__(self, shards: int) -> None:
        self._order = deque(RANDOM.sample(range(shards), shards))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def current(self) -> int:
        """The shard that had its turn last."""
        return self._order[-1]

    def next(self) -> int:
        """Return the next shard."""
        shard = self._order.popleft()
        self._order.append(shard)
        return shard

    def put_first(self, shard: int) -> None:
        """Give a shard its turn now."""
        self._order.remove(shard)
        self._order.appendleft(shard)


class Feed:
    """The ids of the tasks that a batch tries, each once."""

    is_of_due = True

    def __init__(
        self,
        read: Read,
        *,
        shards: int = 1,
        threads: int = 1,
        limit: int | None = None,
        is_wanted: Callable[[str], bool] | None = None,
        goes_on: Callable[[], bool] | None = None,
        patience: int | None = None,
        selects: bool = False,
    ) -> None:
        """If several `threads` try the tasks, they must note each response. About `limit` tasks are needed.

        Ids that are not wanted are left out. The feed ends when `goes_on` returns False. After `patience` shards in a
        row without a task, it continues with one that is known to have some, and ends if there is none. If the feed
        `selects` tasks, it counts no other ones in.
        """
        self.rotation = Rotation(shards)
        self._read = read
        self._limit = limit
        self._is_wanted = is_wanted
        self._goes_on = goes_on
        self._patience = math.inf if patience is None else patience
        self._selects = selects
        self._widest = _WIDEST * min(_MOST_SHARES, threads // _THREADS_PER_SHARE + 1)
        self._most = math.inf if threads == 1 else threads
        self._tried: set[str] = set()
        self._open: set[int] = set()  # shards that may have untried tasks
        self._begun: dict[int, Iterator[str]] = {}
        """The remaining ids of shards that have had a turn."""
        self._spread = 0
        """How many of the oldest tasks the next place is drawn from. 0 begins with the oldest."""
        self._answered = threading.Condition()
        self._unanswered = 0
        self._width = min(self._most, _NARROWEST if threads > 1 else math.inf)
        self._was_taken = False
        """Whether another worker had a task first since the last place was chosen."""
        self._misses = 0  # places in a row without a successful claim

    def note_response(self, *, was_taken: bool) -> None:
        """Note that a claim was answered or will not be sent, and whether another worker had the task first."""
        with self._answered:
            self._unanswered -= 1
            if was_taken:
                self._was_taken = True
            elif not self._was_taken:
                self._misses = 0
                self._width = min(self._width + (_CAREFUL_GROWTH if self._spread else _GROWTH), self._most)
            self._answered.notify()

    def count_in(self, task_id: str) -> bool:
        """Wait until few claims are unanswered, and count a task as tried that a run has made due.

        Return False if it was tried before, or if only some of the tasks were selected.
        """
        with self._answered:
            if self._selects or task_id in self._tried:
                return False
            self._answered.wait_for(lambda: self._unanswered < self._width)
            self._unanswered += 1
            self._tried.add(task_id)
            return True

    def beginning_with(self, shard: int) -> Iterator[str]:
        """Iterate over the ids, of that shard first."""
        self.rotation.put_first(shard)
        return iter(self)

    def __iter__(self) -> Iterator[str]:
        """Yield ids until every due task was tried."""
        self._tried, self._open, self._begun = set(), set(range(len(self.rotation))), {}
        empty, with_more = 0, deque[int]()  # shards that have more tasks than one turn
        while self._open and (self._goes_on is None or self._goes_on()):
            if empty >= self._patience:
                if not with_more:
                    return
                self.rotation.put_first(with_more[0])
            shard = self.rotation.next()
            if shard not in self._open:
                continue
            before = len(self._tried)
            is_done = yield from self._turn(shard)
            if shard in with_more:
                with_more.remove(shard)
            if is_done:
                self._open.discard(shard)
            else:
                with_more.append(shard)
            empty = empty + 1 if is_done and len(self._tried) == before else 0

    def _turn(self, shard: int) -> Generator[str, None, bool]:
        """Yield tasks of one shard until its turn ends. Return whether all of its tasks were tried."""
        spread = self._next_spread()
        ids = self._some(shard, spread) if spread else self._rest(shard)
        most = _RUN_LENGTH if spread or len(self._open) > 1 else math.inf
        number = 0
        while number < most:
            if (task_id := next(ids, None)) is None:
                return not (spread and number)
            if not self._may_be_sent(task_id):
                return False
            yield task_id
            number += 1
        return False

    def _next_spread(self) -> int:
        """Return how many of the oldest tasks to draw a place from. After a refusal, wait for other claims first."""
        with self._answered:
            spread, self._spread = self._spread, self._spread // 2
            if not self._was_taken:
                return spread
            self._answered.wait_for(lambda: self._unanswered == 0)
            self._was_taken, self._width = False, _NARROWEST
            self._begun.clear()  # what was read is out of date
            self._spread = self._widest // 2
            misses, self._misses = self._misses, self._misses + 1
        if misses:
            clock.sleep(jittered_pause(misses, base=_FIRST_PAUSE, longest=_LONGEST_PAUSE))
        return self._widest

    def _may_be_sent(self, task_id: str) -> bool:
        """Wait until few claims are unanswered. Return False if another worker had one of the tasks here."""
        with self._answered:
            self._answered.wait_for(lambda: self._was_taken or self._unanswered < self._width)
            if self._was_taken:
                return False
            self._unanswered += 1
            self._tried.add(task_id)
            return True

    def _rest(self, shard: int) -> Iterator[str]:
        """Return the untried ids of a shard, oldest first, that follow those of its last turn."""
        if shard not in self._begun:
            page = self._limit if len(self._open) == 1 else min(_RUN_LENGTH, self._limit or _RUN_LENGTH)
            self._begun[shard] = self._untried(shard, page)
        return self._begun[shard]

    def _some(self, shard: int, spread: int) -> Iterator[str]:
        """Return a shard's part of the `spread` oldest untried ids, from a random one on."""
        share = math.ceil(spread / len(self._open))
        oldest = list(islice(self._untried(shard, share), share))
        begin = RANDOM.randrange(len(oldest)) if oldest else 0
        return iter(oldest[begin:] + oldest[:begin])

    def _untried(self, shard: int, limit: int | None) -> Iterator[str]:
        for task_id in self._read(shard, limit):
            if task_id not in self._tried and (self._is_wanted is None or self._is_wanted(task_id)):
                yield task_id


class Source(Protocol):
    """The ids of the tasks of one step, each once."""

    is_of_due: bool
    """Whether the source found the tasks due, so that none of them starts before that by this clock."""

    def __iter__(self) -> Iterator[str]: ...

    def note_response(self, *, was_taken: bool) -> None:
        """Note that a claim was answered or will not be sent, and whether another worker had the task first."""

    def count_in(self, task_id: str) -> bool:
        """Count a task as tried that a run has made due. Return False if it must not be tried, or was tried before."""


class Feeding:
    """The tasks that a call tries. The threads or asyncio tasks that try them report the end of each attempt."""

    def __init__(
        self,
        sources: Mapping[Codes, Source],
        *,
        limit: int | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        """Start at most `limit` tasks, and end when `goes_on`, which is called for each task, returns False."""
        self.sources = sources
        self._limit = math.inf if limit is None else limit
        self._goes_on = goes_on
        self._began = new_token()
        """Tasks with a later token as their `creation` wait for the next call."""
        self._behind = {codes: deque[str]() for codes in sources}
        """Tasks that runs of this call have made due, by step."""
        self._changed = threading.Condition()
        self._started = 0
        """Tasks that were given and not refused. `limit` also bounds failing requests."""
        self._running = 0
        self._stopped = False

    def __iter__(self) -> Iterator[tuple[Codes, str]]:
        """Yield one task of each step in turn. Before the end, wait for tasks that running ones make due."""
        ids = {codes: iter(source) for codes, source in self.sources.items()}
        while True:
            was_empty = True
            for codes, of_step in ids.items():
                if not self._has_room():
                    return
                if codes not in self._behind:
                    continue
                task_id = next(of_step, None)
                if task_id is None and (task_id := self._next_behind(codes)) is None:
                    continue
                if self._goes_on is not None and not self._goes_on():
                    return
                was_empty = False
                with self._changed:
                    self._running += 1
                    self._started += 1
                yield codes, task_id
            if was_empty and not self._is_more_due():
                return

    def note_end(self, made_due: Iterable[MadeDue], *, was_refused: bool = False) -> None:
        """Note the tasks that an attempt has made due, now or at a known time, and whether it was refused."""
        now = clock.now()
        with self._changed:
            self._running -= 1
            if was_refused:
                self._started -= 1
            self._changed.notify()
            for task in made_due:
                codes = next((codes for codes in task.model.tracker.steps if codes.pending == task.status), None)
                if codes in self._behind and task.creation < self._began and task.due_time <= now:
                    self._behind[codes].append(task.task_id)

    def leave_out(self, codes: Codes) -> None:
        """Give no more tasks of this step, and do not count the last one, because it is not started."""
        with self._changed:
            self._behind.pop(codes, None)
            self._started -= 1

    def stop(self) -> None:
        """Give no more tasks."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _has_room(self) -> bool:
        """Return whether a task may start, once that does not depend on the running ones."""
        with self._changed:
            self._changed.wait_for(lambda: self._started < self._limit or not self._running or self._stopped)
            return self._started < self._limit and not self._stopped

    def _is_more_due(self) -> bool:
        """Return True as soon as a run has made a task due, and False once none can."""
        with self._changed:
            self._changed.wait_for(lambda: any(self._behind.values()) or not self._running or self._stopped)
            return any(self._behind.values())

    def _next_behind(self, codes: Codes) -> str | None:
        behind = self._behind.get(codes)
        while behind:
            task_id = behind.popleft()
            if self.sources[codes].count_in(task_id):
                return task_id
        return None
