"""The use case of the golden rows that only versions from 0.9 on can declare."""

from __future__ import annotations

from datetime import timedelta

from pynamodb_tracker import ConcurrencyLimit, Signal, Step, UseCase
from tests.compat.declared import AppTask

__all__ = ["Payout", "Sale"]


class Sale(AppTask):
    """It awaits an answer, has a branch step, can be paused, and is given up by age."""

    use_case_id = UseCase("sale", pausable=True)

    check = Step(100, give_up_after=timedelta(days=1))
    pay = Step(200)
    ship = Step(300)
    refund = Step(900, branch=True)

    paid = Signal()


class Payout(AppTask):
    """Two of it run at once, and what passes through it is counted."""

    use_case_id = UseCase("payout", count_transitions=True)

    pay = Step(100, concurrency_limit=ConcurrencyLimit("bank", 2))
