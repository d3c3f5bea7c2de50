"""Draw the demo's scene `kill`: `python docs/images/kill.py [FOLDER]` writes kill.svg and kill-narrow.svg.

It runs the scene once: what it prints is real.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from terminal import exported, recording

from pynamodb_tracker.demo import kill

WIDE, NARROW = 96, 54
"""Columns."""


class Both(Console):
    """Prints to a wide and to a narrow console."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = {"kill.svg": recording(WIDE), "kill-narrow.svg": recording(NARROW)}

    def print(self, *objects: Any, **options: Any) -> None:
        """Print to both, and break lines that are too long."""
        for console in self.drawn.values():
            console.print(*objects, **{**options, "soft_wrap": False})


if __name__ == "__main__":
    both = Both()
    both.print('$ make demo ARGS="--scene kill"')
    kill.run(both)
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
    for name, console in both.drawn.items():
        (folder / name).write_text(exported(console), encoding="utf-8")
