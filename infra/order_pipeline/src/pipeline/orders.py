"""The table and its orders."""

import os
from datetime import timedelta

from pynamodb.attributes import UnicodeAttribute

from pipeline.services import RefusedError
from pynamodb_tracker import DecimalAttribute, Step, Task, UseCase

_ATTEMPTS = 8
"""With the pauses between them, orders survive an outage of two hours."""


def later_each_time(attempt: int) -> timedelta:
    """Return the pause after a failed attempt: 1, 2, 4, 8, 16, 32 minutes, then one hour."""
    return timedelta(minutes=min(2 ** (attempt - 1), 60))


class PipelineTable(Task):
    """The table, whose name comes from the template."""

    class Meta:
        """Lambda sets the region in the environment."""

        table_name = os.environ["TASKS_TABLE"]


class Order(PipelineTable):
    """A customer's order."""

    use_case_id = UseCase("order", keep_for=timedelta(days=365))

    confirm_payment = Step(100, max_attempts=_ATTEMPTS, retry_delay=later_each_time, give_up_on=(RefusedError,))
    ship = Step(200, max_attempts=_ATTEMPTS, retry_delay=later_each_time, give_up_on=(RefusedError,))
    deliver = Step(300, max_attempts=_ATTEMPTS, retry_delay=later_each_time, give_up_on=(RefusedError,))

    amount = DecimalAttribute()
    address = UnicodeAttribute()
    receipt = UnicodeAttribute(null=True)
    tracking_no = UnicodeAttribute(null=True)
    handed_over = UnicodeAttribute(null=True)
