"""Tasks that cannot be read whole, for somebody stored an attribute otherwise: what of them can be."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import typer

from pynamodb_tracker.cli.exits import FOUND, one_line
from pynamodb_tracker.cli.terminal.echo import warn
from pynamodb_tracker.task.task import Task

__all__ = ["Unread", "is_bare", "told_by_commands", "unread_of"]

_SELDOM = frozenset({"errors", "errors_beside", "creation", "unfinished", "saves"})
"""Attributes of the tracker's own that no table shows."""


def unread_of(task: Task) -> dict[str, Exception]:
    """Return why which attributes of a task could not be read."""
    return dict(vars(task).get("_unread") or {})


class Unread:
    """Those among the tasks that a command reads."""

    def __init__(self, *, own_too: bool) -> None:
        """With `own_too`, attributes of the user's are missed as well."""
        self._own_too = own_too
        self._number = 0

    def told(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield the tasks with all that can be read of them, and print what cannot be."""
        for task in tasks:
            unread = unread_of(task)
            if unread and (self._own_too or is_bare(task)):
                self.add(task.task_id, unread)
            yield task

    def add(self, task_id: str, unread: Mapping[str, Exception]) -> None:
        """Note one, and print what cannot be read of it."""
        self._number += 1
        told = ", ".join(f"{name} ({one_line(error)})" for name, error in unread.items())
        warn(f"{task_id}  cannot be read: {told}")

    def exit(self) -> None:
        """Exit with 1 if there was one."""
        if self._number:
            raise typer.Exit(FOUND)


def is_bare(task: Task) -> bool:
    """Tell whether what tables show of a task cannot be read."""
    return not unread_of(task).keys().isdisjoint(task.tracker_attributes - _SELDOM)


@contextmanager
def told_by_commands() -> Iterator[None]:
    """Keep the library from logging what commands print: without a handler, Python prints warnings on stderr."""
    log = logging.getLogger("pynamodb_tracker")

    def is_other(record: logging.LogRecord) -> bool:
        return record.module != "damaged"

    log.addFilter(is_other)
    try:
        yield
    finally:
        log.removeFilter(is_other)
