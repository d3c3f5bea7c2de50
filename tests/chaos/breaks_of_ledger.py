"""Ways to break the promises about transactions."""

from tests.chaos.runs import Write
from tests.chaos.story import Story


def booked_twice(story: Story) -> None:
    story.book(weigh=[(4, 0), (4, 0)])


def booked_by_two(story: Story) -> None:
    story.end(3).outcome = "unknown"
    story.run(3).step = "weigh"
    story.book(weigh=[(3, 0), (4, 0)])


def succeeded_and_not_booked(story: Story) -> None:
    story.book(deliver=[])


def succeeded_without_an_answer_and_not_booked(story: Story) -> None:
    story.end(5).outcome = "unknown"
    story.book(deliver=[])


def booked_for_another(story: Story) -> None:
    story.book(weigh=[(3, 0)])


def booked_and_not_on_record(story: Story) -> None:
    story.end(5).outcome = "unknown"
    story.change(code=33, attempt=1, unfinished=[1, 5])


def booked_where_none_is_to_be(story: Story) -> None:
    story.book(collect=[(3, 0)])


def ledger_of_no_task(story: Story) -> None:
    story.final.ledger["parcel-9"] = {"weigh": [(1, 0)]}


def booked_for_a_failure(story: Story) -> None:
    story.end(5).what = "fail"


def booked_for_a_loser(story: Story) -> None:
    story.end(5).outcome = "lost"


def booked_and_unfinished(story: Story) -> None:
    story.end(5).outcome = "unknown"
    story.change(unfinished=[1, 5])


def booked_without_its_records(story: Story) -> None:
    story.end(5).outcome = "unknown"
    story.change(records=story.row.records[:-1])


def applied_and_not_counted(story: Story) -> None:
    story.book(progress=[(1, 1), (2, 1), (3, 1), (4, 1)])


def applied_twice(story: Story) -> None:
    story.run(2).commits[0].outcome = "unknown"
    story.book(progress=[(1, 1), (2, 1), (2, 1), (3, 1), (4, 1), (5, 1)])


def told_as_not_applied_and_counted(story: Story) -> None:
    story.run(2).commits[0].outcome = "none"


def told_as_lost_and_counted(story: Story) -> None:
    story.run(2).commits[0].outcome = "lost"


def counted_for_nobody(story: Story) -> None:
    story.book(progress=[(1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1)])


def counted_after_a_later_fence(story: Story) -> None:
    story.book(progress=[(1, 1), (3, 1), (2, 1), (4, 1), (5, 1)])


def counted_though_it_was_taken_over(story: Story) -> None:
    story.run(2).writes.append(Write("commit", 0, story.run(3).claimed + 1))
    story.book(progress=[(1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1)])


def booked_though_it_was_taken_over(story: Story) -> None:
    story.end(4).outcome = "unknown"
    story.end(4).invoked = story.run(5).claimed + 1


BREAKS = {
    "successes are booked exactly once": (
        booked_twice,
        booked_by_two,
        succeeded_and_not_booked,
        succeeded_without_an_answer_and_not_booked,
        booked_for_another,
        booked_and_not_on_record,
        booked_where_none_is_to_be,
        ledger_of_no_task,
    ),
    "booked successes are whole": (
        booked_for_another,
        booked_for_a_failure,
        booked_for_a_loser,
        booked_and_unfinished,
        booked_without_its_records,
    ),
    "transactions are as told": (
        applied_and_not_counted,
        applied_twice,
        told_as_not_applied_and_counted,
        told_as_lost_and_counted,
        counted_for_nobody,
    ),
    "losers leave no mark": (
        counted_after_a_later_fence,
        counted_though_it_was_taken_over,
        booked_though_it_was_taken_over,
    ),
}
