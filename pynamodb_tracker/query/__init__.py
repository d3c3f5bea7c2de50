"""The only reader of the index: what it finds are candidates, and whole rows are read before they are believed."""

from pynamodb_tracker.query.counting import count, counts
from pynamodb_tracker.query.due import Todo
from pynamodb_tracker.query.full_scan import task_ids, tasks
from pynamodb_tracker.query.state_scan import Position, Walk
from pynamodb_tracker.query.window import Window

__all__ = ["Position", "Todo", "Walk", "Window", "count", "counts", "task_ids", "tasks"]
