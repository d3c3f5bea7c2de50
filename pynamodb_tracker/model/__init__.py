"""The row of a task: its attributes, how they are stored, and what has changed in them."""
