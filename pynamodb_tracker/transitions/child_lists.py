"""Putting the list of a task's children beside the success that begins to wait for them.

Only who holds the task puts it, in the transaction of that success; so no guard of its own is needed for that, and a
late copy is refused with the success. Several successes of a round may wait: then the list names the children of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pynamodb.expressions.operand import Path

from pynamodb_tracker.model.child_list import as_item, keys_in
from pynamodb_tracker.model.overflow import VERSION, RowKey
from pynamodb_tracker.model.references import round_of
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.transitions.lock import Journal
from pynamodb_tracker.transitions.participants import Action, Participant, Reason


class ChildList(Participant):
    """Puts the list; a transaction without room for it is sent without."""

    is_needed = False

    def __init__(self, task: TaskRow) -> None:
        self._task = task
        self._round = round_of(task)
        self.token = ""
        """That of the claim whose success begins to wait."""
        self._children: list[RowKey] = []
        """Those of this run."""
        self._earlier: list[RowKey] | None = None
        """Those of earlier runs of this round; None if there is no list of this round, as far as is known."""

    @classmethod
    def of_success(cls, run: Journal[Any], row: TaskRow) -> ChildList | None:  # noqa: ARG003 - it knows the task
        """Put the list if the run has created children."""
        follow_ups = run.additions.get("follow_ups")
        child_list: ChildList | None = None if follow_ups is None else follow_ups.child_list
        if child_list is not None:
            child_list.token = run.claim.token
        return child_list

    def add(self, child: TaskRow) -> None:
        """Add a child of this run."""
        self._children.append((child.task_id, child.use_case_id))

    def actions(self) -> Sequence[Action]:
        """Return the put; a list of the same round is first read by its refusal."""
        table, key = self._task.tracker.connection(), (self._task.task_id, self._task.use_case_id)
        children = list(dict.fromkeys([*self._children, *(self._earlier or ())]))
        put: dict[str, Any] = {"TableName": table.table_name, "Item": as_item(key, self._round, self.token, children)}
        if self._earlier is None:
            of_round = Path(VERSION)
            condition = of_round.does_not_exist() | (of_round != self._round)
            request = table.get_operation_kwargs("", "", condition=condition)
            del request["Key"]
            put |= {**request, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        return [{"Put": put}]

    def refused(self, reasons: Sequence[Reason]) -> None:
        """Take in the list that is there."""
        self._earlier = keys_in(reasons[0].raw_item)
