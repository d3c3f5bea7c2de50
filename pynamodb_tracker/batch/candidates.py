"""Which task a batch or a worker tries next: from any shard, and where other workers are active, away from them.

The shards take turns, in an order that each worker draws; within a shard, the oldest task is first, whether it is
pending, failed or abandoned. So while most shards have tasks, the first one costs as many requests in 400 shards as
in one, and neither a shard nor a state keeps others from being run. A step with one shard is run from the oldest task
on.

Workers that all begin with the oldest task try the same ones, and all but one of them are refused. Two things keep that
rare:

- Claims begin one by one. While they succeed, more and more are sent at the same time, up to one for each thread: 1,
  2, 4, 8 and so on. So a worker that meets another one is refused few tasks, however many threads it has.
- Once it is refused a task that another worker has, it reads what is left in the next shard, continues from a random
  place in it, and stays there until that happens again. While it is not refused, the place moves back to the oldest.

One call tries the tasks that were due when it began, of each step in turn, and what its own runs make due. The index
shows a task some time after it has become due, so what comes next is taken from the end of the run before it: the next
step of the same task, the next task of its group, the parent of a last child. They are tried behind all others of their
step. Each task is tried once at each step, and what was created after the call began waits for the next call: so the
call ends, even if its tasks create others or repeat all the time.
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
"""How many of the oldest tasks workers spread over: as many as one request to the index reads."""

_THREADS_PER_SHARE = 4
"""Workers with this many threads spread over twice as many tasks, and so on."""

_MOST_SHARES = 4
"""The range is never wider than this many times `_WIDEST`: reading it costs as many requests."""

_RUN_LENGTH = 50
"""How many tasks are tried from one place before another shard has its turn, or the index is read again."""

_NARROWEST = 1.0
"""How many claims are unanswered at a time, at first: where others are active, the first one is refused."""

_GROWTH = 1.0
"""How many more for each claim that succeeds; so they double while all do."""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.2
"""Seconds between two places in a row where no claim succeeds: few tasks are left, or the index is behind."""

_CAREFUL_GROWTH = 0.125
"""The same near other workers: at most an eighth as many claims are refused as have succeeded before."""

Read = Callable[[int, int | None], Iterator[str]]
"""Reads the ids of the due tasks of a shard, oldest first; the second argument is about how many are needed."""


class Rotation:
    """The order in which one worker visits the shards."""

    def __init__(self, shards: int) -> None:
        self._order = deque(RANDOM.sample(range(shards), shards))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def current(self) -> int:
        """The shard whose turn it was last."""
        return self._order[-1]

    def next(self) -> int:
        """Return the shard whose turn it is."""
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
        """`threads` is how many threads try the tasks; if there are several, they note each response.

        `limit` is about how many tasks are needed. Ids that are not wanted are left out. The feed ends when `goes_on`
        returns False. After `patience` shards in a row without a task, it goes on with one that is known to have some,
        and ends if there is none. If it `selects`, no other task counts in.
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
        self._open: set[int] = set()
        """Shards that may have tasks which were not tried."""
        self._begun: dict[int, Iterator[str]] = {}
        """What is left of shards whose turn has ended."""
        self._spread = 0
        """How many of the oldest tasks the next place is drawn from; 0 to begin with the oldest."""
        self._answered = threading.Condition()
        self._unanswered = 0
        self._width = min(self._most, _NARROWEST if threads > 1 else math.inf)
        """How many claims may be unanswered."""
        self._was_taken = False
        """Whether another worker had a task first, since the last place was chosen."""
        self._misses = 0
        """Places in a row where no claim has succeeded."""

    def note_response(self, *, was_taken: bool) -> None:
        """Note that a claim was answered, or is not sent any more, and whether another worker had the task first."""
        with self._answered:
            self._unanswered -= 1
            if was_taken:
                self._was_taken = True
            elif not self._was_taken:
                self._misses = 0
                self._width = min(self._width + (_CAREFUL_GROWTH if self._spread else _GROWTH), self._most)
            self._answered.notify()

    def count_in(self, task_id: str) -> bool:
        """Count a task as tried that a run has made due, when few claims are unanswered; False if it is not wanted.

        That is one that was tried before, and any if only some of the tasks were selected.
        """
        with self._answered:
            if self._selects or task_id in self._tried:
                return False
            self._answered.wait_for(lambda: self._unanswered < self._width)
            self._unanswered += 1
            self._tried.add(task_id)
            return True

    def beginning_with(self, shard: int) -> Iterator[str]:
        """Yield ids as an iteration does, of that shard first."""
        self.rotation.put_first(shard)
        return iter(self)

    def __iter__(self) -> Iterator[str]:
        """Yield ids until every task that is due was tried."""
        self._tried, self._open, self._begun = set(), set(range(len(self.rotation))), {}
        empty, with_more = 0, deque[int]()  # shards whose turn has ended before their tasks
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
        """Yield tasks of one shard until its turn ends; return whether all that it has were tried."""
        spread = self._next_spread()
        ids = self._some(shard, spread) if spread else self._rest(shard)
        most = _RUN_LENGTH if spread or len(self._open) > 1 else math.inf
        number = 0
        while number < most:
            task_id = next(ids, None)
            if task_id is None:
                return not (spread and number)
            if not self._may_be_sent(task_id):
                return False
            yield task_id
            number += 1
        return False

    def _next_spread(self) -> int:
        """Return how many of the oldest tasks to draw a place from, once the claims at a bad place are answered."""
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
        """Return True when few claims are unanswered; False if another worker has had one of the tasks here."""
        with self._answered:
            self._answered.wait_for(lambda: self._was_taken or self._unanswered < self._width)
            if self._was_taken:
                return False
            self._unanswered += 1
            self._tried.add(task_id)
            return True

    def _rest(self, shard: int) -> Iterator[str]:
        """Return the untried ids of a shard, oldest first, behind those of its last turn."""
        if shard not in self._begun:
            page = self._limit if len(self._open) == 1 else min(_RUN_LENGTH, self._limit or _RUN_LENGTH)
            self._begun[shard] = self._untried(shard, page)
        return self._begun[shard]

    def _some(self, shard: int, spread: int) -> Iterator[str]:
        """Return untried ids of a shard, from a random one on; all shards together have the oldest `spread`."""
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
    """Whether these are the tasks that were found due, so that none of them starts before that by this clock."""

    def __iter__(self) -> Iterator[str]: ...

    def note_response(self, *, was_taken: bool) -> None:
        """Note that a claim was answered, or is not sent any more, and whether another worker had the task first."""

    def count_in(self, task_id: str) -> bool:
        """Count a task as tried that a run has made due; False if it was tried before, or is not to be tried."""


