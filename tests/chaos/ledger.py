"""A ledger that only transactions write. It shows which were applied, how often, in which order."""

from collections.abc import Sequence
from typing import Any

from pynamodb.attributes import ListAttribute, UnicodeAttribute
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from tests.chaos.pipeline import STEPS, is_diverted
from tests.chaos.settings import Settings

Mark = tuple[int, int]
"""The run's fence, and the number of its transaction, from 1."""
SUCCESS = 0
"""The transaction number of a success."""
PROGRESS = "progress"
"""The account for commits before a block's end. The others have step names, for successes."""
BOOKED = {"weigh": 2, "deliver": 3, "send_back": 2}
"""One task in this many has its successes of that step in the ledger, so they take a transaction."""
_PREFIX = "ledger#"


def is_booked(task_id: str, step: str) -> bool:
    """Return whether a transaction with the ledger records the success of a task's step."""
    if step == STEPS[0].name and is_diverted(task_id):
        return int(task_id.rpartition("-")[2]) % 2 == 0
    return step in BOOKED and int(task_id.rpartition("-")[2]) % BOOKED[step] == 0


def account_in(key: str) -> str:
    """Return the account with that range key, or nothing."""
    return key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else ""


def marks(item: dict[str, Any]) -> Sequence[Mark]:
    pairs = (mark["S"].split(".") for mark in item["marks"]["L"])
    return [(int(fence), int(number)) for fence, number in pairs]


class Ledger:
    """All tasks' accounts: items in their table, under keys that no use case has."""

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
        """Let a transaction add a mark to an account, each time it is applied."""
        added = self._model.marks.set((self._model.marks | []).append(["{}.{}".format(*mark)]))
        transaction.update(self._model(task_id, _PREFIX + account), [added])
