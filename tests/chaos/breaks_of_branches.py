"""Ways to break the promises about branches, postponements, parts and pauses."""

from tests.chaos.events import Event
from tests.chaos.runs import Part, Run
from tests.chaos.story import TASK, Story


def step_that_nobody_has_chosen(story: Story) -> None:
    story.history.runs.append(Run("worker-0-1", 9, TASK, "send_back", "ok", fence=6))


def passed_over_and_not_told(story: Story) -> None:
    story.change(skipped_steps=[])


def parts_left_behind(story: Story) -> None:
    story.change(of_round=["checkpoints"])


def fatal_task_that_succeeded(story: Story) -> None:
    story.final.rows["parcel-20"] = story.row


def attempt_of_a_postponement(story: Story) -> None:
    story.end(2).what = "postpone"


def part(fence: int, *, stored: bool = True, time: float = 0.0, key: str = "key") -> Part:
    return Part("charge", time, key=key, result=fence, stored=stored)


def do(story: Story, fence: int, *, stored: bool = True, key: str = "key") -> None:
    story.run(fence).calls.append(part(fence, key=key))
    story.run(fence).got.append(part(fence, stored=stored))


def stored_and_repeated(story: Story) -> None:
    do(story, 1)
    do(story, 2)


def taken_along_and_repeated(story: Story) -> None:
    do(story, 2, stored=False)
    do(story, 3)


def another_result(story: Story) -> None:
    do(story, 2)
    story.run(3).got.append(part(1))


def result_of_nobody(story: Story) -> None:
    story.run(3).got.append(part(2))


def another_key(story: Story) -> None:
    story.run(1).calls.append(part(1))
    story.run(2).calls.append(part(2, key="other"))


def one_key_for_two(story: Story) -> None:
    do(story, 4)
    do(story, 5)


def stored_by_a_loser(story: Story) -> None:
    do(story, 2)
    story.run(2).calls[0].time = story.run(3).claimed + 1


def paused(story: Story, begun: float) -> Run:
    for at, kind, facts in ((0.0, "pause", {"step": "weigh", "seconds": 25.0}), (1.0, "paused", {})):
        story.history.pauses.append(Event(at, "worker-1-1", 7, kind, "", facts))
    run = story.run(4)
    run.controlled, run.begun = True, begun
    return run


def started_while_it_was_paused(story: Story) -> None:
    paused(story, 17.0)


BREAKS = {
    "branches are chosen": (step_that_nobody_has_chosen, passed_over_and_not_told),
    "ends leave nothing of attempts": (parts_left_behind,),
    "fatal tasks are ignored": (fatal_task_that_succeeded,),
    "postponements use up no attempt": (attempt_of_a_postponement,),
    "stored parts are not repeated": (stored_and_repeated, taken_along_and_repeated, another_result, result_of_nobody),
    "keys of parts stay": (another_key, one_key_for_two),
    "losers store no part": (stored_by_a_loser,),
    "paused steps stand still": (started_while_it_was_paused,),
}
