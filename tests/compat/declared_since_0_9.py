"""The use case of the golden rows that only versions from 0.9 on can declare."""

from __future__ import annotations

from datetime import timedelta

from pynamodb_tracker import Awaited, Step, UseCase
from tests.compat.declared import AppTask

__all__ = ["Sale"]


class Sale(AppTask):
    """It awaits an answer, has a step aside, can be paused, and is given up by age."""

    use_case_id = UseCase("sale", control=True)

    check = Step(100, give_up_after=timedelta(days=1))
    pay = Step(200)
    ship = Step(300)
    refund = Step(900, aside=True)

    paid = Awaited()
