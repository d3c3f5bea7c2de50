"""The only reader of the index: what it finds are candidates, and their whole rows are read before they count."""

from pynamodb_tracker.query.due import DueTasks
from pynamodb_tracker.query.full_scan import counts, task_ids, tasks
from pynamodb_tracker.query.state_scan import Position, SeenIds, StateScan, Window

__all__ = ["DueTasks", "Position", "SeenIds", "StateScan", "Window", "counts", "task_ids", "tasks"]
