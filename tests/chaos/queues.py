"""Use cases that behave like queues and schedulers, on the parcels' table."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Signal, Step, UseCase
from tests.chaos.settings import Settings

FOLLOW_UPS = 2
"""How many follow-ups a step's success has."""
CHILDREN = 3
PERIOD = timedelta(seconds=1)
"""Between two occurrences."""
MOST_ATTEMPTS = 4
"""For steps that may be ignored. A part is retried forever."""


@dataclass(frozen=True)
class Queues:
    index: Any
    """Merges requests: one task per key, with two steps."""
    poll: Any
    sale: Any
    """Has follow-ups: notices with each success, and an alert if it is ignored."""
    notice: Any
    alert: Any
    report: Any
    """Waits for its parts between its two steps. After a cancel, its branch may end it."""
    part: Any
    member: Any
    bill: Any

    @property
    def steps(self) -> list[Any]:
        index, sale, report, member = self.index, self.sale, self.report, self.member
        steps = [index.gather, index.write, sale.sell, sale.ship, report.split, report.collect, report.recall]
        return [*steps, self.part.do, member.load, member.drive, self.bill.issue, self.bill.settle]


NAMES = tuple(Queues.__dataclass_fields__)


def queues_beside(parcel: Any, settings: Settings) -> Queues:
    """Return these use cases, with the parcels' connection."""
    table: Any = parcel.__base__
    lock_for = timedelta(seconds=settings.lock_seconds)
    common: dict[str, Any] = {"max_attempts": MOST_ATTEMPTS, "lock_for": lock_for}

    class Index(table):  # type: ignore[misc]  # a class of this run
        use_case_id = UseCase("index", urgent=True)
        gather = Step(10, **common)
        write = Step(20, **common)

        asks = ListAttribute[str](null=True)
        """Requests that are not done yet."""

    class Poll(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("poll")
        ask = Step(10, **common)

    class Notice(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("notice")
        send = Step(10)

        made_by = NumberAttribute(null=True)
        """The creating run's fence."""

    class Alert(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("alert")
        send = Step(10)

    def alert(task: Any, create: Any) -> None:
        create(Alert, task.task_id)

    class Sale(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("sale")
        sell = Step(10, **common, when_ignored=alert)
        ship = Step(20, **common, when_ignored=alert)

    class Report(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("report", urgent=True)
        split = Step(10, **common)
        collect = Step(20, **common)
        recall = Step(90, **common, branch=True)

    class Part(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("part")
        do = Step(10, max_attempts=50, lock_for=lock_for)

        page = UnicodeAttribute(null=True)

    class Member(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("member", urgent=True)
        load = Step(10, **common)
        drive = Step(20, **common)

    class Bill(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("bill", urgent=True)
        issue = Step(10, **common)
        settle = Step(20, **common)

        paid, approved = Signal(), Signal()

    return Queues(Index, Poll, Sale, Notice, Alert, Report, Part, Member, Bill)
