"""A step as a class body declares it; the class that is made of it has a bound one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb_tracker.arguments import written_as
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.definition import DeclaredState, States

if TYPE_CHECKING:
    from pynamodb_tracker.control.limit import ConcurrencyLimit

T = TypeVar("T", bound=TaskRow)


class Step:
    """A step of a use case; steps run in the order of their numbers, and a success is pending of the next one.

    `number` is stored: a whole number from 1 to 990, at least 5 away from the others. Number steps 100, 200, 300, which
    leaves room for later ones: never renumber a step that tasks are stored with. `max_attempts` also counts attempts
    whose worker died; after the last one the task is ignored. `lock_for` is how long a worker may hold a task, and so
    how long it stays locked if that worker dies. `retry_delay`, a timedelta or a function of the attempt's number, is
    the pause after a failure. A start by id ignores a pause below the clock margin (2 seconds); workers and batches
    keep to it. `give_up_on` lists exceptions that make the task ignored at once. `also_from` lists further states from
    which the step may start.

    No success leads to a `branch` step by itself: a run chooses it by `ctx.go_to`, and its success is the end.
    Its number is above those of all other steps.

    With `give_up_after`, the first failure that comes later than that after the first of all is the last one.

    `when_ignored`, a function of (task, create), is called when a task is recorded as ignored: by its last failure, by
    a claimer that finds no attempt left, or by a person. Tasks that it creates by `create(Alert, task_id, ...)`, with
    the arguments of `ctx.create`, are created together with that. It may be called more than once, so it has no other
    effects. If it raises, or an id is another task's, that is logged, and the task is ignored without it.

    Workers and batches run at most as many tasks at the same time as the `concurrency_limit` has slots.

    Examples:
        >>> ship = Step(200, max_attempts=5, lock_for=timedelta(minutes=15))
    """

    @written_as("Step(100)")
    def __init__(
        self,
        number: int,
        *,
        max_attempts: int = 3,
        lock_for: timedelta = timedelta(minutes=5),
        retry_delay: timedelta | Callable[[int], timedelta] | None = None,
        give_up_on: Sequence[type[BaseException]] = (),
        give_up_after: timedelta | None = None,
        also_from: States = (),
        when_ignored: Callable[[Any, Callable[..., None]], object] | None = None,
        branch: bool = False,
        concurrency_limit: ConcurrencyLimit | None = None,
    ) -> None:
        self.name = ""
        self.number = number
        self.max_attempts = max_attempts
        self.lock_for = lock_for
        self.retry_delay = retry_delay
        self.give_up_on = give_up_on
        self.give_up_after = give_up_after
        self.also_from = also_from
        self.when_ignored = when_ignored
        self.branch = branch
        self.concurrency_limit = concurrency_limit
        self.pending = DeclaredState(self, Status.PENDING)
        """Pending of this step, for `also_from` of another one."""
        self.in_progress = DeclaredState(self, Status.IN_PROGRESS)
        """In progress at this step; no other step may start from it."""
        self.failed = DeclaredState(self, Status.FAILED)
        """Failed of this step, for `also_from` of another one."""
        self.succeeded = DeclaredState(self, Status.SUCCEEDED)
        """Succeeded of this step, for `also_from` of another one."""
        self.ignored = DeclaredState(self, Status.IGNORED)
        """Ignored of this step, for `also_from` of another one."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name  # one under another name is refused by the metaclass, which can name the class

    if TYPE_CHECKING:  # the metaclass replaces each step of a use case by a bound one

        def __get__(self, instance: T | None, owner: type[T]) -> BoundStep[T]: ...
