"""Writes of a task's row: their guards, attributes and participants, and why one was refused."""
