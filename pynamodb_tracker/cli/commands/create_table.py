"""`create-table`: makes the table of a class."""

from __future__ import annotations

from pynamodb_tracker.cli.exits import check_connection, told, where
from pynamodb_tracker.cli.importer import load
from pynamodb_tracker.cli.options import AppOption
from pynamodb_tracker.cli.terminal.echo import say

__all__ = ["create_table"]


def create_table(*, name: AppOption) -> None:
    """Make the table as its class declares it, and wait until it is there; a table that is there stays as it is."""
    with told():
        model = load(name)
    with told(model):
        check_connection(model)
        if model.exists():
            say(f"{where(model)} is there already; pynamodb-tracker doctor compares it with its class")
            return
        model.create_table(wait=True)
        say(f"{where(model)} is made")
