"""The use case that the chaos runs on: three steps, and what a block writes into its task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from pynamodb_tracker import Step, Task, UseCase
from tests.chaos.settings import Settings

__all__ = ["END", "EXACTLY_ONCE", "STEPS", "USE_CASE", "StepRule", "close", "effects", "parcels"]

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
EXACTLY_ONCE = "weigh"
"""The step whose effect is a row of another table that is written together with its success."""


def parcels(endpoint: str, settings: Settings) -> Any:
    """Return the use case with a connection of its own; its conditions are rendered when they are first needed."""

    class Table(Task):
        class Meta:
            table_name = settings.table
            region = "us-east-1"
            host = endpoint
            clock_margin = settings.margin
            connect_timeout_seconds = 1.0
            read_timeout_seconds = 1.0
            max_retry_attempts = 3

    lock_for = settings.lock_for
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


def effects(endpoint: str, settings: Settings) -> type[Any]:
    """Return the model of the effects: one row for each task and step whose effect has happened."""

    class Effect(Model):
        class Meta:
            table_name = f"{settings.table}-effects"
            region = "us-east-1"
            host = endpoint
            billing_mode = "PAY_PER_REQUEST"

        task_id = UnicodeAttribute(hash_key=True)
        step = UnicodeAttribute(range_key=True)
        fence = NumberAttribute()

    return Effect


def close(order: Any) -> None:
    """Close the sockets of the use case."""
    order.tracker.connection().connection.client.close()
