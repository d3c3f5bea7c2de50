"""The control item of a use case with `control=True`: paused steps, and the names of its numbers."""
