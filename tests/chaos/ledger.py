"""A ledger in its own table, which only transactions of runs write: which were applied, how often, in which order."""

from collections.abc import Sequence
from typing import Any

from pynamodb.attributes import ListAttribute, UnicodeAttribute
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from tests.chaos.pipeline import STEPS, is_diverted
from tests.chaos.settings import Settings

Mark = tuple[int, int]
"""The fence of the run that made it, and the number of its transaction within that run, from 1."""
SUCCESS = 0
"""The number of the transaction that records the success of a run."""
PROGRESS = "progress"
"""The account of what blocks commit before their end; all others have the name of a step, for its successes."""
BOOKED = {"weigh": 2, "deliver": 3, "send_back": 2}
"""Of how many tasks one has each success of that step in the ledger; it then ends by a transaction, whoever runs it."""
_PREFIX = "ledger#"


def is_booked(task_id: str, step: str) -> bool:
    """Return whether the success of a step of a task is recorded by a transaction that writes to the ledger."""
    if step == STEPS[0].name and is_diverted(task_id):
        return int(task_id.rpartition("-")[2]) % 2 == 0
    return step in BOOKED and int(task_id.rpartition("-")[2]) % BOOKED[step] == 0


def account_in(key: str) -> str:
    """Return the account that an item of that range key is; nothing where it is none."""
    return key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else ""


def marks(item: dict[str, Any]) -> Sequence[Mark]:
    """Return the marks in an item, in the order in which they were made."""
    pairs = (mark["S"].split(".") for mark in item["marks"]["L"])
    return [(int(fence), int(number)) for fence, number in pairs]


class Ledger:
    """The accounts of all tasks: items in their table, under keys that no use case has."""

    def __init__(self, endpoint: str, settings: Settings) -> None:
        class Account(Model):
            class Meta:
                table_name = settings.table
                region = "us-east-1"
                host = endpoint

            task_id = UnicodeAttribute(hash_key=True)
            key = UnicodeAttribute(range_key=True, attr_name="use_case_id")
            marks = ListAttribute[str](null=True)

        self._model = Account

    def mark(self, transaction: TransactWrite, task_id: str, account: str, mark: Mark) -> None:
        """Have a transaction add a mark to an account: once more each time when it is applied."""
        so_far = self._model.marks | []
        added = self._model.marks.set(so_far.append(["{}.{}".format(*mark)]))
        transaction.update(self._model(task_id, _PREFIX + account), [added])
