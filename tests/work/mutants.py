"""The guards of the dispatcher and of takeovers, each with what breaks without it."""

import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pynamodb_tracker.work.candidates import Candidates
from pynamodb_tracker.work.dispatcher import Dispatcher
from pynamodb_tracker.work.source import OnceThrough, StepSource
from pynamodb_tracker.work.takeovers import Takeovers


@dataclass(frozen=True)
class Mutant:
    """A change of one method, and the promise that it breaks."""

    name: str
    kind: type
    method: str
    old: str
    new: str
    problem: str
    setup: str

    def __str__(self) -> str:
        return self.name

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the method by its changed source."""
        found: Any = inspect.getattr_static(self.kind, self.method)
        function: Any = found.fget if isinstance(found, property) else found
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.method} has changed"
        names: dict[str, Any] = {}
        future = "from __future__ import annotations\n"
        changed = compile(future + source.replace(self.old, self.new), "a mutant", "exec")
        exec(changed, {**vars(sys.modules[self.kind.__module__]), "super": lambda: super(self.kind)}, names)  # noqa: S102 - code of the library
        monkeypatch.setattr(self.kind, self.method, names[self.method])


def _read(text: str) -> Iterator[Mutant]:
    for each in tomllib.loads(text)["mutant"]:
        kind, _, method = each.pop("method").partition(".")
        yield Mutant(kind=KINDS[kind], method=method, **each)


KINDS: dict[str, type] = {kind.__name__: kind for kind in (Candidates, Dispatcher, OnceThrough, StepSource, Takeovers)}
MUTANTS = [*_read(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))]
