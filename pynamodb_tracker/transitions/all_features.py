"""The rare features, which `features` imports together once it needs one."""

from pynamodb_tracker.transitions.branches import Branch
from pynamodb_tracker.transitions.child_lists import ChildList
from pynamodb_tracker.transitions.follow_ups import FollowUps
from pynamodb_tracker.transitions.groups import Groups
from pynamodb_tracker.transitions.joins import Parent
from pynamodb_tracker.transitions.parts import Parts
from pynamodb_tracker.transitions.postponing import Postponing
from pynamodb_tracker.transitions.repeats import NextRound, last_run
from pynamodb_tracker.transitions.signals import Awaits

__all__ = [
    "Awaits",
    "Branch",
    "ChildList",
    "FollowUps",
    "Groups",
    "NextRound",
    "Parent",
    "Parts",
    "Postponing",
    "last_run",
]
