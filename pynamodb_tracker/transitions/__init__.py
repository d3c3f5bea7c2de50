"""Creating, claiming and ending tasks.

docs/explanation/life-of-a-task.md lists the transitions, and docs/explanation/lock.md explains their guards.
"""

from pynamodb_tracker.transitions.claims import claim as claim
from pynamodb_tracker.transitions.commands import SeenDeletes as SeenDeletes
from pynamodb_tracker.transitions.commands import delete as delete
from pynamodb_tracker.transitions.commands import ignore as ignore
from pynamodb_tracker.transitions.commands import unlock as unlock
from pynamodb_tracker.transitions.ending import fail as fail
from pynamodb_tracker.transitions.ending import release as release
from pynamodb_tracker.transitions.success import check_in as check_in
from pynamodb_tracker.transitions.success import commit as commit
from pynamodb_tracker.transitions.success import commit_success as commit_success
from pynamodb_tracker.transitions.success import extend as extend
from pynamodb_tracker.transitions.success import find_outcome as find_outcome
from pynamodb_tracker.transitions.success import save as save
from pynamodb_tracker.transitions.success import settle_unknown_writes as settle_unknown_writes
from pynamodb_tracker.transitions.success import succeed as succeed
from pynamodb_tracker.writes.creations import NewTask as NewTask
from pynamodb_tracker.writes.creations import build_claimed_task as build_claimed_task
from pynamodb_tracker.writes.creations import create as create
from pynamodb_tracker.writes.lock import Claim as Claim
from pynamodb_tracker.writes.lock import Journal as Journal
from pynamodb_tracker.writes.lock import PendingSuccess as PendingSuccess
from pynamodb_tracker.writes.refusals import note_unrecorded as note_unrecorded
from pynamodb_tracker.writes.refusals import too_slow as too_slow
from pynamodb_tracker.writes.transition import StepStatements as StepStatements
from pynamodb_tracker.writes.transition import get as get
