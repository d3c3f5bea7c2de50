"""The use case of the chaos: three steps with different pauses before retries, and a branch."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynamodb_tracker import Step, Task, UseCase
from tests.chaos.settings import Settings
from tests.chaos.slots import SCALE

USE_CASE = "parcel"
URGENT = 0.3
"""The share of reopened and merged tasks that become urgent."""
AGAIN = timedelta(seconds=0.2)
END = 1000


@dataclass(frozen=True)
class StepRule:
    """Facts about a step, without asking the library."""

    name: str
    number: int
    succeeded: int
    max_attempts: int

    @property
    def ignored(self) -> int:
        return self.number + 3


PLAIN = (StepRule("collect", 10, 20, 4), StepRule("weigh", 20, 30, 4), StepRule("deliver", 30, END, 4))
BRANCH = StepRule("send_back", 90, END, 4)
STEPS = (*PLAIN, BRANCH)
DIVERTED = (replace(PLAIN[0], succeeded=BRANCH.number), BRANCH)
OFTEN = (*PLAIN, *PLAIN, *PLAIN, BRANCH)
"""The steps, as often as workers look for their tasks. One task in seven takes the branch."""
IGNORED = {step.ignored: step for step in STEPS}


def is_diverted(task_id: str) -> bool:
    """Return whether the first step leads to the branch step."""
    return int(task_id.rpartition("-")[2]) % 7 == 5


def is_urgent(task_id: str) -> bool:
    return int(task_id.rpartition("-")[2]) % 5 == 3


def is_fatal(task_id: str) -> bool:
    """Return whether a task kills each worker that runs it alone, and is postponed by all others."""
    return int(task_id.rpartition("-")[2]) % 100 == 20


def path_of(task_id: str) -> tuple[StepRule, ...]:
    return DIVERTED if is_diverted(task_id) else PLAIN


def behind(task_id: str, step: str) -> list[StepRule]:
    """Return the steps that are behind a task after this one has succeeded, run or skipped."""
    reached = next((rule.succeeded for rule in path_of(task_id) if rule.name == step), 0)
    return [rule for rule in STEPS if rule.number < reached]


def skipped_steps(task_id: str, code: int) -> list[int]:
    there, path = END if code == END else code - code % 10, {step.number for step in path_of(task_id)}
    return [rule.number for rule in STEPS if rule.number < there and rule.number not in path]


def parcels(endpoint: str, settings: Settings) -> Any:
    """Return the use case with its own connection. Its conditions are rendered when they are first needed."""

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
        use_case_id = UseCase(USE_CASE, status_shards=2, pausable=True, urgent=True)

        collect = Step(10, max_attempts=limits["collect"], lock_for=lock_for)
        weigh = Step(
            20,
            max_attempts=limits["weigh"],
            lock_for=lock_for,
            retry_delay=timedelta(seconds=0.2),
            concurrency_limit=SCALE,
        )
        deliver = Step(30, max_attempts=limits["deliver"], lock_for=lock_for, retry_delay=_later)

        send_back = Step(90, max_attempts=limits["send_back"], lock_for=lock_for, branch=True)

        note = UnicodeAttribute(null=True)

    return Parcel


def _later(attempt: int) -> timedelta:
    return timedelta(seconds=0.1 * attempt)


def close(order: Any) -> None:
    order.tracker.connection().connection.client.close()
