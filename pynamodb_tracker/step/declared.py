"""A step in a class body, which the class replaces by a bound step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb_tracker.model.arguments import shown, written_as
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.definition import DeclaredState, States

if TYPE_CHECKING:
    from pynamodb_tracker.control.limit import ConcurrencyLimit

T = TypeVar("T", bound=TaskRow)


class Step:
    """A step of a use case. Steps run in the order of their numbers: a success makes the next one pending.

    Args:
        number: The stored number, from 1 to 990, at least 5 away from the others, such as 100, 200, 300. Never renumber
            a step while tasks are stored with its number.
        max_attempts: How many attempts a task has before it is ignored, including attempts that ended with their
            worker.
        lock_for: How long a worker may hold a task, and so how long it stays locked if the worker dies.
        retry_delay: The pause after a failure, or a function that returns it for the attempt's number. A start by id
            ignores a pause below the clock margin (2 seconds). If the function raises, or returns something else, the
            pause doubles with each attempt, from 1 to 2 seconds up to an hour.
        give_up_on: Exceptions that make the task ignored at once.
        give_up_after: A failure this long after the first one is the last one.
        also_from: More states from which the step may start.
        when_ignored: A function of (task, create), called whenever a task becomes ignored. It creates tasks in the same
            transaction by `create(Alert, task_id, ...)`, with the arguments of `ctx.create`. It may be called more than
            once, so it must not have other effects. If it raises, or an id is taken, that is logged, and the task is
            ignored without it.
        branch: Only `ctx.go_to` leads to a branch step, and its success ends the task. Branch steps have the highest
            numbers.
        on_cancel: `cancel` moves tasks to this branch step, after which they end as cancelled. At most one per use
            case.
        concurrency_limit: Limits how many tasks run at the same time, in all programs.

    Raises:
        TypeError: An argument is unknown, or `concurrency_limit` is not a ConcurrencyLimit.

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
        on_cancel: bool = False,
        concurrency_limit: ConcurrencyLimit | None = None,
    ) -> None:
        if concurrency_limit is not None and not hasattr(concurrency_limit, "slots"):
            raise TypeError(
                f"Step({number}, concurrency_limit={shown(concurrency_limit)}): declare a limit, "
                'bank = ConcurrencyLimit("bank", 20), and pass concurrency_limit=bank'
            )
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
        self.on_cancel = on_cancel
        self.concurrency_limit = concurrency_limit
        self.pending = DeclaredState(self, Status.PENDING)
        """For `also_from` of another step, like the states below."""
        self.in_progress = DeclaredState(self, Status.IN_PROGRESS)
        self.failed = DeclaredState(self, Status.FAILED)
        self.succeeded = DeclaredState(self, Status.SUCCEEDED)
        self.ignored = DeclaredState(self, Status.IGNORED)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name  # the metaclass refuses a second name

    if TYPE_CHECKING:  # the metaclass replaces the steps of a use case by bound ones

        def __get__(self, instance: T | None, owner: type[T]) -> BoundStep[T]: ...
