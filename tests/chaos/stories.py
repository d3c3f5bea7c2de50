"""A short history without a fault, and ways to break each promise in it: what the checker is tried on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.events import Event
from tests.chaos.final import Entry, Final, Row
from tests.chaos.pipeline import END, EXACTLY_ONCE
from tests.chaos.records import Record
from tests.chaos.runs import History, Run, Write

__all__ = ["BREAKS", "Story", "sound"]

TASK = "parcel-0"


@dataclass
class Story:
    """A history and what was left, both to be changed."""

    events: list[Event] = field(default_factory=list)
    history: History = field(default_factory=History)
    final: Final = field(default_factory=lambda: Final({}, Counter(), {}, {}))

    @property
    def row(self) -> Row:
        """The row of the task."""
        return self.final.rows[TASK]

    def run(self, fence: int) -> Run:
        """Return the run of that fence."""
        return next(run for run in self.history.runs if run.fence == fence)

    def end(self, fence: int) -> Write:
        """Return how the run of that fence ended."""
        end = self.run(fence).end
        assert end is not None
        return end

    def change(self, **facts: Any) -> None:
        """Let the row be otherwise, and the index and the counts as it says."""
        row = replace(self.row, **facts)
        self.final = replace(
            self.final,
            rows={TASK: row},
            index=Counter([row.entry]),
            counts={row.code: 1},
            queried={row.code: [TASK]},
        )

    def tell(self, run: int, kind: str, **facts: Any) -> None:
        """Add an event, a second after the one before."""
        self.events.append(Event(float(len(self.events)), "worker-0-1", run, kind, TASK, facts))

    def ran(self, step: str, fence: int, attempt: int, seen: list[Record], end: str = "succeed") -> None:
        """Add a run with one record, which it saves, if it did not die before."""
        self.tell(fence, "claim", step=step)
        self.tell(fence, "claimed", step=step, fence=fence, attempt=attempt)
        self.tell(fence, "seen", seen=[list(record) for record in seen], whole=True)
        self.tell(fence, "effect", held=True)
        self.tell(fence, "write", what="save", records=1)
        if end != "died":
            self.tell(fence, "written", outcome="ok")
            self.tell(fence, "write", what=end, records=1 if end == "succeed" else 0)
            self.tell(fence, "written", outcome="ok")


def sound() -> Story:
    """Return a task that went through all steps: by a worker that died, one that failed, and three that succeeded."""
    story, records = Story(), [(2, 1), (3, 1), (4, 1), (5, 1)]
    story.tell(0, "create")
    story.tell(0, "created")
    story.ran("collect", 1, 1, [], "died")
    story.ran("collect", 2, 2, [], "fail")
    story.ran("collect", 3, 3, records[:1])
    story.ran("weigh", 4, 1, records[:2])
    story.ran("deliver", 5, 1, records[:3])
    story.history = History.of(Event(*json.loads(json.dumps(list(vars(event).values())))) for event in story.events)
    entry = Entry(TASK, f"parcel#{END}#0", "2026-01-01T00:00:09")
    story.final = Final({TASK: _row(entry, records)}, Counter(), {}, {}, {}, {(TASK, EXACTLY_ONCE): 4})
    story.change()
    return story


def _row(entry: Entry, records: list[Record]) -> Row:
    return Row(entry, END, 0, 5, [1], "2026-01-01T00:00:00", "2026-01-01T00:00:09", entry.status_key, records)


def two_claims_with_one_fence(story: Story) -> None:
    """Give two runs the same fence."""
    story.run(4).fence = 5


def effect_after_a_later_claim(story: Story) -> None:
    """Let a worker believe in its lock after it was taken."""
    story.run(2).effects.append((story.run(3).claimed + 1, True))


def late_finish_accepted(story: Story) -> None:
    """Accept the end of a run that was taken over."""
    story.end(2).invoked = story.run(3).claimed + 1


def success_and_again(story: Story) -> None:
    """Claim a step again that has succeeded."""
    story.run(5).step = "weigh"


def step_without_the_one_before(story: Story) -> None:
    """Take the success away on which the next step stands."""
    story.end(4).what = "fail"


def attempts_beyond_the_limit(story: Story) -> None:
    """Count one attempt too many."""
    story.run(3).attempt = 5


def attempt_of_a_dead_worker_forgotten(story: Story) -> None:
    """Count the attempt after a death as the first one."""
    story.run(2).attempt = 1
    story.run(3).attempt = 2


def an_error_of_another_kind(story: Story) -> None:
    """Let something else leave the library."""
    story.history.crashes.append("KeyError")


def torn_row_seen(story: Story) -> None:
    """Let a worker read a mixed version."""
    story.run(4).whole = False


def torn_row_left(story: Story) -> None:
    """Leave a mixed version."""
    story.change(whole=False)


def older_version_seen(story: Story) -> None:
    """Let a later claim see less than an earlier one."""
    story.run(5).seen = [(3, 1)]


def acknowledged_save_gone(story: Story) -> None:
    """Lose a record everywhere that was acknowledged."""
    for run in story.history.runs:
        run.seen = [record for record in run.seen if record != (2, 1)]
    story.change(records=[(3, 1), (4, 1), (5, 1)])


def acknowledged_save_gone_in_the_end(story: Story) -> None:
    """Lose the last record."""
    story.change(records=[(2, 1), (3, 1), (4, 1)])


def record_of_a_loser(story: Story) -> None:
    """Keep a record of a success that was refused."""
    story.run(5).writes = [Write("succeed", 1, 30.0, "lost")]


def record_of_nobody(story: Story) -> None:
    """Keep a record that nobody stored."""
    story.change(records=[(2, 1), (3, 1), (4, 1), (5, 1), (5, 2)])


def records_out_of_order(story: Story) -> None:
    """Mix the order up."""
    story.change(records=[(3, 1), (2, 1), (4, 1), (5, 1)])


def left_in_progress(story: Story) -> None:
    """Leave a task where it is."""
    story.change(code=31)


def created_and_gone(story: Story) -> None:
    """Lose a task."""
    story.history.created.add("parcel-9")


def there_and_never_created(story: Story) -> None:
    """Have a task that nobody wanted."""
    story.history.asked.clear()


def success_forgotten(story: Story) -> None:
    """Let a success be undone."""
    story.change(code=33, attempt=4)


def success_of_nobody(story: Story) -> None:
    """Record a success that nobody had."""
    story.history.runs.remove(story.run(5))


def ignored_for_nothing(story: Story) -> None:
    """Set a task aside that has attempts left."""
    story.end(5).what = "fail"
    story.change(code=33, attempt=1)


def too_many_attempts_left(story: Story) -> None:
    """Leave attempts where there are none."""
    story.change(attempt=1)


def fence_went_back(story: Story) -> None:
    """Count fewer claims than there were."""
    story.change(fence=4)


def finished_and_unfinished(story: Story) -> None:
    """Remember a claim as unfinished whose end was acknowledged."""
    story.change(unfinished=[1, 3])


def died_and_finished(story: Story) -> None:
    """Forget that a claim never ended."""
    story.change(unfinished=[])


def fence_of_nobody(story: Story) -> None:
    """Count a claim as finished that nobody made."""
    story.change(fence=6)


def index_entry_missing(story: Story) -> None:
    """Lose an index entry."""
    story.final = replace(story.final, index=Counter())


def index_entry_stale(story: Story) -> None:
    """Keep an index entry too many."""
    story.final.index[Entry(TASK, "parcel#31#0", "2026-01-01T00:00:05")] += 1


def index_key_of_another_state(story: Story) -> None:
    """Let the key of the index be of another state than the row."""
    story.change(entry=replace(story.row.entry, status_key="parcel#30#0"))


def times_out_of_order(story: Story) -> None:
    """Let the row be updated after it was due."""
    story.change(update_time="2026-01-01T00:00:10")


def wrong_counts(story: Story) -> None:
    """Count one too many."""
    story.final.counts[END] = 2


def queried_twice(story: Story) -> None:
    """Return a task twice."""
    story.final.queried[END].append(TASK)


def third_slot(story: Story) -> None:
    """Leave pieces in a third slot."""
    story.final.pieces[TASK] = ["parcel#data#A#0", "parcel#data#C#0"]


def pieces_without_a_row(story: Story) -> None:
    """Leave pieces of a task that is gone."""
    story.final.pieces["parcel-9"] = ["parcel#data#A#0"]


def pieces_with_a_gap(story: Story) -> None:
    """Leave a piece without the one before."""
    story.final.pieces[TASK] = ["parcel#data#B#0", "parcel#data#B#2"]


def effect_missing(story: Story) -> None:
    """Lose the effect of a success."""
    story.final = replace(story.final, effects={})


def effect_of_a_loser(story: Story) -> None:
    """Keep the effect of a run that did not succeed."""
    story.final = replace(story.final, effects={(TASK, EXACTLY_ONCE): 2})


def effect_overwritten(story: Story) -> None:
    """Overwrite the effect of a run by that of an earlier one."""
    story.run(3).writes.insert(0, Write("transact", 0, 1.0, "ok"))
    story.final = replace(story.final, effects={(TASK, EXACTLY_ONCE): 4, (TASK, "collect"): 2})


BREAKS = {
    "fences are unique": (two_claims_with_one_fence,),
    "one owner at a time": (effect_after_a_later_claim,),
    "losers write nothing": (late_finish_accepted,),
    "no success is repeated": (success_and_again,),
    "no step is skipped": (step_without_the_one_before,),
    "attempts are counted": (attempts_beyond_the_limit, attempt_of_a_dead_worker_forgotten),
    "nothing crashed": (an_error_of_another_kind,),
    "rows are whole": (torn_row_seen, torn_row_left),
    "records only grow": (older_version_seen, records_out_of_order),
    "acknowledged records stay": (acknowledged_save_gone, acknowledged_save_gone_in_the_end),
    "losers leave no record": (record_of_a_loser, record_of_nobody, records_out_of_order),
    "every task ended": (left_in_progress, created_and_gone, there_and_never_created),
    "successes are on record": (success_forgotten, success_of_nobody),
    "nothing is ignored without a reason": (ignored_for_nothing,),
    "counts are within bounds": (too_many_attempts_left, fence_went_back),
    "ends are remembered": (finished_and_unfinished, died_and_finished, fence_of_nobody),
    "the index is exact": (index_entry_missing, index_entry_stale, index_key_of_another_state, times_out_of_order),
    "queries agree with the rows": (wrong_counts, queried_twice),
    "pieces are bounded": (third_slot, pieces_without_a_row, pieces_with_a_gap),
    "effects are exactly once": (effect_missing, effect_of_a_loser),
    "effects are of owners": (effect_overwritten,),
}
"""By promise, the ways to break it."""
