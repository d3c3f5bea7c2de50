"""The row of a task: its attributes, how they are stored, and what has changed in them."""

from pynamodb_tracker.model.row import StatusIndex, TaskRow

__all__ = ["StatusIndex", "TaskRow"]
