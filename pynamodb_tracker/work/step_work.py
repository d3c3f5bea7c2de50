"""What it takes to work on one step: how its tasks start, what they do, its pause and its concurrency limit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.status import Codes

if TYPE_CHECKING:
    from pynamodb_tracker.control.item import Pause
    from pynamodb_tracker.control.slots import StepSlots


class Definition(Protocol):
    """The part of a step's definition that an engine uses."""

    model: Any
    codes: Codes

    @property
    def shards(self) -> int:
        """How many shards each state has."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the index is never behind the table."""

    @property
    def lock_lifetime(self) -> timedelta:
        """How long a lock that nobody extends keeps others from taking the task over."""

    def pause(self) -> Pause | None:
        """Return the current pause of the step."""

    def slots(self) -> StepSlots | None:
        """Return this process's slots of the step's concurrency limit."""

    def shard_of(self, task_id: str) -> int:
        """Return the shard of a task."""

    def due_codes_in(self, shard: int, *codes: int) -> Any:
        """Return the due tasks in these states, in one shard."""


class StepWork:
    """One step and the function to run on its tasks."""

    def __init__(
        self, of: Definition, start: Callable[[str], Any], function: Callable[[Any], Any], *, is_named: bool = False
    ) -> None:
        """`start` returns the run of a task. Tasks that a person named ignore the step's pause and its limit."""
        self.codes = of.codes
        self.name = f"{of.model.__name__}.{of.codes.step}"
        self.start = start
        self.function = function
        self.pause: Callable[[], Pause | None] = (lambda: None) if is_named else of.pause
        self.slots = None if is_named else of.slots()
        self.log_fields = log_fields(of.codes.use_case_id, of.codes.step)
