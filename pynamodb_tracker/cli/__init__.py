"""The command line, `pynamodb-tracker`: a module for each group of commands, and printing apart from doing."""

from pynamodb_tracker.cli.application import app

__all__ = ["app"]
