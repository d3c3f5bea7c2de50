"""The use cases of the golden rows."""

from __future__ import annotations

import os
from datetime import timedelta

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynamodb_tracker import ConcurrencyLimit, Signal, Step, Task, UseCase

__all__ = ["AppTask", "Nightly", "Order", "Parcel", "Payout", "Piece", "Receipt", "Sale", "remind"]


class AppTask(Task):
    """The table."""

    class Meta:
        """The script that writes the rows gives its endpoint."""

        table_name = "compat"
        region = "us-east-1"
        host = os.environ.get("TRACKER_TEST_ENDPOINT")


class Order(AppTask):
    """Three steps, with a number and a text."""

    use_case_id = UseCase("order")

    confirm = Step(100)
    ship = Step(200, max_attempts=3, lock_for=timedelta(minutes=15))
    deliver = Step(300)

    amount = NumberAttribute(null=True)
    tracking_no = UnicodeAttribute(null=True)


class Parcel(AppTask):
    """Its states are on two shards of the index."""

    use_case_id = UseCase("parcel", status_shards=2)

    sort = Step(100)


class Receipt(AppTask):
    """Successful tasks stay for a century, so the table of a test does not delete them."""

    use_case_id = UseCase("receipt", keep_for=timedelta(days=36500))

    send = Step(100)


class Piece(AppTask):
    """Other tasks wait for it."""

    use_case_id = UseCase("piece")

    make = Step(100)


class Nightly(AppTask):
    """It repeats."""

    use_case_id = UseCase("nightly")

    report = Step(100)


class Sale(AppTask):
    """It waits for a signal, has a branch step, can be paused, and gives up by age."""

    use_case_id = UseCase("sale", pausable=True)

    check = Step(100, give_up_after=timedelta(days=1))
    pay = Step(200)
    ship = Step(300)
    refund = Step(900, branch=True)

    paid = Signal()


class Payout(AppTask):
    """Two of its tasks run at once, and its flow is counted."""

    use_case_id = UseCase("payout", count_transitions=True)

    pay = Step(100, concurrency_limit=ConcurrencyLimit("bank", 2))


def remind(task_id: str) -> None:
    """Be what a job calls."""
