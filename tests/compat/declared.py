"""The use cases of the golden rows: what each version that wrote them could declare."""

from __future__ import annotations

import os
from datetime import timedelta

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Step, Task, UseCase

__all__ = ["AppTask", "Nightly", "Order", "Parcel", "Piece", "Receipt", "remind"]


class AppTask(Task):
    """The table."""

    class Meta:
        """Its endpoint is given where another process declares it."""

        table_name = os.environ.get("COMPAT_TABLE", "compat")
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
    """Those that have succeeded are kept for a century, so that the table of a test does not delete them."""

    use_case_id = UseCase("receipt", keep_for=timedelta(days=36500))

    send = Step(100)


class Piece(AppTask):
    """Others wait for it."""

    use_case_id = UseCase("piece")

    make = Step(100)


class Nightly(AppTask):
    """It repeats."""

    use_case_id = UseCase("nightly")

    report = Step(100)


def remind(task_id: str) -> None:
    """Be what a job calls."""
