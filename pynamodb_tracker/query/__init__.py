"""The only package that reads the index. It reads the rows of the entries before it returns them."""

from pynamodb_tracker.query.due import DueTasks, given_up
from pynamodb_tracker.query.full_scan import Count, counts, tasks, to_delete
from pynamodb_tracker.query.state_scan import Position, SeenIds, StateScan, Window, position

__all__ = [
    "Count",
    "DueTasks",
    "Position",
    "SeenIds",
    "StateScan",
    "Window",
    "counts",
    "given_up",
    "position",
    "tasks",
    "to_delete",
]
