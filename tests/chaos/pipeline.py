"""The use case that the chaos runs on: three steps with different pauses before another attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Step, Task, UseCase
from tests.chaos.settings import Settings

__all__ = ["END", "IGNORED", "STEPS", "USE_CASE", "StepRule", "close", "parcels"]

USE_CASE = "parcel"
END = 1000


@dataclass(frozen=True)
class StepRule:
    """What is known of a step without asking the library."""

    name: str
    number: int
    succeeded: int
    max_attempts: int

    @property
    def ignored(self) -> int:
        """The code of a task that was set aside at this step."""
        return self.number + 3


STEPS = (StepRule("collect", 10, 20, 4), StepRule("weigh", 20, 30, 4), StepRule("deliver", 30, END, 4))
IGNORED = {step.ignored: step for step in STEPS}


def parcels(endpoint: str, settings: Settings) -> Any:
    """Return the use case with a connection of its own; its conditions are rendered when they are first needed."""

    class Table(Task):
        class Meta:
            table_name = settings.table
            region = "us-east-1"
            host = endpoint
            clock_margin = timedelta(seconds=settings.margin_seconds)
            connect_timeout_seconds = 1.0
            read_timeout_seconds = 1.0
            max_retry_attempts = 3

    lock_for = timedelta(seconds=settings.lock_seconds)
    limits = {step.name: step.max_attempts for step in STEPS}

    class Parcel(Table):
        use_case_id = UseCase(USE_CASE, status_shards=2)

        collect = Step(10, max_attempts=limits["collect"], lock_for=lock_for)
        weigh = Step(20, max_attempts=limits["weigh"], lock_for=lock_for, retry_delay=timedelta(seconds=0.2))
        deliver = Step(30, max_attempts=limits["deliver"], lock_for=lock_for, retry_delay=_later)

        note = UnicodeAttribute(null=True)

    return Parcel


def _later(attempt: int) -> timedelta:
    return timedelta(seconds=0.1 * attempt)


def close(order: Any) -> None:
    """Close the sockets of the use case."""
    order.tracker.connection().connection.client.close()
