"""The only reader of the index. The index finds candidates; their rows are read before they are returned."""

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
