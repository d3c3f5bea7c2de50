"""What is written to a person: sentences on stdout and stderr, nothing of which can steer a terminal."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = ["console", "count", "escaped", "say", "say_json", "say_json_array", "warn", "width_at_terminal", "write"]


def escaped(text: str) -> str:
    r"""Return the text on one line, with what does not print written as `\x1b`: ids and errors come from anybody.

    That is control characters, line breaks, and marks that turn the direction of writing round.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Console(Console):
    """A console that leaves it to the command what a closed pipe means: rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this where it has caught the error


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints what it is given and colours nothing by itself."""
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def width_at_terminal(on: Console) -> int | None:
    """Return the columns of the terminal; None for a file or a pipe, whose lines may be of any length."""
    return on.width if on.file.isatty() else None


def say(text: str | Text, on: Console | None = None) -> None:
    """Print a line on stdout, as long as it is."""
    (on or console()).print(text, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on stderr, as long as it is."""
    console(stderr=True).print(escaped(text), soft_wrap=True)


def write(text: str) -> None:
    """Write on stdout for programs; an OSError where it is closed, which prints to people let pass."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.write(text)


def say_json(told: object) -> None:
    """Print one JSON document on stdout."""
    write(json.dumps(told, indent=2) + "\n")


def say_json_array(entries: Iterable[Mapping[str, Any]]) -> None:
    """Print a JSON array on stdout, an entry a line as they come: of any length."""
    before = "["
    for entry in entries:
        write(f"{before}\n  {json.dumps(entry)}")
        before = ","
    write("[]\n" if before == "[" else "\n]\n")


def count(number: int, noun: str = "task") -> str:
    """Return a number with its noun: `1 task`, `10,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
