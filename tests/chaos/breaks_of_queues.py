"""Ways to break the promises about merges, schedules, follow-ups and joins."""

from dataclasses import replace
from typing import Any

from tests.chaos.queue_story import change_queue, told
from tests.chaos.story import Story


def created_and_lost(story: Story) -> None:
    del story.final.queues["sale/s"]


def created_by_nobody(story: Story) -> None:
    story.final.queues["sale/t"] = story.final.queues["sale/s"]


def left_waiting(story: Story) -> None:
    change_queue(story.final, "report/r", code=20, waits=1)


def part_left(story: Story) -> None:
    change_queue(story.final, "part/r/0", code=12)


def acknowledged_without_a_mark(story: Story) -> None:
    change_queue(story.final, "part/r/0", marks=[])


def marked_though_it_failed(story: Story) -> None:
    change_queue(story.final, "poll/bank", marks=[(10, 1), (10, 2), (10, 3), (10, 9)])


def text_of_a_loser(story: Story) -> None:
    change_queue(story.final, "part/r/0", text=2)


def marked_out_of_order(story: Story) -> None:
    change_queue(story.final, "poll/bank", marks=[(10, 2), (10, 1), (10, 9)])


def step_done_twice(story: Story) -> None:
    change_queue(story.final, "sale/s", marks=[(10, 1), (10, 2)])


def step_left_out(story: Story) -> None:
    change_queue(story.final, "index/key-0", marks=[(10, 1), (20, 2), (20, 4)])


def succeeded_though_cancelled(story: Story) -> None:
    told(story.history, "cancelled", "sale/s", fence=1)


def request_lost(story: Story) -> None:
    change_queue(story.final, "index/key-0", done=["a", "c"])


def request_done_twice(story: Story) -> None:
    change_queue(story.final, "index/key-0", done=["a", "b", "b", "c"])


def request_in_two_places(story: Story) -> None:
    change_queue(story.final, "index/key-1", asks=["d", "e"])


def request_of_nobody(story: Story) -> None:
    change_queue(story.final, "index/key-0", done=["a", "b", "c", "x"])


def request_left_in_an_end(story: Story) -> None:
    change_queue(story.final, "index/key-0", done=["a", "b"], again=["c"])


def occurrence_off_the_grid(story: Story) -> None:
    change_queue(story.final, "poll/bank", occurrences=[100.0, 101.2, 103.0])


def occurrence_twice(story: Story) -> None:
    change_queue(story.final, "poll/bank", occurrences=[100.0, 101.0, 101.0, 103.0])


def extra_turn_of_nobody(story: Story) -> None:
    change_queue(story.final, "poll/bank", extras=[100.2])


def occurrence_early(story: Story) -> None:
    told(story.history, "occurrence", "poll/bank", occurrence=103.0, early=0.1, fence=9, attempt=1, ending="succeed")


def occurrence_left_out(story: Story) -> None:
    change_queue(story.final, "poll/bank", occurrences=[100.0, 103.0])


def schedule_ended(story: Story) -> None:
    change_queue(story.final, "poll/bank", code=1000)


def follow_up_missing(story: Story) -> None:
    del story.final.queues["notice/s/10/1"]


def follow_up_of_a_loser(story: Story) -> None:
    change_queue(story.final, "notice/s/10/1", made_by=2)


def follow_up_without_a_success(story: Story) -> None:
    change_queue(story.final, "sale/s", marks=[])


def ignored_without_an_alert(story: Story) -> None:
    del story.final.queues["alert/s"]


def alert_for_nothing(story: Story) -> None:
    change_queue(story.final, "sale/s", code=20)


def collected_before_its_parts(story: Story) -> None:
    told(story.history, "collect", "report/r", found={"r/0": 12}, is_late=False, waits=None)


def collected_while_it_waited(story: Story) -> None:
    told(story.history, "collect", "report/r", found={"r/0": 1000}, is_late=False, waits=1)


