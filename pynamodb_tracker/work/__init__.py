"""One function on many tasks."""
