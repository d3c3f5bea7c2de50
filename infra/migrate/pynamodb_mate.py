"""Move the tasks of pynamodb_mate's status tracker, version 6.0, into a table of pynamodb_tracker.

Copy this file, adapt everything above `move_all`, and run it until it prints 0.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pynamodb.attributes import JSONAttribute, NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute
from pynamodb.exceptions import UpdateError
from pynamodb.models import Model

from pynamodb_tracker import Step, Task, TaskAlreadyExistsError, UseCase


class OldTask(Model):
    """The old table, with one more attribute, `moved_from`."""

    class Meta:
        """Its name and region."""

        table_name = "old-tasks"
        region = "us-east-1"

    key = UnicodeAttribute(hash_key=True)
    value = UnicodeAttribute()
    status = NumberAttribute()
    lock = UnicodeAttribute()
    lock_time = UTCDateTimeAttribute()
    data = JSONAttribute(null=True)
    errors = JSONAttribute(null=True)
    moved_from = NumberAttribute(null=True)


class AppTask(Task):
    """The new table."""

    class Meta:
        """Its name and region."""

        table_name = "tasks"
        region = "us-east-1"


class Order(AppTask):
    """The use case, with the steps that had a class each."""

    use_case_id = UseCase("order")

    confirm_payment = Step(100, max_attempts=3)
    ship = Step(200, max_attempts=3, lock_for=timedelta(minutes=5))


STATES = {
    0: Order.confirm_payment.pending,
    6: Order.confirm_payment.failed,
    10: Order.confirm_payment.ignored,
    9: Order.ship.pending,
    20: Order.ship.pending,
    26: Order.ship.failed,
    30: Order.ship.ignored,
    29: Order.ship.succeeded,
}
"""The states of the codes of your TrackerConfig."""

IN_PROGRESS = {3: Order.confirm_payment.pending, 23: Order.ship.pending}
"""The codes that mean that a worker is running the task."""

LOCK_EXPIRE = timedelta(seconds=300 + 60)
"""The old `lock_expire_seconds`, and a minute for clocks that differ."""

USE_CASE = "order____"
"""What the keys of the use case begin with."""

MOVED = 999
"""A code that no old worker starts from."""


def move_all() -> int:
    """Move all tasks, and return how many are still in the old table. This can be repeated."""
    return sum(not move(old) for old in OldTask.scan(OldTask.key.startswith(USE_CASE)))


def move(old: OldTask) -> bool:
    """Move an old task, and return whether it is in the new table now."""
    if old.status == MOVED and old.moved_from is None:
        return True  # by an earlier round
    if old.status != MOVED and not take_away(old):
        return False
    came_from = int(old.moved_from)
    state = STATES.get(came_from) or IN_PROGRESS[came_from]
    history = (old.errors or {}).get("history", [])
    data = {**(old.data or {}), **({"old_error": history[-1]["error"]} if history else {})}
    with suppress(TaskAlreadyExistsError):  # of a round that was interrupted here, or of another process
        Order.create(old.key.removeprefix(USE_CASE), state=state, data=data)
    old.update([OldTask.moved_from.remove()])
    return True


def take_away(old: OldTask) -> bool:
    """Set a code that no old worker starts from, unless a worker is running the task."""
    as_read = (OldTask.status == old.status) & (OldTask.lock == old.lock)
    if old.status in IN_PROGRESS and datetime.now(UTC) < old.lock_time + LOCK_EXPIRE:
        return False
    actions = [
        OldTask.moved_from.set(OldTask.status),
        OldTask.status.set(MOVED),
        OldTask.value.set(f"{USE_CASE}{MOVED}____001"),
        OldTask.lock.set("moved"),
    ]
    try:
        old.update(actions, condition=as_read)
    except UpdateError as error:
        if error.cause_response_code != "ConditionalCheckFailedException":
            raise
        return False  # an old worker was faster: try again in the next round
    return True


if __name__ == "__main__":
    print(move_all())
