"""Sentences about tasks that the page, the terminal and JSON show in their own ways."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task


@dataclass(frozen=True, slots=True)
class Link:
    model: type[Task] | None
    path: str = ""
    query: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    kind: Literal["", "strong", "code"] = ""
    link: Link | None = None
    time: datetime | None = None  # if set, the page and the terminal show it in the viewer's time zone


class Sentence(tuple[Part, ...]):
    """The parts of a sentence, empty if there is nothing to say."""

    __slots__ = ()

    def __str__(self) -> str:
        return "".join(part.text for part in self)


def sentence(*parts: str | Part | Sentence) -> Sentence:
    found: list[Part] = []
    for part in parts:
        found += part if isinstance(part, Sentence) else [Part(part) if isinstance(part, str) else part]
    return Sentence(found)


def joined(*parts: str | Part | Sentence | None) -> Sentence:
    """Return the parts that say something, with dots between them."""
    return sentence(*[each for part in parts if part for each in (" · ", part)][1:])


def strong(text: object) -> Part:
    return Part(f"{text:,}" if isinstance(text, int) else str(text), "strong")


def task_link(model: type[Task], task_id: str) -> Part:
    return Part(task_id, link=Link(model, "task", {"id": task_id}))


def tasks_link(state: State[Any], text: str | None = None, **query: object) -> Part:
    """Return a step's name, or another text, with a link to its tasks in a state."""
    link = Link(state.model, "tasks", {"step": state.step, "state": str(state.status), **query})
    return Part(text or f"{state.model.__name__}.{state.step}", link=link)
