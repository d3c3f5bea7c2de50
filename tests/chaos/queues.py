"""The use cases of the chaos that do what queues and schedulers do, on the table of the parcels."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute

from pynamodb_tracker import Signal, Step, UseCase
from tests.chaos.settings import Settings

FOLLOW_UPS = 2
"""How many follow-ups a success has, of each step."""
CHILDREN = 3
"""How many tasks a report waits for."""
PERIOD = timedelta(seconds=1)
"""Between two occurrences of a task that repeats."""
MOST_ATTEMPTS = 4
"""Of each step that may be ignored by itself; a part is tried again and again."""


@dataclass(frozen=True)
class Queues:
    """The use cases, by what they are for."""

    index: Any
    """Merges requests: one task for each key, with two steps."""
    poll: Any
    """Repeats."""
    sale: Any
    """Has follow-ups: notices with each success, and an alert where it is ignored."""
    notice: Any
    alert: Any
    report: Any
    """Waits for its parts between its two steps."""
    part: Any
    member: Any
    """Belongs to a group."""
    bill: Any
    """Waits for signals."""

    @property
    def steps(self) -> list[Any]:
        """The steps that workers run; of a task that repeats there is always one more."""
        index, sale, report, member = self.index, self.sale, self.report, self.member
        steps = [index.gather, index.write, sale.sell, sale.ship, report.split, report.collect]
        return [*steps, self.part.do, member.load, member.drive, self.bill.issue, self.bill.settle]


NAMES = tuple(Queues.__dataclass_fields__)
"""The use cases, as they are stored."""


def queues_beside(parcel: Any, settings: Settings) -> Queues:
    """Return these use cases, with the connection of the parcels."""
    table: Any = parcel.__base__
    lock_for = timedelta(seconds=settings.lock_seconds)
    common: dict[str, Any] = {"max_attempts": MOST_ATTEMPTS, "lock_for": lock_for}

    class Index(table):  # type: ignore[misc]  # a class of this run
        use_case_id = UseCase("index", urgent=True)
        gather = Step(10, **common)
        write = Step(20, **common)

        asks = ListAttribute[str](null=True)
        """What was asked for, and is not done yet."""

    class Poll(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("poll")
        ask = Step(10, **common)

    class Notice(table):  # type: ignore[misc]  # as above
        use_case_id = UseCase("notice")
        send = Step(10)

        made_by = NumberAttribute(null=True)
        """The fence of the run that made it."""

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
