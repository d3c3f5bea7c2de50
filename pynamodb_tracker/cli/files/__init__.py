"""Tasks as lines of a file."""
