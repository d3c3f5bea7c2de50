"""One run of a step: claims the task, runs the block, and records how it ended."""
