"""A step as it is declared in a class of tasks: its number, and how it is run, tried again and given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.state import State

if TYPE_CHECKING:
    from pynamodb_tracker.step.bound import BoundStep

__all__ = ["DeclaredState", "States", "Step"]

T = TypeVar("T", bound=TaskRow)

RetryDelay = timedelta | Callable[[int], timedelta]


@dataclass(frozen=True, slots=True)
class DeclaredState:
    """A state as it is named inside of the class body, where the use case is not known yet."""

    step: Step
    status: Status


States = Sequence[State[Any] | DeclaredState]


class Step:
    """A step of a use case; steps run in the order of their numbers, and a success is pending of the next one.

    `number` is stored: whole, from 1 to 990, and at least 10 apart from the others; renaming a step is free,
    renumbering is not. `max_attempts` counts attempts whose worker died, too; after the last one the task is ignored.
    `lock_for` is how long a worker may hold a task, and so how long a dead one blocks it. `retry_delay`, a timedelta
    or a function of the attempt's number, is the pause after a failure; one below the clock margin (2 seconds) has
    no effect. `give_up_on` are exceptions that end the task as ignored at once. `also_from` are further states from
    which the step may start.
    """

    def __init__(
        self,
        number: int,
        *,
        max_attempts: int = 3,
        lock_for: timedelta = timedelta(minutes=5),
        retry_delay: RetryDelay | None = None,
        give_up_on: Sequence[type[BaseException]] = (),
        also_from: States = (),
    ) -> None:
        self.name = ""
        self.number = number
        self.max_attempts = max_attempts
        self.lock_for = lock_for
        self.retry_delay = retry_delay
        self.give_up_on = give_up_on
        self.also_from = also_from

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def pending(self) -> DeclaredState:
        """Pending of this step, for `also_from` of another one."""
        return DeclaredState(self, Status.PENDING)

    @property
    def in_progress(self) -> DeclaredState:
        """In progress at this step; no other step may start from it."""
        return DeclaredState(self, Status.IN_PROGRESS)

    @property
    def failed(self) -> DeclaredState:
        """Failed of this step, for `also_from` of another one."""
        return DeclaredState(self, Status.FAILED)

    @property
    def succeeded(self) -> DeclaredState:
        """Succeeded of this step, for `also_from` of another one."""
        return DeclaredState(self, Status.SUCCEEDED)

    @property
    def ignored(self) -> DeclaredState:
        """Ignored of this step, for `also_from` of another one."""
        return DeclaredState(self, Status.IGNORED)

    def __get__(self, instance: T | None, owner: type[T]) -> BoundStep[T]:
        """Return the step bound to its class; itself while that class is still being made."""
        bound: dict[str, BoundStep[T]] = vars(owner).get("_bound_steps", {})
        return bound.get(self.name, self)  # type: ignore[arg-type]  # itself: seen by the metaclass alone
