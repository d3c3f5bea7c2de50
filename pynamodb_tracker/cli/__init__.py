"""The command line, `pynamodb-tracker`: commands, and modules that several of them share."""

from pynamodb_tracker.cli.application import app

__all__ = ["app"]
