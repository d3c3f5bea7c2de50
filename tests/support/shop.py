"""The table and use cases of most contract tests."""

from datetime import timedelta
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Step, Task, UseCase


class AddressUnknown(Exception):  # noqa: N818 - a user's own exception, as in the README
    """Retrying cannot help."""


class AppTask(Task):
    class Meta:
        """A running test replaces the name and sets an endpoint."""

        table_name = "contract"
        region = "us-east-1"


class Order(AppTask):
    """Three steps: one with default settings, one with its own, and one that gives up."""

    use_case_id = UseCase("order")

    confirm_payment = Step(10)
    ship = Step(20, max_attempts=5, lock_for=timedelta(minutes=15), retry_delay=timedelta(minutes=1))
    deliver = Step(30, give_up_on=(AddressUnknown,))

    amount = NumberAttribute(null=True)
    tracking_no = UnicodeAttribute(null=True)


class Parcel(AppTask):
    """One step, five index shards, and a required attribute."""

    use_case_id = UseCase("parcel", status_shards=5)

    sort = Step(10)

    weight = NumberAttribute(default=1)


class Receipt(AppTask):
    """Ended tasks are kept for a month."""

    use_case_id = UseCase("receipt", keep_for=timedelta(days=30), keep_ignored_for=timedelta(days=30))

    send = Step(10, max_attempts=1)


class Ord(AppTask):
    """Its name is a prefix of another use case's."""

    use_case_id = UseCase("ord")

    work = Step(10)


class Order2(AppTask):
    """Its name begins with another use case's."""

    use_case_id = UseCase("order2")

    work = Step(10)


def created(**options: Any) -> pytest.MarkDecorator:
    """Have the fixture `task` of the contract create the task with these options."""
    return pytest.mark.parametrize("task", [options], ids=["created"], indirect=True)