class Feeding:
    """The tasks that a call tries, for threads or asyncio tasks, which say how each attempt has ended."""

    def __init__(
        self,
        sources: Mapping[Codes, Source],
        *,
        limit: int | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        """At most `limit` tasks are started; none is given once `goes_on`, which is called for each, returns False."""
        self.sources = sources
        self._limit = math.inf if limit is None else limit
        self._goes_on = goes_on
        self._began = new_token()
        """Tasks that have a later token as their `creation` wait for the next call."""
        self._behind = {codes: deque[str]() for codes in sources}
        """What runs of this call have made due, by the step that it is due at."""
        self._changed = threading.Condition()
        self._started = 0
        """Tasks that were given, without those that were refused; `limit` bounds requests that fail, too."""
        self._running = 0
        self._stopped = False

    def __iter__(self) -> Iterator[tuple[Codes, str]]:
        """Yield one task of each step in turn; before it ends, it waits for what running tasks make due."""
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
        """Take note of what an attempt has made due, or will have at a known time, and of whether it was refused."""
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
        """Give no more tasks of this step, and do not count the one that was given, because it is not started."""
        with self._changed:
            self._behind.pop(codes, None)
            self._started -= 1

    def stop(self) -> None:
        """Give no more tasks."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _has_room(self) -> bool:
        """Return whether one more task may start, once that does not depend on those that run."""
        with self._changed:
            self._changed.wait_for(lambda: self._started < self._limit or not self._running or self._stopped)
            return self._started < self._limit and not self._stopped

    def _is_more_due(self) -> bool:
        """Return True as soon as a run has made something due, and False once none of them can."""
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
