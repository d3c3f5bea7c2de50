"""Ways to break the promises about releases, interrupts and forks."""

from tests.chaos.runs import Write
from tests.chaos.story import Story


def released(story: Story, fence: int) -> None:
    """Let a person release that run's task before its next claim."""
    story.run(fence).released = story.run(fence + 1).claimed - 1


def ended_though_it_was_released(story: Story) -> None:
    released(story, 2)


def saved_after_it_was_released(story: Story) -> None:
    released(story, 1)
    story.run(1).writes.append(Write("save", 0, story.run(1).released + 0.5, "ok"))


def written_by_a_child(story: Story) -> None:
    story.history.children.append("child parcel-0")


def released_and_finished(story: Story) -> None:
    released(story, 3)
    story.end(3).outcome = "unknown"


def told_as_lost_and_finished(story: Story) -> None:
    story.end(2).outcome = "lost"


def locked_by_nobody(story: Story) -> None:
    story.change(fence=6, unfinished=[1, 6])


def locked_though_the_error_denied_it(story: Story) -> None:
    story.tell(9, "claim", step="deliver")
    story.tell(9, "refused", outcome="unknown", announced=False)
    story.retell()
    story.change(fence=6, unfinished=[1, 6])


def interrupted_and_not_recorded(story: Story) -> None:
    story.events[-1].facts["interrupt"] = "OutOfTime"  # it left without a note, and without a line in the log
    story.retell()
    story.change(code=31, unfinished=[1, 5])


BREAKS = {
    "released runs record nothing": (ended_though_it_was_released, saved_after_it_was_released),
    "children of forks write nothing": (written_by_a_child,),
    "losses are true": (released_and_finished, told_as_lost_and_finished),
    "locks of nobody are announced": (locked_by_nobody, locked_though_the_error_denied_it),
    "ends are remembered": (interrupted_and_not_recorded,),
}
