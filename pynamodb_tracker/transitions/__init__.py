"""Creating, claiming and ending tasks. docs/explanation/lock.md explains the guards.

| transition | from → to | guarded by |
| --- | --- | --- |
| create | nothing → pending, or a given state | the row does not exist |
| merge | runnable → itself, running → itself to run again, succeeded → pending | the row as read, no request since |
| create claimed | nothing → in_progress | the row does not exist |
| claim | pending, failed (due), in_progress (expired) → in_progress | status, due or expired, attempt, later token |
| claim from | one other state → in_progress | status, due_time, a later token |
| spend | runnable or abandoned without an attempt left → ignored | the row as read |
| succeed | in_progress → pending at the next step, or the end | this run's token, in_progress |
| fail | in_progress → failed, or ignored | the same |
| release | in_progress → pending | the same |
| commit | in_progress → succeeded, or unchanged, with the user's writes | the same, and a later save |
| extend, save | in_progress → in_progress | the same, and only forward |
| reopen | failed, ignored, cancelled → pending | status, a later token |
| hurry | pending → itself, urgent | status, a later token, its life |
| ignore | pending, failed, abandoned → ignored | the row as read, a later token |
| ignore running | in_progress → ignored | the claim as read |
| cancel | anything but an end → cancelled, or pending at a branch step | the row as read, a later token |
| cancel running | in_progress → the same | the claim as read |
| unlock | in_progress → pending, and the attempt counts | the claim as read |
| enter | nothing, ignored or cancelled → pending in a group's queue | the group's row as read |
| hand on | the group's next task becomes due as the previous one ends | the same, and its place in the queue |
| delete | anything that no worker holds → nothing | the row as read, its create_time |
"""

from pynamodb_tracker.transitions.claims import claim
from pynamodb_tracker.transitions.commands import SeenDeletes, delete, ignore, unlock
from pynamodb_tracker.transitions.ending import fail, release
from pynamodb_tracker.transitions.success import (
    check_in,
    commit,
    commit_success,
    extend,
    find_outcome,
    save,
    settle_unknown_writes,
    succeed,
)
from pynamodb_tracker.writes.creations import NewTask, build_claimed_task, create
from pynamodb_tracker.writes.lock import Claim, Journal, PendingSuccess
from pynamodb_tracker.writes.refusals import note_unrecorded, too_slow
from pynamodb_tracker.writes.transition import StepStatements, get

__all__ = [
    "Claim",
    "Journal",
    "NewTask",
    "PendingSuccess",
    "SeenDeletes",
    "StepStatements",
    "build_claimed_task",
    "check_in",
    "claim",
    "commit",
    "commit_success",
    "create",
    "delete",
    "extend",
    "fail",
    "find_outcome",
    "get",
    "ignore",
    "note_unrecorded",
    "release",
    "save",
    "settle_unknown_writes",
    "succeed",
    "too_slow",
    "unlock",
]
