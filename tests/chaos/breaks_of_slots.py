"""Ways to break the promises about a limit's slots."""

from dataclasses import replace
from typing import Any

from tests.chaos.events import Event
from tests.chaos.story import Story


def told(story: Story, at: float, kind: str, token: str, *, number: int = 0, **facts: Any) -> None:
    """Add an event of the worker with that token."""
    event = Event(at, f"worker-{token}", number, kind, "", {"token": token, **facts})
    story.history.slots = [*story.history.slots, event]


def taken_before_it_has_expired(story: Story) -> None:
    told(story, 1.0, "take", "a", left=2.0)
    told(story, 2.9, "take", "b", left=2.0)


def taken_although_it_was_renewed(story: Story) -> None:
    told(story, 1.0, "take", "a", left=2.0)
    told(story, 2.0, "renew", "a", left=2.0)
    told(story, 3.5, "take", "b", left=2.0)


def taken_after_another_one_was_returned(story: Story) -> None:
    told(story, 1.0, "take", "a", left=2.0)
    told(story, 1.0, "take", "c", left=2.0, number=1)
    told(story, 1.5, "return", "c", number=1)
    told(story, 2.0, "take", "b", left=2.0)


def taken_above_the_number(story: Story) -> None:
    told(story, 1.0, "take", "a", left=2.0, number=3)


def locked_for_ever(story: Story) -> None:
    story.final = replace(story.final, lost_slots=[0])


BREAKS = {
    "no slot is held twice": (
        taken_before_it_has_expired,
        taken_although_it_was_renewed,
        taken_after_another_one_was_returned,
    ),
    "slots above the number are not taken": (taken_above_the_number,),
    "slots come back": (locked_for_ever,),
}