def begun_though_cancelled(story: Story) -> None:
    told(story.history, "stopped", "report/r", children=["part/r/0"])
    tried = told(story.history, "try", "part/r/0", step=10)
    told(story.history, "began", "part/r/0", step=10, fence=9, attempt=1, ending="boom")
    story.history.queues[-1] = replace(story.history.queues[-1], run=tried.run)


def part_missing(story: Story) -> None:
    del story.final.queues["part/r/1"]


def part_without_a_split(story: Story) -> None:
    change_queue(story.final, "report/r", marks=[])


def counter_left(story: Story) -> None:
    change_queue(story.final, "report/r", waits=1)


def parent_left(story: Story) -> None:
    change_queue(story.final, "part/r/1", parent="report#0#r")


def another_answer(story: Story) -> None:
    told(story.history, "counted", "bill/b", name="paid", value="y")


def paid_twice(story: Story) -> None:
    for key in "ab":
        told(story.history, "counted", "bill/b", name="paid", value="x", key=key)


def signal_of_nobody(story: Story) -> None:
    told(story.history, "send", "bill/b", name="approved", value="x")
    change_queue(story.final, "bill/b", signals={"paid": "x", "approved": "y"})


def answer_lost(story: Story) -> None:
    change_queue(story.final, "bill/b", signals={})


def cancelled_though_paid(story: Story) -> None:
    change_queue(story.final, "bill/b", decided={"paid": None, "approved": None})


def settled_too_early(story: Story) -> None:
    told(story.history, "settle", "bill/b", found={"paid": "x"}, missing=["approved"], is_late=False)


def still_awaited(story: Story) -> None:
    change_queue(story.final, "bill/b", awaits=["approved"])


def turn_left(story: Story) -> None:
    _regroup(story, turn="m")


def success_without_its_group(story: Story) -> None:
    _regroup(story, log=story.final.groups["van"].log[1:])


def two_at_once(story: Story) -> None:
    one, two, *rest = story.final.groups["van"].log
    _regroup(story, log=[one, rest[0], two, rest[1]])


def out_of_order(story: Story) -> None:
    log = story.final.groups["van"].log
    _regroup(story, log=[*log[2:], *log[:2]])


def _regroup(story: Story, **facts: Any) -> None:
    story.final.groups["van"] = replace(story.final.groups["van"], **facts)


BREAKS = {
    "groups are worked off": (turn_left,),
    "groups have what their tasks did": (success_without_its_group,),
    "groups keep their order": (two_at_once, out_of_order),
    "tasks of queues are there": (created_and_lost, created_by_nobody),
    "queues are worked off": (left_waiting, part_left),
    "marks are those of successes": (
        acknowledged_without_a_mark,
        marked_though_it_failed,
        marked_out_of_order,
        text_of_a_loser,
        created_and_lost,
    ),
    "steps of queues take turns": (step_done_twice, step_left_out),
    "cancelled runs record nothing": (succeeded_though_cancelled,),
    "requests are counted once": (request_lost, request_done_twice, request_in_two_places, request_of_nobody),
    "nothing is asked of the dead": (request_left_in_an_end,),
    "occurrences are on the grid and once": (occurrence_off_the_grid, occurrence_twice),
    "extra turns were asked for": (extra_turn_of_nobody,),
    "no occurrence is early": (occurrence_early,),
    "no occurrence is left out": (occurrence_left_out,),
    "schedules go on": (schedule_ended,),
    "follow ups come with their success": (follow_up_missing, follow_up_of_a_loser, follow_up_without_a_success),
    "alerts are for what is ignored": (ignored_without_an_alert, alert_for_nothing),
    "joins are not early": (collected_before_its_parts, collected_while_it_waited),
    "what is cancelled stays so": (begun_though_cancelled,),
    "parts come with their report": (part_missing, part_without_a_split),
    "first signals count": (another_answer, signal_of_nobody, answer_lost),
    "one event counts": (paid_twice,),
    "decisions know all signals": (cancelled_though_paid,),
    "bills wait for their signals": (settled_too_early, still_awaited),
    "counters are exact": (counter_left, parent_left),
}
