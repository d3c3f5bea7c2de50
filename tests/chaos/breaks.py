"""Ways to break each promise in a correct history. The checker must find every one."""

from collections import Counter
from dataclasses import replace

from tests.chaos.final import Entry
from tests.chaos.pipeline import END
from tests.chaos.runs import Run, Write
from tests.chaos.story import TASK, Story


def two_claims_with_one_fence(story: Story) -> None:
    story.run(4).fence = 5


def effect_after_a_later_claim(story: Story) -> None:
    story.run(2).effects.append((story.run(3).claimed + 1, True))


def block_after_its_lock(story: Story) -> None:
    story.run(4).late = 1.0


def late_finish_accepted(story: Story) -> None:
    story.end(2).invoked = story.run(3).claimed + 1


def success_and_again(story: Story) -> None:
    story.run(5).step = "weigh"


def step_without_the_one_before(story: Story) -> None:
    story.end(4).what = "fail"


def back_to_an_earlier_step(story: Story) -> None:
    story.end(4).outcome = "unknown"
    story.run(5).step = "collect"


def attempts_beyond_the_limit(story: Story) -> None:
    story.run(3).attempt = 5


def attempt_of_a_dead_worker_forgotten(story: Story) -> None:
    story.run(2).attempt = 1
    story.run(3).attempt = 2


def an_error_of_another_kind(story: Story) -> None:
    story.history.crashes.append("KeyError")


def torn_row_seen(story: Story) -> None:
    story.run(4).whole = False


def torn_row_left(story: Story) -> None:
    story.change(whole=False)


def older_version_seen(story: Story) -> None:
    story.run(5).seen = [(3, 1)]


def acknowledged_save_gone(story: Story) -> None:
    for run in story.history.runs:
        run.seen = [record for record in run.seen if record != (2, 1)]
    story.change(records=[(3, 1), (4, 1), (5, 1)])


def acknowledged_save_gone_in_the_end(story: Story) -> None:
    story.change(records=[(2, 1), (3, 1), (4, 1)])


def record_of_a_loser(story: Story) -> None:
    story.run(5).writes = [Write("succeed", 1, 30.0, "lost")]


def record_of_nobody(story: Story) -> None:
    story.change(records=[(2, 1), (3, 1), (4, 1), (5, 1), (5, 2)])


def record_without_the_one_before(story: Story) -> None:
    story.change(records=[(2, 1), (3, 1), (4, 1), (5, 2)])


def records_out_of_order(story: Story) -> None:
    story.change(records=[(3, 1), (2, 1), (4, 1), (5, 1)])


def left_in_progress(story: Story) -> None:
    story.change(code=31)


def created_and_gone(story: Story) -> None:
    story.history.created.add("parcel-9")


def there_and_never_created(story: Story) -> None:
    story.history.asked.clear()


def success_forgotten(story: Story) -> None:
    story.change(code=33, attempt=4)


def success_of_nobody(story: Story) -> None:
    story.history.runs.remove(story.run(5))


def ignored_for_nothing(story: Story) -> None:
    story.end(5).what = "fail"
    story.change(code=33, attempt=1)


def too_many_attempts_left(story: Story) -> None:
    story.change(attempt=1)


def fence_went_back(story: Story) -> None:
    story.change(fence=4)


def finished_and_unfinished(story: Story) -> None:
    story.change(unfinished=[1, 3])


def died_and_finished(story: Story) -> None:
    story.change(unfinished=[])


def fence_of_nobody(story: Story) -> None:
    story.change(fence=6)


def index_entry_missing(story: Story) -> None:
    story.final = replace(story.final, index=Counter())


def index_entry_stale(story: Story) -> None:
    story.final.index[Entry(TASK, "parcel#31#0", "2026-01-01T00:00:05")] += 1


def index_key_of_another_state(story: Story) -> None:
    story.change(entry=replace(story.row.entry, status_key="parcel#30#0"))


def times_out_of_order(story: Story) -> None:
    story.change(update_time="2026-01-01T00:00:10")


def wrong_counts(story: Story) -> None:
    story.final.counts[END] = 2


def queried_twice(story: Story) -> None:
    story.final.queried[END].append(TASK)


def third_slot(story: Story) -> None:
    story.final.chunks[TASK] = ["parcel#data#A#0", "parcel#data#C#0"]


def chunks_without_a_row(story: Story) -> None:
    story.final.chunks["parcel-9"] = ["parcel#data#A#0"]


def chunks_with_a_gap(story: Story) -> None:
    story.final.chunks[TASK] = ["parcel#data#B#0", "parcel#data#B#2"]


def row_of_a_query_torn(story: Story) -> None:
    story.history.torn.append("torn parcel-0")


def refused_as_done_by_nobody(story: Story) -> None:
    story.end(5).what = "fail"
    story.history.runs.append(Run("worker-0-1", 9, TASK, "deliver", "refused", "TaskAlreadySucceededError"))


def refused_as_missing(story: Story) -> None:
    story.history.runs.append(Run("worker-0-1", 9, TASK, "deliver", "refused", "TaskNotFoundError"))


BREAKS = {
    "fences are unique": (two_claims_with_one_fence,),
    "one owner at a time": (effect_after_a_later_claim,),
    "no block begins after its lock": (block_after_its_lock,),
    "losers write nothing": (late_finish_accepted,),
    "no success is repeated": (success_and_again,),
    "no step is skipped": (step_without_the_one_before, back_to_an_earlier_step),
    "attempts are counted": (attempts_beyond_the_limit, attempt_of_a_dead_worker_forgotten),
    "refusals are true": (refused_as_done_by_nobody, refused_as_missing),
    "nothing crashed": (an_error_of_another_kind,),
    "rows are whole": (torn_row_seen, torn_row_left, row_of_a_query_torn),
    "records only grow": (older_version_seen, records_out_of_order),
    "acknowledged records stay": (acknowledged_save_gone, acknowledged_save_gone_in_the_end),
    "losers leave no record": (
        record_of_a_loser,
        record_of_nobody,
        record_without_the_one_before,
        records_out_of_order,
    ),
    "every task ended": (left_in_progress, created_and_gone, there_and_never_created),
    "successes are on record": (success_forgotten, success_of_nobody),
    "nothing is ignored without a reason": (ignored_for_nothing,),
    "counts are within bounds": (too_many_attempts_left, fence_went_back),
    "ends are remembered": (finished_and_unfinished, died_and_finished, fence_of_nobody),
    "the index is exact": (index_entry_missing, index_entry_stale, index_key_of_another_state, times_out_of_order),
    "queries agree with the rows": (wrong_counts, queried_twice),
    "chunks are bounded": (third_slot, chunks_without_a_row, chunks_with_a_gap),
}
